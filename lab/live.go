package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
)

// A Program is an operator that runs as a process of its own, and that nobody has changed for the lab.
type Program struct {
	// CRDs are the definitions of its custom resources, and CRDPaths files and directories with further ones.
	CRDs     []*apiextensionsv1.CustomResourceDefinition
	CRDPaths []string
	// Scheme has the Go types of its custom resources, if the steps of a scenario use any.
	Scheme *runtime.Scheme
	// Objects are created before the program starts, such as its roles. The namespaces come first.
	Objects []client.Object
	// User and Groups are the identity of the program. By default it is the administrator.
	User   string
	Groups []string
	// RemovedVersions serves API versions that Kubernetes has removed, as the field of controlplane.Options does.
	RemovedVersions bool
	// Start starts the program, which must reach the API server as access says. It returns once the program runs.
	Start func(access Access) (Running, error)
}

// Access is how a program reaches the API server of the lab.
type Access struct {
	// Config has the address of the server, its certificate authority and the bearer token of the program.
	Config *rest.Config
	// Namespace is the namespace of the user, if it is a service account, and otherwise "default".
	Namespace string
}

// Running is a program that has been started. Its methods may be called from several goroutines at once.
type Running interface {
	// Terminate asks the program to end. Kill ends it at once, with all its child processes.
	Terminate()
	Kill()
	// Done is closed when the program has ended, and Err returns the reason then, or nil if its exit code was 0.
	Done() <-chan struct{}
	Err() error
}

// LiveOptions bound an exploration of a [Program].
type LiveOptions struct {
	// Time is the length of the exploration, without the clean runs. The default is 10 minutes. Zero Runs mean no limit. A second
	// run, which confirms a finding, is not one of the Runs.
	Time time.Duration
	Runs int
	// Replay, if not nil, is the only schedule to run, once.
	Replay Schedule
	// View is how long a view stands still after the last change. The default is 20 seconds.
	View time.Duration
	// Progress receives lines before and after each run. It may be nil.
	Progress io.Writer
}

// ExploreProgram runs a scenario with a program as [Explore] does with an operator of this process, but in real time:
// the program speaks HTTPS to a server that belongs to the lab. The lab chooses no order; it lets everything happen
// except for the faults of a schedule. So the same schedule need not give the same run. ExploreProgram runs the schedule
// of a finding once more, and the finding has a Divergence if that run does not show it. ExploreProgram does not shrink the
// finding: the schedule has the one to three choices of the run. The tenth finding ends the exploration.
//
// Scenario.Rest is how long nothing must change until the world is at rest. The default is 5 seconds.
//
// ExploreProgram ends early, without an error, when ctx ends. It returns an error if the program does not run without
// faults, or does not come to rest twice in the same state, and, without Replay, if no fault took place.
func ExploreProgram(ctx context.Context, program Program, scenario Scenario, o LiveOptions) (*Report, error) {
	if program.Start == nil {
		return nil, errors.New("lab: the program has no Start")
	}
	e := &explorer{operator: Operator{CRDs: program.CRDs, CRDPaths: program.CRDPaths, Scheme: program.Scheme, Replicas: 1}, scenario: scenario,
		program: &program, ctx: ctx, progress: o.Progress, seen: map[uint64]bool{}}
	if e.progress == nil {
		e.progress = io.Discard
	}
	e.setDefaults()
	e.limits.view = o.View
	if o.View == 0 {
		e.limits.view = 20 * time.Second
	}
	if scenario.Rest == 0 {
		e.limits.horizon = 5 * time.Second
	}
	e.limits.actions, e.limits.time = 100_000, 5*time.Minute
	if err := o.Replay.normalize(&e.conditions); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	if err := e.prepare(); err != nil {
		return nil, err
	}
	defer func() { e.close() }()
	fmt.Fprintln(e.progress, "clean runs: what does the operator do without faults?")
	finding, err := e.learn()
	switch {
	case err != nil:
		return nil, err
	case finding != nil:
		return nil, fmt.Errorf("the run without faults has a finding: %s: %s\n\n%s", finding.Check, finding.Message, finding.Story)
	}
	p := e.points()
	if len(p.writes) == 0 && len(p.sights) == 0 {
		return nil, errors.New("the operator sees no event and writes nothing in the clean run: does it get the kubeconfig, and do the steps concern it?")
	}
	e.limits.time = 3*time.Minute + 3*e.known.duration
	report := e.searchLive(o, p)
	if ctx.Err() != nil || o.Replay != nil {
		return report, nil
	}
	return report, report.errNoFault()
}

