package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/envtest"
	"flyball.dev/storage/memory"
)

var coverageDir = flag.String("flyball.coverage", "", "write the coverage of each exploration of package lab as JSON into this directory")

var exploreFor = flag.Duration("flyball.explore", 0, "explore each scenario of package lab for this time")

// explorer runs a scenario many times.
type explorer struct {
	t        *testing.T // a part of the exploration may be a subtest
	name     string     // of the test, for files
	operator Operator
	scenario Scenario
	steps    []StepRef // if not nil, the scenario has only these steps for a while
	scheme   *runtime.Scheme
	base     *controlplane.ControlPlane
	idle     []string // the controllers of the cluster that a clean run has shown to have nothing to do
	// definitions are the ones of the operator's custom resources.
	definitions []*apiextensionsv1.CustomResourceDefinition
	limits      limits
	known       *knowledge
	fresh       map[string][]outcome // see learnFresh
	seen        map[uint64]bool      // signatures of runs
	journal     *journal             // of an exploration that may write files; else nil
	accepted    []saved              // findings that do not fail the test

	conditions conditions
	same       sameResponses
	quiet      atomic.Int64 // counts how often the world of a run was quiet
	world      *world       // of the run
	bubble     atomic.Value // the number of its bubble, a string
	percent    int          // of the garbage collector before the exploration
	// program, if not nil, is a program that the lab runs in real time, and the explorer has no t.
	program  *Program
	ctx      context.Context // of an exploration in real time
	progress io.Writer
}

func newExplorer(t *testing.T, op Operator, scenario Scenario) (*explorer, error) {
	if op.Start == nil {
		return nil, errors.New("lab: the operator has no Start")
	}
	e := &explorer{t: t, name: strings.ReplaceAll(t.Name(), "/", "_"), operator: op, scenario: scenario, ctx: context.Background(), seen: map[uint64]bool{}}
	e.setDefaults()
	e.percent = debug.SetGCPercent(800) // a run has much garbage, and keeps little
	if err := e.prepare(); err != nil {
		debug.SetGCPercent(e.percent)
		return nil, err
	}
	return e, nil
}

func (e *explorer) setDefaults() {
	e.fresh = map[string][]outcome{}
	e.scheme = e.operator.Scheme
	if e.scheme == nil {
		e.scheme = clientgoscheme.Scheme
	}
	e.operator.Replicas = max(1, e.operator.Replicas)
	e.limits = limits{horizon: 2 * time.Minute, actions: 4_000, view: 30 * time.Second}
	if e.scenario.Rest > 0 {
		e.limits.horizon = e.scenario.Rest
	}
	if e.scenario.Schedules == 0 {
		e.scenario.Schedules = 300
	}
}

// prepare starts the control plane that all runs fork, outside of the bubbles.
func (e *explorer) prepare() error {
	for _, fault := range e.scenario.Only {
		if !slices.Contains(faults, fault) {
			return fmt.Errorf("lab: there is no fault %q: the faults are %q", fault, faults)
		}
	}
	for _, check := range e.scenario.Without {
		if !slices.Contains(checks, check) {
			return fmt.Errorf("lab: there is no check %q: the checks are %q", check, checks)
		}
	}
	without, err := e.without()
	if err != nil {
		return err
	}
	selected := controllers.Options{Without: without, WithoutEvents: true}
	selected.Pods.Script = e.scenario.Script
	selected.Pods.WithoutLeases = slices.Contains(without, "node-lifecycle-controller")
	e.base, err = controlplane.Start(context.Background(), controlplane.Options{
		Storage:     memory.New(memory.Options{Retention: 1000 * time.Hour, History: 1 << 30}),
		Controllers: selected,

		RemovedVersions: e.program != nil && e.program.RemovedVersions,
	})
	if err != nil {
		return err
	}
	e.definitions, err = envtest.InstallCRDs(e.base.Config(), envtest.CRDInstallOptions{CRDs: e.operator.CRDs, Paths: e.operator.CRDPaths, ErrorIfPathMissing: true})
	if err != nil {
		return fmt.Errorf("the definitions of the operator: %w", err)
	}
	return e.awaitBase()
}

