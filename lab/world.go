package lab

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage"
)

// A world is one run: a control plane, the processes of the operator, and the clock, in a bubble of testing/synctest.
//
// All goroutines of the run but the lab's own wait for a choice at their next request or event. At a point where nobody
// can go on, [world.run] takes the first pending action of the canonical order, unless the schedule says otherwise.
type world struct {
	*explorer
	known   *knowledge // nil in a clean run
	plane   *controlplane.ControlPlane
	client  client.Client // of the users
	watcher storage.Watcher
	began   time.Time
	names   *names
	// origin is the revision at which the run begins, and resources are what it has written.
	origin    uint64
	resources *written
	replaced  <-chan struct{} // closed when the plane serves other resources than at the begin

	mu       sync.Mutex
	pending  []*action
	counts   map[string]int // by the name of an action: how many there were
	happened map[Point]bool
	round    int
	arrived  chan struct{} // receives when an action arrives
	free     bool          // the run is over: all actions go on at once

	processes []*process // of the operator, by replica
	all       []*process // of the operator, also those that have crashed
	locks     locks
	schedule  Schedule
	states    []choiceState // of the schedule
	// counters and serverPoints are of the points of the schedule that are more than the number of an action.
	counters     []*counter
	serverPoints bool
	slow         *release // if not nil, the cluster's controllers wait
	loops        map[loopOf]*loop

	actor          *action // the last action that was chosen
	trace          []event
	deletions      deletions
	gateway        *gateway        // of a program
	done           int             // the number of steps that are done
	rest           time.Duration   // of the last step, or zero
	over           int             // the length of the trace when the scenario was over
	disturbed      int             // the length of the trace when somebody else changed an object, or the clock jumped; 0 for never
	deleted        map[string]bool // the objects that somebody else has deleted, by kind and canonical name without its number
	finished       map[string]int  // the last step before somebody else deleted an object that had finished, by key
	rests          []outcome       // of a clean run, before each step
	lastChange     time.Duration
	finding        *Finding
	created        *Choice            // see learnFresh
	patched        bool               // the object of created has been created
	foreign        map[string]bool    // the UIDs of the objects that [Recreate] has made
	removedForeign bool               // one of these has been deleted again
	released       map[types.UID]bool // the objects from which the operator has taken their controller
	own            map[string]bool    // the UIDs of the objects that the operator has made
	hasty          map[string]int     // the UIDs of the ones that it has made from an old view, with the number of steps done then
	touched        map[string]bool    // see [knowledge]
	// stored and decoded are the objects that this run has written, by key; decoded has only some of them.
	stored  map[string][]byte
	decoded map[string]*unstructured.Unstructured
}

// choiceState is the progress of a choice of the schedule.
type choiceState struct {
	begun, ended bool
	missed       bool // its second part could not happen
	disturbed    bool // somebody else has deleted the object of a crash
	process      *process
	resource     string
	name         string // of the action
	revision     uint64 // at which a view stands still
	release      release
	stream       *stream
	held         *action
	back         []byte        // the patch that undoes a change
	since        time.Duration // at which the choice has begun, or its second part
	first        int           // the length of the trace then
}

// event is an entry of a run's trace.
type event struct {
	at      time.Duration // of virtual time since the begin
	action  *action       // nil for a step or a fault
	text    string        // of a step or a fault
	choice  *Choice       // that took effect, or nil
	changes []change      // that the server has stored
}

// change is a write that the server has stored.
type change struct {
	kind   storage.Type
	key    string // in the storage
	before []byte
	after  []byte
}

// value returns the object after the write, or the deleted object.
func (c *change) value() []byte {
	if c.after != nil {
		return c.after
	}
	return c.before
}

// limits bound a run.
type limits struct {
	horizon time.Duration // without a change, after which the world is at rest
	actions int           // after which a run without rest is a loop
	time    time.Duration // after which a run without rest is a loop; zero for none
	view    time.Duration // without a change, after which a stale view goes on, and a foreign object is removed
}

func newWorld(e *explorer, schedule Schedule) *world {
	return &world{
		explorer: e, known: e.known, schedule: schedule, foreign: map[string]bool{}, own: map[string]bool{}, released: map[types.UID]bool{}, hasty: map[string]int{}, touched: map[string]bool{},
		states: make([]choiceState, len(schedule)), stored: map[string][]byte{}, decoded: map[string]*unstructured.Unstructured{},
		names: newNames(), resources: newWritten(), counts: map[string]int{}, happened: map[Point]bool{}, deletions: deletions{}, deleted: map[string]bool{}, finished: map[string]int{},
		loops:    map[loopOf]*loop{},
		counters: schedule.counters(), serverPoints: schedule.hasServerPoints(),
		arrived: make(chan struct{}, 1), began: time.Now(),
	}
}

// now returns the virtual time since the begin of the run.
func (w *world) now() time.Duration { return time.Since(w.began) }

// wait makes an action pending until it is chosen, its context ends, or its process crashes.
func (w *world) wait(ctx context.Context, a *action) (verdict, error) {
	w.mu.Lock()
	if a.process.crashed {
		w.mu.Unlock()
		return verdict{dead: true}, nil
	}
	name := a.name()
	w.counts[name]++
	a.occurrence, a.round = w.counts[name], w.round
	w.matchAction(a)
	if w.free {
		w.mu.Unlock()
		return verdict{}, nil
	}
	a.chosen = make(chan verdict, 1)
	w.pending = append(w.pending, a)
	w.wake()
	w.mu.Unlock()
	select {
	case v := <-a.chosen:
		return v, nil
	case <-ctx.Done():
		w.withdraw(a)
		return verdict{}, context.Cause(ctx)
	}
}

