// Package lab finds out whether an operator is right: it runs the operator in worlds in which things go wrong at every
// point, and checks that it ends where it should.
//
// [Explore] runs a scenario many times. Each run is a control plane with the operator in a bubble of testing/synctest:
// time is virtual, and the lab decides what happens next. A request of the operator reaches the server when the lab has
// chosen it, and so does an event of a watch the operator. The first runs are clean and are the reference. In all
// others the lab crashes the operator at a write, shows it a stale view, hides an event, refuses requests, deletes what
// the operator has made, and so on. When the faults are over, the operator must come to rest in the state of the
// reference.
//
// The list of choices is the run: [Schedule]. The same schedule gives the same run, so a finding is shrunk to the few
// choices and the few steps of the scenario that it needs, told as a story, saved in testdata/lab, and replayed by the
// next go test.
//
// # What an operator must allow
//
// All requests of the operator go through the configuration that Start gets. Nothing in the operator may wait for a
// socket, a file or a process, nor for a mutex while the holder waits: in a bubble, time stands still then. Set the
// metrics and health addresses of the manager to "0". Calls of external systems go through [Call] or [Transport].
// Package-level variables survive a crash of the operator.
//
// Explore changes the seeds of the random names of apimachinery, which are global. It must not run in parallel with
// other tests of the process that depend on them.
//
// # Structure
//
// A world (world.go) is a fork of one prepared control plane. Each request of a client and each event of a watch is an
// action that waits ([world.wait]) until the lab chooses it. The list of choices that depart from the canonical order
// is the schedule. The transport of a client (process.go) and its watches (stream.go) carry the faults out: a view that
// stands still is a list at an earlier revision, and a watch that waits.
//
// An operator on ctrl runs in a bubble. The lab chooses when all goroutines are blocked, so a schedule gives the same
// run again. A [Program] (live.go) runs in real time: its requests come over HTTPS to a gateway, which passes them to a
// process of the world, by the token of the program. The lab lets all actions go on but for the faults. Writes go on
// one after the other, so that each change in the storage has an author.
//
// The clean runs show the state to reach, the fields that no two runs share, and the points at which a fault makes
// sense (plan.go). The checks (check.go) compare each run with them, and know no kind beyond Kubernetes' own. The
// differences that are no mistake of the operator have a file (excuses.go).
package lab

import (
	"context"
	"net/http"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
)

// An Operator is the program under test.
type Operator struct {
	// CRDs are the definitions of its custom resources.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// CRDPaths are files and directories with further definitions.
	CRDPaths []string
	// Scheme has the Go types of its custom resources, for the steps of scenarios. By default only built-in kinds have
	// Go types.
	Scheme *runtime.Scheme
	// Start returns a manager with the operator's controllers. The lab starts the manager. Start is called again after
	// each crash.
	Start func(config *rest.Config) (manager.Manager, error)
	// Replicas is the number of processes, by default 1.
	Replicas int
}

// A Scenario is what happens to the operator from outside.
type Scenario struct {
	// Begin, if not nil, is called at the begin of each run. It resets what the operator knows outside of the cluster.
	Begin func()
	// Objects exist before the operator starts.
	Objects []client.Object
	// Steps follow each other. Each step begins when the world is at rest.
	Steps []Step
	// Invariants are checked after each write.
	Invariants []Invariant
	// Controllers are the cluster's controllers that run, by the names of kube-controller-manager. Nil means
	// [DefaultControllers].
	Controllers []string
	// Script says what the containers of pods do, and which programs they have. Nil means that they run, and have none.
	Script *pods.Script
	// Rest is how long nothing must change until the world is at rest, in virtual time. It must be longer than the
	// operator ever waits before it does something. The default is 2 minutes.
	Rest time.Duration
	// Schedules is the number of runs with faults. The default is 300. The flag -flyball.explore sets a time instead, and
	// has the runs in child processes, except on Windows.
	Schedules int
	// Only, if not empty, are the faults that occur.
	Only []Fault
	// Twice says that each run is carried out twice. A run with other writes than the first one is a finding: the operator
	// depends on chance.
	Twice bool
	// Without are the names of checks that find nothing, such as "hot loop" for an operator that never rests.
	Without []string
}