// awaitBase waits until the controllers have made what each cluster has.
func (e *explorer) awaitBase() error {
	c, err := client.NewWithWatch(e.base.Config(), client.Options{Scheme: e.scheme})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if e.scenario.Controllers == nil || slices.Contains(e.scenario.Controllers, "pods") {
		if err := awaitNode(ctx, c); err != nil {
			return err
		}
	}
	if e.scenario.Controllers != nil && !slices.Contains(e.scenario.Controllers, "serviceaccount-controller") {
		return nil
	}
	return awaitAccounts(ctx, c)
}

// awaitAccounts waits until each namespace of a new cluster has its service account.
func awaitAccounts(ctx context.Context, c client.WithWatch) error {
	w, err := c.Watch(ctx, &corev1.ServiceAccountList{})
	if err != nil {
		return err
	}
	defer w.Stop()
	missing := []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}
	for event := range w.ResultChan() {
		if account, ok := event.Object.(*corev1.ServiceAccount); ok && account.Name == "default" {
			missing = slices.DeleteFunc(missing, func(namespace string) bool { return namespace == account.Namespace })
		}
		if len(missing) == 0 {
			return nil
		}
	}
	return errors.New("lab: the control plane has no service accounts after a minute")
}

// awaitNode waits until there is a node that is ready.
func awaitNode(ctx context.Context, c client.WithWatch) error {
	w, err := c.Watch(ctx, &corev1.NodeList{})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		node, ok := event.Object.(*corev1.Node)
		if ok && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			return nil
		}
	}
	return errors.New("lab: the control plane has no ready node after a minute")
}

// without returns the names of the controllers that the scenario leaves out.
func (e *explorer) without() ([]string, error) {
	wanted := e.scenario.Controllers
	if wanted == nil {
		wanted = DefaultControllers
	}
	var all controllers.Options
	names, err := all.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("lab: there is no controller %q: the names are %s", name, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(wanted, name) }), nil
}

func (e *explorer) close() {
	e.base.Stop()
	if e.program == nil {
		debug.SetGCPercent(e.percent)
	}
}