// searchLive runs schedules until the budget is spent.
func (e *explorer) searchLive(o LiveOptions, p *points) *Report {
	if o.Time == 0 {
		o.Time = 10 * time.Minute
	}
	report := &Report{}
	deadline := time.Now().Add(o.Time)
	families := e.families(p)
	plans, tried := e.plans(families), newCoverage(p, families)
	if o.Replay != nil {
		plans = func(yield func(Schedule) bool) { yield(o.Replay) }
	}
	for schedule := range plans {
		isOver := time.Now().After(deadline)
		report.late = isOver && report.Schedules+report.Unreached == 0
		if e.ctx.Err() != nil || isOver || o.Runs > 0 && report.Schedules >= o.Runs || len(report.Findings) >= maxFindings {
			break
		}
		fmt.Fprintf(e.progress, "run %d: %s\n", report.Schedules+report.Unreached+1, schedule.text())
		began := time.Now()
		r := e.run(schedule, clean{})
		switch {
		case e.ctx.Err() != nil:
		case !r.counts:
			report.Unreached++
			fmt.Fprintf(e.progress, "  %s: the run did not come to the point of a fault\n", age(time.Since(began)))
		default:
			report.Schedules++
			e.seen[r.signature] = true
			tried.add(schedule)
			if isNew := e.report(report, r.finding, began); isNew && o.Replay == nil {
				e.confirmLive(r.finding)
			}
		}
	}
	report.Runs, report.Coverage = len(e.seen), tried.report()
	return report
}

// report adds the finding of a run to the report, unless the report has it. It reports whether it has added one.
func (e *explorer) report(report *Report, f *Finding, began time.Time) bool {
	if f == nil {
		fmt.Fprintf(e.progress, "  %s: no finding\n", age(time.Since(began)))
		return false
	}
	fmt.Fprintf(e.progress, "  %s: %s: %s\n", age(time.Since(began)), f.Check, f.Message)
	if report.has(f.Check, f.Message) {
		return false
	}
	report.Findings = append(report.Findings, f)
	return true
}

// confirmLive carries out the schedule of a finding once more. In real time, two runs need not have the same writes, so it compares the
// findings alone.
func (e *explorer) confirmLive(f *Finding) {
	began := time.Now()
	second := e.run(f.Schedule, clean{})
	if f.Divergence = f.insteadIn(&second); e.ctx.Err() != nil {
		f.Divergence = "the exploration ended"
	}
	if f.Divergence == "" {
		fmt.Fprintf(e.progress, "  %s: the check fails in a second run, too\n", age(time.Since(began)))
		return
	}
	fmt.Fprintf(e.progress, "  %s: in a second run, %s\n", age(time.Since(began)), f.Divergence)
	f.Story += "\nThe run was in real time, and a replay need not show this. In a second run, " + f.Divergence + "\n"
}

// maxFindings is the number of findings that end an exploration of a program.
const maxFindings = 10

// text returns a schedule in one line.
func (s Schedule) text() string {
	text := ""
	for i, c := range s {
		if i > 0 {
			text += "; "
		}
		text += c.String()
	}
	return text
}

// settleLive waits until the write that was chosen last is done, so that what the server stores has one author.
func (w *world) settleLive() {
	if a := w.actor; a != nil && a.finished != nil {
		select {
		case <-a.finished:
		case <-time.After(2 * time.Second): // its webhook is slow
		}
	}
}

// startProgram starts the program as a process of the world.
func (w *world) startProgram(p *process) error {
	access, err := w.gateway.admit(p)
	if err != nil {
		return err
	}
	running, err := w.program.Start(access)
	if err != nil {
		return err
	}
	p.done = make(chan error, 1)
	p.stop = func() {
		if w.isCrashed(p) {
			running.Kill()
			return
		}
		running.Terminate()
		select {
		case <-running.Done():
		case <-time.After(10 * time.Second):
			running.Kill()
		}
	}
	go func() {
		<-running.Done()
		p.done <- running.Err()
		w.wake()
	}()
	return nil
}
