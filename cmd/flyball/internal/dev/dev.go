// Package dev runs the operator of a project on a new control plane, and restarts the operator whenever its source
// changes. The control plane and its objects remain.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"flyball.dev/cmd/flyball/internal/generate"
	"flyball.dev/cmd/flyball/internal/progress"
	"flyball.dev/cmd/flyball/internal/projectfile"
	"flyball.dev/cmd/flyball/internal/watch"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/internal/kubeconfig"
)

// Options are the options of Run.
type Options struct {
	// Main is the main package of the operator. By default, Run finds it.
	Main string
	// Args are the arguments of the operator.
	Args []string
	// Generate are the options for generating; the default is the options of a Kubebuilder project. GenerateNothing
	// disables generating.
	Generate        []string
	GenerateNothing bool
	// Manifests are the folders with the manifests to install: kustomizations, or folders of files. The default is the
	// manifests that the project deploys, together with the generated manifests.
	Manifests []string
	// AsAdmin runs the operator as an administrator instead of its service account.
	AsAdmin bool
	// WebhookPort is the port of 127.0.0.1 at which the operator serves its webhooks.
	WebhookPort int
	// Kubeconfig is the file to write the administrator's kubeconfig to.
	Kubeconfig string
	// Listen is the address of the API server.
	Listen string
	// DataDir is the directory that keeps the objects of the control plane; empty for none.
	DataDir string
	// Script is the script of all pods; nil for none.
	Script *pods.Script
	// NoConsole leaves out the console that an operator without one would get.
	NoConsole bool
	// StackTraces shows the stack traces in the operator's log unfolded.
	StackTraces bool
	// Grace is how long the operator may take to end after SIGTERM.
	Grace time.Duration
}

// session is a run of "flyball dev".
type session struct {
	Options
	out       *output
	plane     *controlplane.ControlPlane
	dir       string // a temporary folder
	token     string // of the operator
	manifests *reader
	installer *installer
	requests  *requests
	operator  *operator
	watcher   *watch.Watcher
	embedded  embedded
	generated *generate.Result // the last one that has succeeded
	stacks    *stacks          // for the log of the operator; nil folds nothing

	console      overlay
	notGenerated string // the last line about why nothing is generated
}

// Run runs the operator of the project in the current folder until ctx ends or the control plane
// fails. When it returns, the operator and the control plane have ended.
func Run(ctx context.Context, out io.Writer, o Options) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{Options: o, out: newOutput(out)}
	s.out.closed = cancel
	if err := kubeconfig.CheckUnused(o.Kubeconfig); err != nil {
		return err
	}
	if s.Main == "" {
		stop := progress.Start(s.out.own(), progress.Doing("listing the packages"))
		s.Main, err = mainPackage(ctx)
		stop()
		if ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
	}
	if !s.StackTraces {
		wd, err := os.Getwd()
		if err != nil {
			return err
		}
		s.stacks = &stacks{project: wd}
	}
	if len(s.Options.Generate) == 0 && !s.GenerateNothing && !generate.Configured() {
		s.GenerateNothing = true
		s.out.say("nothing is generated: this folder has no PROJECT, api, apis, internal/controller or internal/webhook, " +
			"and nothing runs controller-gen in its Makefile")
	}
	if s.dir, err = os.MkdirTemp("", "flyball-dev-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	s.manifests = &reader{folders: o.Manifests, generated: generate.Manifests(o.Generate), scratch: s.dir}
	if s.watcher, err = watch.New(".", s.isSource); err != nil {
		return fmt.Errorf("cannot watch the files: %w", err)
	}
	defer s.watcher.Close()
	if err := s.startPlane(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.plane.Stop()) }()
	defer s.stopOperator()
	return s.loop(ctx)
}

// isSource reports whether the operator depends on a file.
func (s *session) isSource(path string) bool {
	if generate.IsSource(path) || filepath.Base(path) == projectfile.Name {
		return true
	}
	return s.embedded.contains(path) || s.manifests.dependsOn(path)
}