// explore runs the clean worlds, the saved findings, and then schedules until the budget is spent.
func (e *explorer) explore() {
	e.t.Helper()
	finding, err := e.learn()
	if finding != nil {
		err = fmt.Errorf("the clean run, without any fault, has a finding: %s: %s\n\n%s", finding.Check, finding.Message, finding.Story)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.readAccepted()
	if s := shardOfProcess(); s != nil {
		e.subtest(exploration, func() {
			if e.t.Name() == s.Test {
				e.work(s)
			}
		})
		return
	}
	last, err := e.unfinished()
	if err != nil {
		e.t.Fatal(err)
	}
	if last != nil {
		e.fail(last)
		os.Remove(e.journalPath())
		return
	}
	if e.replayFiles() {
		e.subtest(exploration, e.exploreAnew)
	}
}

// exploration is the name of the subtest with new schedules.
const exploration = "EXPLORE"

// subtest runs a part of the exploration as a subtest, so that go test -run selects it. It reports whether the part has not failed.
func (e *explorer) subtest(name string, part func()) bool {
	parent := e.t
	defer func() { e.t = parent }()
	return parent.Run(name, func(t *testing.T) {
		e.t = t
		part()
	})
}

// exploreAnew runs schedules until the budget is spent, and fails the test with each finding that nobody has accepted.
func (e *explorer) exploreAnew() {
	e.t.Helper()
	report := e.searchAnew(3)
	e.t.Logf("lab: %d schedules, %d different runs; %d schedules did not come to the point of a fault; %d runs have an accepted finding; "+
		"the clean run has %d actions\n%s", report.Schedules, report.Runs, report.Unreached, report.Accepted, e.known.actions, report.Coverage)
	if err := e.saveCoverage(&report.Coverage); err != nil {
		e.t.Error(err)
	}
	if err := report.errNoFault(); err != nil {
		e.t.Error(err)
	}
	for _, f := range report.Findings {
		e.fail(f)
	}
}

// searchAnew is search with a journal, or in child processes.
func (e *explorer) searchAnew(enough int) *Report {
	if *exploreFor > 0 && canHaveWorkers {
		return e.searchInProcesses(enough)
	}
	e.journal = openJournal(e.journalPath())
	defer e.journal.close()
	return e.search(enough)
}

// search runs schedules until the budget is spent or there are enough findings.
func (e *explorer) search(enough int) *Report {
	deadline := time.Now().Add(*exploreFor)
	report := &Report{}
	p := e.points()
	families := e.families(p)
	tried := newCoverage(p, families)
	for schedule := range e.plans(families) {
		spent := report.Schedules >= e.scenario.Schedules || report.Unreached > 100+20*e.scenario.Schedules
		if *exploreFor > 0 {
			spent = time.Now().After(deadline)
			report.late = spent && report.Schedules+report.Unreached == 0
		}
		if spent || len(report.Findings) >= enough {
			break
		}
		e.try(schedule, report, tried)
	}
	report.Runs, report.Coverage = len(e.seen), tried.report()
	return report
}

// try runs a schedule, and adds what it shows to the report and the coverage.
func (e *explorer) try(schedule Schedule, report *Report, tried *coverage) {
	r := e.attempt(schedule)
	if !r.counts {
		report.Unreached++
		return
	}
	report.Schedules++
	e.seen[r.signature] = true
	tried.add(schedule)
	e.judge(report, r.finding)
}

// attempt runs a schedule, and once more if the scenario demands it.
func (e *explorer) attempt(schedule Schedule) result {
	r := e.run(schedule, clean{})
	if r.counts && e.scenario.Twice && r.finding == nil && !slices.Contains(e.scenario.Without, replayed) {
		r.finding = e.again(&r)
	}
	return r
}

// errNoFault is the error of an exploration in which no fault has taken place.
func (r *Report) errNoFault() error {
	switch {
	case r.Schedules > 0:
		return nil
	case r.late:
		return errors.New("lab: the time of -flyball.explore (--time of flyball lab) is too short: it was over before the first schedule began")
	case r.Unreached == 0:
		return errors.New("lab: there is no point at which a fault makes sense: the operator does nothing in the clean run, " +
			"or Scenario.Only (--faults of flyball lab) has no fault for what it does")
	}
	return fmt.Errorf("lab: none of %d schedules came to the points of its faults", r.Unreached)
}

// clean distinguishes the clean runs from each other.
type clean struct {
	seed    int64
	delay   time.Duration // before the operator starts
	ballast bool          // there are other objects in the cluster
	created *Choice       // see learnFresh
}

// result is the result of a run.
type result struct {
	world     *world
	finding   *Finding
	counts    bool // all faults took place
	signature uint64
	state     outcome
}

// workOf has the resources without which a controller of the cluster has nothing to do.
var workOf = map[string]string{
	"deployment-controller":                       "deployments",
	"replicaset-controller":                       "replicasets",
	"statefulset-controller":                      "statefulsets",
	"job-controller":                              "jobs",
	"persistentvolume-binder-controller":          "persistentvolumeclaims",
	"local-path-provisioner":                      "persistentvolumeclaims",
	"persistentvolumeclaim-protection-controller": "persistentvolumeclaims",
	"scheduler":                                   "pods",
	"pods":                                        "pods",
}

// dropIdle leaves out the default controllers that had nothing to do in a clean run. Each run starts faster without them.
func (e *explorer) dropIdle(w *world) {
	if e.scenario.Controllers != nil {
		return
	}
	for _, name := range DefaultControllers {
		if resource := workOf[name]; resource != "" && !w.resources.has(resource) {
			e.idle = append(e.idle, name)
		}
	}
}

// wakeIdle takes back the controllers that a run had work for, and did not have. It reports whether there were any: then
// the run says nothing.
func (e *explorer) wakeIdle(w *world) bool {
	n := len(e.idle)
	e.idle = slices.DeleteFunc(e.idle, func(name string) bool { return w.resources.has(workOf[name]) })
	return len(e.idle) < n
}

// learn runs the clean worlds. It returns the finding of a clean world, if there is one.
func (e *explorer) learn() (*Finding, error) {
	e.known = nil
	first := e.run(nil, clean{})
	if first.finding == nil && first.world != nil && e.program == nil && e.idle == nil {
		e.dropIdle(first.world)
		first = e.run(nil, clean{})
	}
	if first.finding != nil {
		return first.finding, nil
	}
	k := &knowledge{outcome: first.state, noise: noise{}, touched: first.world.touched, actions: len(first.world.trace),
		trace: first.world.trace[:first.world.over], names: first.world.names, duration: first.world.now(), deletions: first.world.deletions, steps: first.world.done,
		rests: first.world.rests, restNoise: noise{}, random: map[string]bool{}}
	for _, variant := range e.cleanVariants() {
		r := e.run(nil, variant)
		if r.finding != nil {
			return r.finding, nil
		}
		if err := k.noise.Learn(r.state, k.outcome); err != nil {
			return nil, fmt.Errorf("two clean runs end in different states: %w\n%s", err, e.adviceOnClean())
		}
		for i, state := range r.world.rests[:min(len(r.world.rests), len(k.rests))] {
			if err := k.restNoise.Learn(state, k.rests[i]); err != nil {
				k.rests = k.rests[:i] // the time of a rest decides which objects there are
				break
			}
			k.learnNames(k.rests[i], state)
		}
		k.learnNames(k.outcome, r.state)
		k.deletions.atLeast(r.world.deletions)
	}
	maps.Copy(k.restNoise, k.noise)
	e.known = k
	if e.program == nil {
		e.limits.actions = 2000 + 20*k.actions
	}
	return nil, nil
}

// adviceOnClean says what makes clean runs differ, and what to do.
func (e *explorer) adviceOnClean() string {
	between := "an hour later, and beside Pods and Services of others"
	if e.program != nil {
		between = "beside Pods and Services of others"
	}
	return "The second run began " + between + ". Nothing else was different, so the operator depends on that, on chance, or on how long it " +
		"waits. If it ever waits for longer than " + e.limits.horizon.String() + ", set Scenario.Rest to more than that. Otherwise the objects " +
		"that the operator makes must follow from its custom resources, and not from the time, from random numbers or from objects of others"
}

// cleanVariants are the clean runs that show what no two runs have in common.
func (e *explorer) cleanVariants() []clean {
	switch {
	case e.program != nil:
		return []clean{{seed: 2, ballast: true}}
	case e.steps != nil: // for one schedule
		return []clean{{seed: 1, delay: time.Hour + 11*time.Second, ballast: true}}
	}
	return []clean{{seed: 1, delay: time.Hour + 11*time.Second}, {seed: 2, delay: time.Minute, ballast: true}}
}

// run carries out a schedule in a new world. The finding has its story.
func (e *explorer) run(schedule Schedule, variant clean) (r result) {
	e.learnFresh(schedule)
	defer func() {
		if reason := recover(); reason != nil {
			r.counts = true
			e.blame(&r, schedule, reason)
		}
		if r.finding != nil && e.program == nil {
			r.finding.Steps = e.refs()
		}
		if r.finding != nil && e.world != nil {
			r.finding.Story, r.finding.writes, r.finding.trace = e.world.story(r.finding), e.world.writes(), e.world.trace
			r.finding.lines = e.world.lines()
		}
		e.world = nil
	}()
	if e.scenario.Begin != nil {
		e.scenario.Begin()
	}
	if e.program != nil {
		return e.inWorld(schedule, variant)
	}
	defer e.watch()()
	e.journal.begin(schedule, e.refs())
	for {
		r = result{}
		e.inBubble(schedule, variant, &r)
		if r.world == nil || !e.wakeIdle(r.world) {
			return r
		}
		if e.scenario.Begin != nil {
			e.scenario.Begin()
		}
	}
}

// blame names the goroutines that are left in a bubble, or that keep each other from going on. If the run has a finding already, they
// belong to it: a manager that does not end leaves some.
func (e *explorer) blame(r *result, schedule Schedule, reason any) {
	if slices.Contains(e.scenario.Without, leak) {
		return
	}
	bubble, _ := e.bubble.Load().(string)
	left := goroutinesOf(bubble)
	if r.finding == nil {
		r.finding = &Finding{Check: leak, Message: fmt.Sprint(reason), Schedule: schedule}
		if w := e.world; w != nil && len(w.trace) > 0 {
			r.finding.at = w.trace[len(w.trace)-1].at
		}
		if len(left) > 0 && r.world != nil {
			r.finding.Message = "left by the operator"
		}
	}
	f := r.finding
	if f.left = left; len(left) > 0 && (f.Check == leak || f.Check == operatorFailed) {
		f.Message += ": " + describeAll(left)
	}
}

// inBubble is run in a bubble, with its own random names. It sets r also if it panics, because goroutines are left.
func (e *explorer) inBubble(schedule Schedule, variant clean, r *result) {
	utilrand.Seed(variant.seed)
	uuid.SetRand(rand.NewChaCha8([32]byte{byte(variant.seed)}))
	defer uuid.SetRand(nil)
	synctest.Test(e.t, func(*testing.T) {
		e.bubble.Store(bubbleOf())
		*r = e.inWorld(schedule, variant)
	})
}

// inWorld is run in a bubble, or in real time.
func (e *explorer) inWorld(schedule Schedule, variant clean) (r result) {
	w := newWorld(e, schedule)
	e.world, r.world = w, w
	if e.program == nil {
		handlers := utilruntime.PanicHandlers
		utilruntime.PanicHandlers = []func(context.Context, any){w.panicked}
		defer func() { utilruntime.PanicHandlers = handlers }()
	}
	if err := w.begin0(variant); err != nil {
		w.find(startFailed, "%v", err)
	} else {
		w.run(e.scenario.Steps)
		if len(schedule) > 0 {
			w.lastChange = w.now()
			w.run(nil)
		}
		r.counts = w.tookPlace() || w.finding != nil
		w.checkDeletions(e.known)
		w.checkEnd(e.known)
		w.checkInvariants(true)
		if s, err := w.state(); err == nil && w.finding == nil {
			r.state = w.outcomeOf(s)
		}
		w.secondPass()
	}
	w.stop()
	r.signature = w.signature()
	r.finding = w.finding
	return r
}

// judge shrinks a finding that replays, and adds it to the report, unless the report has it or somebody has accepted it.
func (e *explorer) judge(report *Report, f *Finding) {
	if f == nil {
		return
	}
	unreduced := f.Message
	if !e.isAccepted(f) {
		if report.has(f.Check, unreduced) {
			return
		}
		f = e.reduced(f)
	}
	if e.isAccepted(f) {
		report.Accepted++
		return
	}
	if !report.has(f.Check, f.Message) {
		f.unreduced = unreduced
		report.Findings = append(report.Findings, f)
	}
}

// has reports whether there is a finding of a check with this message, before or after shrinking.
func (r *Report) has(check, message string) bool {
	return slices.ContainsFunc(r.Findings, func(f *Finding) bool { return f.Check == check && (f.Message == message || f.unreduced == message) })
}

// fail fails the test with a finding, and saves it.
func (e *explorer) fail(f *Finding) {
	e.t.Helper()
	path, err := f.Save(e.directory())
	if err != nil {
		e.t.Error(err)
	}
	e.t.Errorf("lab: %s: %s\n\n%s\nsaved in %s; %s%s", f.Check, f.Message, f.Story, path, f.promise(), e.savePage(f))
}

// promise says what the next go test does with a saved finding.
func (f *Finding) promise() string {
	if f.Divergence != "" {
		return "go test runs its schedule again, which need not show it"
	}
	return "go test replays it"
}

// signature is a hash of the actions of a run.
func (w *world) signature() uint64 {
	h := fnv.New64a()
	for _, e := range w.trace {
		if e.action != nil && !e.action.isLease() {
			io.WriteString(h, e.action.name())
		}
		h.Write([]byte{0})
	}
	return h.Sum64()
}

// directory is the folder of the saved findings of this test.
func (e *explorer) directory() string {
	return filepath.Join("testdata", "lab", e.name)
}

// ballast are objects that shift what the cluster gives out: addresses and ports.
func ballast() []client.Object {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespacePublic, GenerateName: ballastName}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort,
		Ports: []corev1.ServicePort{{Port: 80}}}}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "ballast", Image: "ballast"}}}}
	return []client.Object{service, service.DeepCopy(), service.DeepCopy(), pod, pod.DeepCopy(), pod.DeepCopy()}
}

// ballastName begins the names of ballast.
const ballastName = "ballast-"
