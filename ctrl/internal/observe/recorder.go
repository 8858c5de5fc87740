package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/internal/cause"
)

const (
	// DefaultLimit is about how many bytes the records take.
	DefaultLimit = 12 << 20
	maxSamples   = 512 // durations that percentiles are computed of
	maxWarnings  = 256
)

// DefaultConsole, if not nil, returns a manager.Console for a manager that has none. Package console/always sets it when
// the program starts; nothing sets it later.
var DefaultConsole func() any

// Owner is a manager that may have a recorder.
type Owner interface {
	// Recorder returns the recorder, or nil.
	Recorder() *Recorder
}

// RecorderOf returns the recorder of a manager, or of the manager that it wraps, or nil.
func RecorderOf[M any](mgr M) *Recorder {
	for range 8 {
		if owner, ok := any(mgr).(Owner); ok {
			return owner.Recorder()
		}
		wrapper, ok := any(mgr).(interface{ WrappedManager() M })
		if !ok {
			return nil
		}
		mgr = wrapper.WrappedManager()
	}
	return nil
}

// Recorder has the records of a manager.
type Recorder struct {
	limit int64
	level atomic.Int32 // log lines up to this level are recorded, also those that the logger drops
	next  atomic.Uint64
	off   atomic.Bool // whether nothing is recorded of reconciles that begin
	// changes counts what a page may show.
	changes atomic.Uint64

	mu          sync.Mutex // guards the fields below, and the controllers
	total       int64      // bytes of all records
	packedSize  int64      // bytes of the packed ones
	packedRuns  int
	vocabulary  vocabulary
	reach       Reach  // the writes that are not recorded any more
	forgotten   uint64 // the number of reconciles that are not
	controllers []*Controller
	warnings    []Warning
}

// New returns a recorder for records of about limit bytes, or [DefaultLimit] if that is zero.
func New(limit int64) *Recorder {
	if limit == 0 {
		limit = DefaultLimit
	}
	return &Recorder{limit: limit}
}

// Warning is a warning with its time.
type Warning struct {
	At time.Time
	config.Warning
}

// Controller has the records of a controller.
type Controller struct {
	Controls
	recorder *Recorder

	// Guarded by the recorder's lock.
	runs        []*Run   // the last ones, whole
	sizes       []int32  // of runs
	size        int64    // the sum of sizes
	earlier     []packed // the ones before
	earlierSize int64
	totals      map[string]uint64
	errors      uint64
	forgotten   uint64
	took        [maxSamples]time.Duration
	taken       int
	history     history
	reads       map[schema.GroupVersionKind]uint64
	workers     []*Worker
}

// Controls is a controller, for the console.
type Controls interface {
	ControllerName() string
	// Kind is the kind of the objects that the requests name, empty if it is not known.
	Kind() schema.GroupVersionKind
	// MaxWorkers is the number of workers.
	MaxWorkers() int
	// Stopped reports whether the controller has ended.
	Stopped() bool
	// Queue returns the content of the queue; see queue.Snapshot. It returns false if the controller has not started, or
	// if its queue cannot be looked at.
	Queue(offset, limit int) (Queue, bool)
	// Find returns where a request is.
	Find(request string) (Queued, string, bool)
	// Held returns whether the controller is paused, and the requests that are.
	Held() (all bool, requests []string)

	// Pause and Resume pause the controller, or one request if it is not empty. A paused request stays in the queue or
	// beside it.
	Pause(request string) error
	Resume(request string) error
	// Now adds a request to the queue at once.
	Now(request string) error
	// Forget drops the backoff of a request, which is added to the queue at once if it waits.
	Forget(request string) error
	// Retries is how often a request was retried since its last success.
	Retries(request string) int
}

// Queue is the content of a queue.
type Queue struct {
	Ready, Waiting, Processing             int
	Depth                                  map[int]int
	Oldest                                 time.Duration
	ReadyKeys, WaitingKeys, ProcessingKeys []Queued
}

// Queued is a request in a queue.
type Queued struct {
	Request    string
	Priority   int
	Causes     cause.Causes
	Since, Due time.Time
	Again      bool
}