// loop runs the operator, and again after each change.
func (s *session) loop(ctx context.Context) error {
	changes, failed := make(chan watch.Change), make(chan error, 1)
	ended := make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	defer func() { stop(); <-ended }()
	go func() {
		defer close(ended)
		for {
			change, err := s.watcher.Next(watching)
			if err != nil {
				failed <- err
				return
			}
			select {
			case changes <- change:
			case <-watching.Done():
				return
			}
		}
	}()
	s.cycle(ctx, watch.Change{At: time.Now()})
	for {
		var exited <-chan struct{}
		if s.operator != nil {
			exited = s.operator.done
		}
		select {
		case <-ctx.Done():
			s.out.say("stopping")
			return nil
		case <-s.plane.Done():
			return errors.Join(errors.New("the control plane has ended"), s.plane.Err())
		case err := <-failed:
			if ctx.Err() != nil {
				continue
			}
			return fmt.Errorf("cannot watch the files: %w", err)
		case line := <-s.requests.lines:
			s.out.say("%s", line)
		case <-exited:
			s.sayRequests()
			s.out.fail("the operator has exited with code %d; waiting for the next change", s.operator.exitCode())
			s.operator = nil
		case change := <-changes:
			if !s.generated.AllCurrent(change.Paths) {
				s.cycle(ctx, change)
			}
		}
	}
}

// cycle brings everything up to date with the source: it generates, builds, installs and restarts the operator. After a
// failure it prints the reason, and does not touch the operator.
func (s *session) cycle(ctx context.Context, change watch.Change) {
	if len(change.Paths) > 0 {
		s.out.say("changed: %s", describe(change.Paths))
	}
	var t timings
	program, ok := s.prepare(ctx, &t)
	if ctx.Err() != nil {
		return
	}
	if ok {
		done := t.start("install")
		changes, err := s.installer.install(ctx)
		done()
		if ctx.Err() != nil {
			return
		}
		for _, line := range changes {
			s.out.say("%s", line)
		}
		if err != nil {
			s.out.fail("%v", err)
			ok = false
		}
	}
	if !ok {
		if s.operator != nil {
			s.out.fail("the operator from before the change runs on")
		} else {
			s.out.fail("waiting for the next change")
		}
		return
	}
	s.restart(ctx, program, change, &t)
}

// restart replaces the operator by a program.
func (s *session) restart(ctx context.Context, program string, change watch.Change, t *timings) {
	if s.operator != nil {
		done := t.start("stop")
		s.stopOperator()
		done()
	}
	if ctx.Err() != nil {
		return
	}
	if err := s.writeOperatorKubeconfig(); err != nil {
		s.out.fail("the kubeconfig of the operator cannot be written: %v", err)
		return
	}
	if err := releaseLeases(ctx, s.installer.client); err != nil {
		s.out.fail("the leases of the old operator cannot be released: %v", err)
	}
	s.sayRequests()
	s.requests.restart(change.At)
	env := []string{"KUBECONFIG=" + s.operatorKubeconfig(), "TMPDIR=" + s.dir}
	operator, err := startOperator(program, s.Args, env, s.out, s.stacks)
	if err != nil {
		s.out.fail("the operator cannot be started: %v", err)
		return
	}
	s.operator = operator
	s.out.say("the operator has started: %s after the change (%s)", seconds(time.Since(change.At)), t)
}

// sayRequests prints the known requests of the operator.
func (s *session) sayRequests() {
	for {
		select {
		case line := <-s.requests.lines:
			s.out.say("%s", line)
		default:
			return
		}
	}
}

// stopOperator stops the operator, if it runs.
func (s *session) stopOperator() {
	if s.operator == nil {
		return
	}
	if s.operator.stop(s.Grace) {
		s.out.fail("the operator has not ended within %v of SIGTERM, and was killed", s.Grace)
	}
	s.operator = nil
}

// describe lists paths, and only some of them if there are many.
func describe(paths []string) string {
	const most = 3
	wd, _ := os.Getwd()
	var names []string
	for i, path := range paths {
		if i == most {
			return strings.Join(names, ", ") + fmt.Sprintf(" and %d more", len(paths)-most)
		}
		if rel, err := filepath.Rel(wd, path); err == nil {
			path = rel
		}
		names = append(names, path)
	}
	return strings.Join(names, ", ")
}
