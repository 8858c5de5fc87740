// Package dev runs the operator of a project on a control plane of its own, and again whenever its
// source changes, while the control plane and the objects in it remain.
package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/cmd/flyball/internal/generate"
	"flyball.dev/cmd/flyball/internal/projectfile"
	"flyball.dev/cmd/flyball/internal/watch"
	"flyball.dev/controlplane"
	"flyball.dev/internal/kubeconfig"
	"flyball.dev/internal/selfsigned"
)

// Options are the options of Run.
type Options struct {
	// Main is the main package of the operator; by default it is looked for.
	Main string
	// Args are the arguments of the operator.
	Args []string
	// Generate are the options for generating; none are those of a Kubebuilder project. Without
	// code generation, GenerateNothing is true.
	Generate        []string
	GenerateNothing bool
	// CRDs and Webhooks are the folders with the manifests to install.
	CRDs, Webhooks string
	// WebhookPort is the port of 127.0.0.1 at which the operator serves its webhooks.
	WebhookPort int
	// Kubeconfig is the file to write the administrator's kubeconfig to.
	Kubeconfig string
	// Listen is the address of the API server.
	Listen string
	// Grace is how long the operator may take to end after SIGTERM.
	Grace time.Duration
}

// session is a run of "flyball dev".
type session struct {
	Options
	out       *output
	plane     *controlplane.ControlPlane
	dir       string // a temporary folder
	installer *installer
	requests  *requests
	operator  *operator
	generated *generate.Result // the last one that has succeeded
}

// Run runs the operator of the project in the current folder until ctx ends or the control plane
// fails. When it returns, the operator and the control plane have ended.
func Run(ctx context.Context, out io.Writer, o Options) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{Options: o, out: newOutput(out)}
	s.out.closed = cancel
	if err := checkUnused(o.Kubeconfig); err != nil {
		return err
	}
	if s.Main == "" {
		s.Main, err = mainPackage(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
	}
	if len(s.Options.Generate) == 0 && !s.GenerateNothing && !generate.IsProject(".") {
		s.GenerateNothing = true
		s.out.say("nothing is generated: this folder has no PROJECT, api, apis or internal/controller")
	}
	if s.dir, err = os.MkdirTemp("", "flyball-dev-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	watcher, err := watch.New(".", s.isSource)
	if err != nil {
		return fmt.Errorf("cannot watch the files: %w", err)
	}
	defer watcher.Close()
	if err := s.startPlane(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.plane.Stop()) }()
	defer s.stopOperator()
	return s.loop(ctx, watcher)
}

// checkUnused returns an error if a file is the kubeconfig of a control plane that runs: whoever uses it
// would get another one instead.
func checkUnused(file string) error {
	content, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil // there is none
	}
	config, err := clientcmd.NewDefaultClientConfig(*content, nil).ClientConfig()
	if err != nil {
		return nil // it is not complete
	}
	config.Timeout = 2 * time.Second
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil // it is not complete
	}
	if _, err := client.ServerVersion(); err == nil {
		return fmt.Errorf("the control plane of the kubeconfig %s runs already, at %s: stop it, or choose another file with --kubeconfig",
			file, config.Host)
	}
	return nil
}

// isSource reports whether the operator depends on a file.
func (s *session) isSource(path string) bool {
	if generate.IsSource(path) || filepath.Base(path) == projectfile.Name {
		return true
	}
	for _, dir := range []string{s.CRDs, s.Webhooks} {
		if abs, err := filepath.Abs(dir); err == nil && filepath.Dir(path) == abs && filepath.Ext(path) == ".yaml" {
			return true
		}
	}
	return false
}