// AddController adds a controller.
func (r *Recorder) AddController(c Controls) *Controller {
	own := &Controller{
		Controls: c, recorder: r, totals: map[string]uint64{}, reads: map[schema.GroupVersionKind]uint64{},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.controllers = append(r.controllers, own)
	return own
}

// Worker records the reconciles of one worker.
type Worker struct {
	controller *Controller
	current    atomic.Pointer[Run]
	entries    entries // empty, with the capacity of earlier reconciles
}

// NewWorker returns the recorder of a worker.
func (c *Controller) NewWorker() *Worker {
	w := &Worker{controller: c}
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	c.workers = append(c.workers, w)
	return w
}

// Begin records the begin of a reconcile. Other is the request if it is not a reconcile.Request. It returns nil, which End
// takes, while nothing is recorded.
func (w *Worker) Begin(name types.NamespacedName, other any, causes cause.Causes, priority int, at time.Time) *Run {
	if w.controller.recorder.off.Load() {
		return nil
	}
	run := &Run{
		ID: w.controller.recorder.next.Add(1), Controller: w.controller.ControllerName(), Name: name, other: other,
		Causes: causes, Priority: priority, Started: at, entries: w.entries,
	}
	w.entries = entries{} // unless the caller begins another reconcile before the end
	w.current.Store(run)
	return run
}

// End records the end of the reconcile. Failed is whether it counts as an error.
func (w *Worker) End(run *Run, o Outcome, failed bool) {
	if run == nil {
		return
	}
	o.Ended, o.Err = true, clip(o.Err, maxError)
	run.mu.Lock()
	run.outcome = o
	w.entries = run.entries.trim()
	size, reads := int64(run.size()), run.reads
	run.mu.Unlock()
	w.current.Store(nil)

	c, r := w.controller, w.controller.recorder
	r.changes.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	c.totals[o.Result]++
	if failed {
		c.errors++
	}
	c.took[c.taken%maxSamples] = o.Took
	c.taken++
	c.history.add(run.Started.Add(o.Took), o.Took)
	for i := range reads {
		c.reads[reads[i].Type.GVK]++
	}
	c.runs, c.sizes = append(c.runs, run), append(c.sizes, int32(size))
	c.size += size
	r.total += size
	// Packed records take two thirds at most, so that the last reconciles stay whole.
	for r.total > r.limit {
		if r.packedRuns < maxPacked && r.packedSize <= r.limit/3*2 && r.packedSize < r.total {
			r.pack()
		} else {
			r.forget()
		}
	}
}

// most returns the controller with the most of something.
func (r *Recorder) most(of func(*Controller) int64) *Controller {
	return slices.MaxFunc(r.controllers, func(a, b *Controller) int { return cmp.Compare(of(a), of(b)) })
}

// pack packs the oldest record of the controller with the most. The caller holds mu.
func (r *Recorder) pack() {
	c := r.most(func(c *Controller) int64 { return c.size })
	size := int64(c.sizes[0])
	run := c.runs[0]
	run.mu.Lock()
	p := r.vocabulary.pack(run)
	r.reach.Merge(run.unrecorded)
	run.mu.Unlock()
	c.runs[0] = nil
	c.runs, c.sizes, c.size = c.runs[1:], c.sizes[1:], c.size-size
	c.earlier, c.earlierSize = append(c.earlier, p), c.earlierSize+p.size
	r.packedSize, r.packedRuns = r.packedSize+p.size, r.packedRuns+1
	r.total += p.size - size
}

// forget drops the oldest packed record of the controller with the most of them. The caller holds mu.
func (r *Recorder) forget() {
	c := r.most(func(c *Controller) int64 { return c.earlierSize })
	p := c.earlier[0]
	run := r.vocabulary.unpack(p, c.ControllerName())
	for i := range run.writes {
		r.reach.add(&run.writes[i])
	}
	r.forgotten++
	c.earlier[0] = packed{}
	c.earlier, c.earlierSize = c.earlier[1:], c.earlierSize-p.size
	c.forgotten++
	r.packedSize, r.packedRuns = r.packedSize-p.size, r.packedRuns-1
	r.total -= p.size
}

// Logger returns a logger that logs to l and records the lines in the run.
func (c *Controller) Logger(run *Run, l logr.Logger) logr.Logger { return c.recorder.Logger(run, l) }

// HotLoop records a hot loop as a warning.
func (c *Controller) HotLoop(h config.HotLoop, request types.NamespacedName) {
	w := config.Warning{
		Check: config.CheckHotLoops, GVK: c.Kind(), Object: request, Writer: fmt.Sprintf("controller %q", h.Controller),
		Message: fmt.Sprintf("Hot loop: %d reconciles in %v because of the controller's own writes",
			h.Reconciles, h.Within.Round(time.Millisecond)),
	}
	for _, why := range h.Causes.List {
		if why.Changed != "" {
			w.GVK, w.Object = why.GVK, why.Object
			w.Field, _, _ = strings.Cut(why.Changed, " by ")
		}
	}
	c.recorder.Warn(w)
}

// Warn records a warning.
func (r *Recorder) Warn(w config.Warning) {
	r.changes.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.warnings) == maxWarnings {
		r.warnings = slices.Delete(r.warnings, 0, 1)
	}
	r.warnings = append(r.warnings, Warning{time.Now(), w})
}