// A Step is an action of a user.
type Step struct {
	Name string
	// Do changes objects. It must not wait for the operator.
	Do func(ctx context.Context, c client.Client) error
	// Rest, if not zero, is how long nothing must change until the next step begins, instead of Scenario.Rest.
	Rest time.Duration
}

// An Invariant is a property that every state must have.
type Invariant struct {
	Name string
	// Check returns an error that describes the mistake.
	Check func(s *State) error
	// AtRest says that only states at rest must have the property, and not those in between.
	AtRest bool
}

// DefaultControllers are the cluster's controllers of a scenario that names none.
var DefaultControllers = []string{
	"garbage-collector-controller", "namespace-controller", "serviceaccount-controller",
	"deployment-controller", "replicaset-controller", "statefulset-controller", "job-controller",
	"persistentvolume-binder-controller", "local-path-provisioner", "persistentvolumeclaim-protection-controller",
	"scheduler", "pods",
}

// Create returns a step that creates an object.
func Create(obj client.Object) Step {
	return Step{Name: "create " + klog.KObj(obj).String(), Do: func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, obj.DeepCopyObject().(client.Object))
	}}
}

// Update returns a step that changes the object with the name of obj.
func Update[T client.Object](obj T, change func(T)) Step {
	return Step{Name: "update " + klog.KObj(obj).String(), Do: func(ctx context.Context, c client.Client) error {
		current := obj.DeepCopyObject().(T)
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), current); err != nil {
			return err
		}
		change(current)
		return c.Update(ctx, current)
	}}
}

// Remove returns a step that deletes the object with the name of obj.
func Remove(obj client.Object) Step {
	return Step{Name: "delete " + klog.KObj(obj).String(), Do: func(ctx context.Context, c client.Client) error {
		return c.Delete(ctx, obj.DeepCopyObject().(client.Object))
	}}
}

// Explore runs the scenario in a clean world, and then in worlds in which things go wrong. It fails the test with the
// story of each finding.
func Explore(t *testing.T, op Operator, scenario Scenario) {
	t.Helper()
	e, err := newExplorer(t, op, scenario)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	e.explore()
}

// A Report is what an exploration has found.
type Report struct {
	// Findings are what the runs have shown. [Find] returns at most one. It is shrunk, unless it has a Divergence: no
	// choice can be left out, and no step of the scenario. [ExploreProgram] returns up to ten findings, and shrinks none.
	Findings []*Finding
	// Schedules is the number of runs with faults, and Runs the number of different ones.
	Schedules, Runs int
	// Unreached is the number of schedules that did not come to the point of a fault.
	Unreached int
	// Accepted is the number of runs with a finding that somebody has accepted for a while. It is zero but in [Explore].
	Accepted int
	// Coverage says what was tried.
	Coverage Coverage

	late bool // the time was over before the first run
}

// Find explores as Explore does, and returns what it has found instead of failing the test. It neither reads nor writes
// files. A finding of a clean run has an empty schedule. Find returns an error if no fault took place.
func Find(t *testing.T, op Operator, scenario Scenario) (*Report, error) {
	t.Helper()
	e, err := newExplorer(t, op, scenario)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if finding, err := e.learn(); finding != nil || err != nil {
		return &Report{Findings: []*Finding{finding}}, err
	}
	report := e.search(1)
	return report, report.errNoFault()
}

// newClient returns the client of the users of a scenario.
func (w *world) newClient(plane *controlplane.ControlPlane) (client.Client, error) {
	config := plane.Config()
	config.UserAgent = "user"
	config.Transport = &users{config.Transport, w}
	return client.New(config, client.Options{Scheme: w.scheme})
}

// users is the transport of the users of a scenario.
type users struct {
	http.RoundTripper
	*world
}

// InProcess says that the transport opens no socket.
func (*users) InProcess() bool { return true }