// wake ends the sleep of the lab, which then looks at the world again. It never blocks.
func (w *world) wake() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

func (w *world) withdraw(a *action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(other *action) bool { return other == a })
}

func (w *world) isCrashed(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.crashed
}

// frozenAt returns the revision at which the view that a process has of a resource stands still.
func (w *world) frozenAt(p *process, resource string) (uint64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.frozenAt(resource)
}

func (p *process) frozenAt(resource string) (uint64, bool) {
	resource, _, _ = strings.Cut(resource, "/")
	if resource == leaseResource {
		return 0, false
	}
	if revision, ok := p.frozen[""]; ok {
		return revision, true
	}
	revision, ok := p.frozen[resource]
	return revision, ok
}

// addStream adds an open watch, unless its process has crashed.
func (w *world) addStream(p *process, s *stream) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.crashed {
		return false
	}
	p.streams[s] = true
	return true
}

func (w *world) removeStream(p *process, s *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(p.streams, s)
}

// miss notes that the client of a stream misses an event.
func (w *world) miss(s *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.states {
		if c := &w.states[i]; (w.schedule[i].Do == Miss || w.schedule[i].Do == Bookmarks) && c.begun && !c.ended && c.process == s.process {
			c.stream = s
		}
	}
}

// missing reports whether the choice that hides an event from a stream has not reached its end.
func (w *world) missing(s *stream) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.states {
		if c := &w.states[i]; c.stream == s {
			return c.release.point != nil && !w.isReleased(&c.release)
		}
	}
	return false
}

// crash ends a process: none of its requests reaches the server any more, and it sees no event. A process crashes only once.
func (w *world) crash(p *process) {
	w.mu.Lock()
	if p.crashed {
		w.mu.Unlock()
		return
	}
	p.crashed = true
	dead := slices.Clone(w.pending)
	w.pending = slices.DeleteFunc(w.pending, func(a *action) bool { return a.process == p })
	var streams []*stream
	for s := range p.streams {
		streams = append(streams, s)
	}
	w.mu.Unlock()
	for _, a := range dead {
		if a.process == p {
			a.chosen <- verdict{dead: true}
		}
	}
	for _, s := range streams {
		s.out.end(errCrashed)
		s.close()
	}
	if p.stop != nil {
		p.stop()
	}
	if w.program != nil {
		w.unlock()
	}
}

// newProcess returns a client of the control plane.
func (w *world) newProcess(name string, cluster bool, transport http.RoundTripper) *process {
	return &process{world: w, name: name, cluster: cluster, transport: transport,
		frozen: map[string]uint64{}, streams: map[*stream]bool{}, last: map[string][]byte{}}
}

// wrap returns the transport of a controller of the cluster.
func (w *world) wrap(user string, transport http.RoundTripper) http.RoundTripper {
	name := user[strings.LastIndexByte(user, ':')+1:]
	p := w.newProcess(name, true, transport)
	return p
}

// startReplica starts a replica of the operator. The view of the process that it follows, if any, stays frozen.
func (w *world) startReplica(i int, after *process) error {
	name := "operator"
	if i > 0 {
		name = fmt.Sprintf("operator-%d", i+1)
	}
	p := w.newProcess(name, false, nil)
	p.ends.since = w.now()
	if last := w.processes[i]; last != nil {
		p.ends.n = last.ends.n
	}
	w.mu.Lock()
	if after != nil {
		maps.Copy(p.frozen, after.frozen)
	}
	p.old = len(p.frozen) > 0
	w.processes[i] = p
	w.all = append(w.all, p)
	w.mu.Unlock()
	config, err := w.operatorConfig()
	if err != nil {
		return err
	}
	if w.program != nil {
		if p.upgrade, err = upgradeTransport(config); err != nil {
			return err
		}
	}
	p.transport, config.Transport = config.Transport, p
	config.UserAgent = name
	if w.program != nil {
		return w.startProgram(p)
	}
	return p.start(&w.operator, config)
}

// operatorConfig returns the configuration of a client with the identity of the operator.
func (w *world) operatorConfig() (*rest.Config, error) {
	if w.program != nil && w.program.User != "" {
		return w.plane.UserConfig(w.program.User, w.program.Groups...)
	}
	return w.plane.Config(), nil
}

// start runs the manager of the operator.
func (p *process) start(op *Operator, config *rest.Config) error {
	ctx, stop := context.WithCancel(context.Background())
	p.stop, p.done = stop, make(chan error, 1)
	started := make(chan error, 1)
	go func() {
		mgr, err := op.Start(config)
		started <- err
		if err != nil {
			p.done <- nil // no manager has ended
			return
		}
		p.done <- mgr.Start(ctx)
		p.world.wake()
	}()
	return p.world.await(started)
}

// await receives the result of a function of the operator. Meanwhile the requests that it waits for are carried out.
func (w *world) await(result <-chan error) error {
	for range 10_000 {
		w.settle()
		select {
		case err := <-result:
			return err
		default:
		}
		if w.performNext() {
			continue
		}
		select {
		case err := <-result:
			return err
		case <-w.arrived:
		case <-time.After(time.Minute):
			return fmt.Errorf("the operator's Start has not returned after a minute")
		}
	}
	return fmt.Errorf("the operator's Start sends requests without end")
}