// Warnings returns the warnings, the newest first.
func (r *Recorder) Warnings() []Warning {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.warnings)
	slices.Reverse(all)
	return all
}

// Changes returns a number that rises whenever a page may have changed.
func (r *Recorder) Changes() uint64 { return r.changes.Load() }

// Changed says that a page may have changed.
func (r *Recorder) Changed() { r.changes.Add(1) }

// SetRecording sets whether the reconciles that begin are recorded, as they are at first. The benchmark of the cost compares
// the two in one manager.
func (r *Recorder) SetRecording(on bool) { r.off.Store(!on) }

// SetLevel sets up to which level log lines are recorded.
func (r *Recorder) SetLevel(level int) { r.level.Store(int32(level)) }

// Level returns up to which level log lines are recorded.
func (r *Recorder) Level() int { return int(r.level.Load()) }

// Controllers returns the controllers, in the order in which they were added.
func (r *Recorder) Controllers() []*Controller {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.controllers)
}

// Runs returns the reconciles of all controllers that have ended, in no order.
func (r *Recorder) Runs() []*Run {
	type earlier struct {
		controller string
		records    []packed
	}
	var all []*Run
	var before []earlier
	r.mu.Lock()
	for _, c := range r.controllers {
		all = append(all, c.runs...)
		before = append(before, earlier{c.ControllerName(), slices.Clone(c.earlier)})
	}
	words := r.vocabulary.reading
	r.mu.Unlock()
	for _, e := range before {
		for _, p := range e.records {
			all = append(all, words.unpack(p, e.controller))
		}
	}
	return all
}

// Forgotten returns which writes are not recorded any more, and how many reconciles are not.
func (r *Recorder) Forgotten() (Reach, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reach.clone(), r.forgotten
}

// Begun returns the identifier of the last reconcile that began.
func (r *Recorder) Begun() uint64 { return r.next.Load() }

// Size is about how many bytes the records take.
func (r *Recorder) Size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// Stats are the figures of a controller.
type Stats struct {
	Totals    map[string]uint64
	Errors    uint64
	P50, P99  time.Duration // of the last reconciles
	Rate      float64       // per second, in the last minute
	History   []Point       // the last five minutes, the oldest first; nil if nothing ended in them
	Reads     map[schema.GroupVersionKind]uint64
	Recorded  int
	Forgotten uint64
}

// Stats returns the figures now.
func (c *Controller) Stats() Stats {
	s, took := c.stats()
	if n := len(took); n > 0 {
		slices.Sort(took)
		s.P50, s.P99 = took[n/2], took[n*99/100]
	}
	return s
}

// stats returns the figures without the percentiles, and what these are computed of while the workers go on.
func (c *Controller) stats() (s Stats, took []time.Duration) {
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	s = Stats{Totals: map[string]uint64{}, Errors: c.errors, Recorded: len(c.runs) + len(c.earlier), Forgotten: c.forgotten,
		Reads: map[schema.GroupVersionKind]uint64{}}
	for result, n := range c.totals {
		s.Totals[result] = n
	}
	for gvk, n := range c.reads {
		s.Reads[gvk] = n
	}
	took = slices.Clone(c.took[:min(c.taken, maxSamples)])
	s.Rate, s.History = c.history.rate(time.Now()), c.history.points(time.Now())
	return s, took
}

// Active returns the reconciles that run, the longest first.
func (c *Controller) Active() []*Run {
	c.recorder.mu.Lock()
	workers := c.workers
	c.recorder.mu.Unlock()
	var active []*Run
	for _, w := range workers {
		if run := w.current.Load(); run != nil {
			active = append(active, run)
		}
	}
	slices.SortFunc(active, func(a, b *Run) int { return a.Started.Compare(b.Started) })
	return active
}