// startPlane starts the control plane, and writes the kubeconfigs of the administrator and the
// operator. They are different users, so that the audit log can tell them apart.
func (s *session) startPlane() error {
	start := time.Now()
	s.requests = &requests{lines: make(chan string, 10)}
	policy := filepath.Join(s.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	token := rand.Text()
	var err error
	s.plane, err = controlplane.Start(context.Background(), controlplane.Options{
		Listen: s.Listen,
		Tokens: map[string]*user.DefaultInfo{token: {Name: operatorUser, Groups: []string{user.SystemPrivilegedGroup}}},
		Audit:  auditlog.Options{PolicyFile: policy, Writer: s.requests},
	})
	if err != nil {
		return err
	}
	operatorConfig, err := withToken(s.plane.Kubeconfig(), token)
	if err == nil {
		err = errors.Join(kubeconfig.Write(s.Kubeconfig, s.plane.Kubeconfig()), kubeconfig.Write(s.operatorKubeconfig(), operatorConfig))
	}
	if err == nil {
		s.installer, err = newInstaller(s.plane.Config(), s.CRDs, s.Webhooks)
	}
	if err == nil {
		err = s.makeCertificate()
	}
	if err != nil {
		return errors.Join(err, s.plane.Stop())
	}
	s.out.say("the control plane is at %s (%s); in another terminal:\n  export KUBECONFIG=%s", s.plane.URL(),
		seconds(time.Since(start)), s.Kubeconfig)
	return nil
}

// withToken returns a kubeconfig with a token in place of its credentials.
func withToken(content []byte, token string) ([]byte, error) {
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	return clientcmd.Write(*config)
}

func (s *session) operatorKubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// makeCertificate makes the certificate of the operator's webhook server, in the folder below the
// one for temporary files where webhook servers look by default.
func (s *session) makeCertificate() error {
	const host, validity = "127.0.0.1", 365 * 24 * time.Hour
	pair, err := selfsigned.New("localhost", validity, []string{"localhost", host})
	if err != nil {
		return err
	}
	certificate, key, err := pair.PEM()
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "k8s-webhook-server", "serving-certs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s.installer.ca, s.installer.address = pair.CAPEM(), net.JoinHostPort(host, strconv.Itoa(s.WebhookPort))
	return errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
}

// loop runs the operator, and again after each change.
func (s *session) loop(ctx context.Context, watcher *watch.Watcher) error {
	changes, failed := make(chan watch.Change), make(chan error, 1)
	ended := make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	defer func() { stop(); <-ended }()
	go func() {
		defer close(ended)
		for {
			change, err := watcher.Next(watching)
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

// cycle brings everything up to date with the source: it generates, builds, installs and restarts
// the operator. If something is wrong it says so, and leaves the operator as it is.
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
			s.out.fail("the API server rejects it: %v", err)
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
	if s.operator != nil {
		done := t.start("stop")
		s.stopOperator()
		done()
	}
	if ctx.Err() != nil {
		return
	}
	if err := releaseLeases(ctx, s.installer.client); err != nil {
		s.out.fail("the leases of the old operator cannot be released: %v", err)
	}
	s.sayRequests()
	s.requests.restart(change.At)
	env := []string{"KUBECONFIG=" + s.operatorKubeconfig(), "TMPDIR=" + s.dir}
	operator, err := startOperator(program, s.Args, env, s.out)
	if err != nil {
		s.out.fail("the operator cannot be started: %v", err)
		return
	}
	s.operator = operator
	s.out.say("the operator has started: %s after the change (%s)", seconds(time.Since(change.At)), &t)
}

// sayRequests says what is known of the requests of the operator so far.
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

// prepare generates and builds at the same time, since most changes do not change what is generated,
// and builds again if they do. It returns the program.
func (s *session) prepare(ctx context.Context, t *timings) (program string, ok bool) {
	program = filepath.Join(s.dir, "operator")
	next := program + ".new"
	building, cancel := context.WithCancel(ctx)
	defer cancel()
	built := make(chan error, 1)
	buildDone := t.start("build")
	go func() { built <- build(building, s.Main, next) }()
	generateDone := t.start("generate")
	codeChanged, generateErr := s.generate(ctx)
	generateDone()
	if codeChanged {
		cancel()
	}
	err := <-built
	if codeChanged {
		err = build(ctx, s.Main, next)
	}
	buildDone()
	switch {
	case ctx.Err() != nil:
		return "", false
	case err != nil:
		s.out.fail("%v", err)
		return "", false
	case generateErr != nil:
		s.out.fail("%v", generateErr)
		return "", false
	}
	if err := os.Rename(next, program); err != nil {
		s.out.fail("%v", err)
		return "", false
	}
	return program, true
}

// generate generates code and manifests, says what has changed, and reports whether Go files have.
func (s *session) generate(ctx context.Context) (codeChanged bool, err error) {
	if s.GenerateNothing {
		return false, nil
	}
	result, err := generate.Run(ctx, generate.Options{Args: s.Options.Generate, Tags: generate.DefaultTags})
	if err != nil {
		return false, err
	}
	s.generated = result
	for _, w := range result.Warnings {
		s.out.fail("%s", w)
	}
	for _, file := range result.Files {
		if file.State == generate.Stale {
			s.out.fail("stale %s: its types are gone; flyball generate --prune removes it", file.Path)
		}
	}
	for _, file := range result.Changed() {
		s.out.say("%s %s", file.State, file.Path)
		codeChanged = codeChanged || filepath.Ext(file.Path) == ".go"
	}
	return codeChanged, nil
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

// describe lists paths, some of them if they are many.
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
