// Package development finds common mistakes of operators while they run, for managers with the
// option Development.
//
// A [Monitor] observes three streams: the writes of the manager's client, the events of the
// informers that the operator has, and the outcomes of reconciles. What it observes is queued, and
// evaluated a second later by one goroutine, so that no caller waits; by then the response to every
// usual write has shown which events were caused by this process. The state of the checks belongs to
// that goroutine. All of it is bounded: the oldest is forgotten.
//
// No check blocks the operator or ends its process: each runs in a [containment].
//
// A check warns only when it is certain. What the cache cannot show is read from the API server
// before the warning, a few requests a second at most.
//
// An update in the cache belongs to this process if its resource version is in a response to the manager's client.
// Otherwise the managed fields say who wrote it. The name of a field manager alone proves nothing, because all clients
// of a process have the same default. The controllers themselves detect hot loops.
package development

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
)

const (
	// evaluationDelay is how long after an observation it is evaluated.
	evaluationDelay = time.Second
	// requestTimeout limits a request to the API server.
	requestTimeout = 5 * time.Second
	// maxTracked is how many objects a check keeps state of.
	maxTracked = 1024
)

// Owner is a manager that may have a monitor.
type Owner interface {
	// DevelopmentMonitor returns the monitor, or nil.
	DevelopmentMonitor() *Monitor
}

// Options are the options of a monitor.
type Options struct {
	Logger logr.Logger
	// OnWarning is called with the warnings instead of the logger.
	OnWarning func(config.Warning)
	// Record, if not nil, is called with the warnings too.
	Record func(config.Warning)
	// FieldManager is the field manager of writes that do not name one.
	FieldManager string
}

// Monitor observes an operator. It is safe for concurrent use.
type Monitor struct {
	contained containment
	reports   reports
	schedule  schedule
	writes    writes
	logger    logr.Logger
	requests  *rate.Limiter

	// Set by Attach, before Start.
	reader client.Reader
	mapper meta.RESTMapper

	standby   atomic.Bool  // whether another replica leads
	leads     atomic.Int64 // since when this one leads after an election, in nanoseconds, or 0
	leaseOver atomic.Int64 // when a lease that was lost is over, in nanoseconds, or 0
	informers informers
	running   running

	// What follows belongs to the goroutine of Start.
	ctx     context.Context
	deleted *bounded[types.UID, struct{}] // the objects that were deleted
	// deletionsDropped is when deleted has dropped an object, or the zero time.
	deletionsDropped time.Time

	fights     fights
	owners     owners
	finalizers finalizers
	status     statuses
	adoption   adoption
	conflicts  conflicts
	leaders    leaders
}

// New returns a monitor that evaluates nothing before Start.
func New(o Options) *Monitor {
	logger := o.Logger.WithName("development")
	m := &Monitor{
		contained:  containment{logger: logger},
		reports:    newReports(logger, o.OnWarning),
		schedule:   newSchedule(),
		writes:     newWrites(o.FieldManager),
		logger:     logger,
		requests:   rate.NewLimiter(5, 20),
		informers:  informers{current: map[schema.GroupKind]*handler{}},
		running:    running{requests: map[types.NamespacedName]int{}},
		ctx:        context.Background(),
		deleted:    newBounded[types.UID, struct{}](maxTracked),
		fights:     newFights(),
		owners:     newOwners(),
		finalizers: newFinalizers(),
		status:     newStatuses(),
		adoption:   newAdoption(),
		conflicts:  newConflicts(),
		leaders:    newLeaders(),
	}
	m.reports.record = o.Record
	return m
}

// Attach sets the API server that is asked before a warning.
func (m *Monitor) Attach(reader client.Reader, mapper meta.RESTMapper) {
	m.reader, m.mapper = reader, mapper
}

// Start evaluates observations until ctx ends.
func (m *Monitor) Start(ctx context.Context) error {
	m.ctx = ctx
	m.schedule.run(ctx, m.contained.do)
	return nil
}

// NeedLeaderElection makes the manager start the monitor in every replica.
func (m *Monitor) NeedLeaderElection() bool { return false }

// later evaluates an observation after evaluationDelay, in the order of the calls.
func (m *Monitor) later(f func()) { m.schedule.observe(evaluationDelay, f) }

// objectID identifies an object, whatever the API version.
type objectID struct {
	schema.GroupKind
	types.NamespacedName
}

// read reads the metadata of an object from the API server. It returns false, after logging the
// reason at level 1, if the server did not say whether there is such an object, or if there were too
// many requests. The object is nil if there is none.
func (m *Monitor) read(gvk schema.GroupVersionKind, key types.NamespacedName) (*metav1.PartialObjectMetadata, bool) {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(gvk)
	exists, known := m.readInto(gvk, key, obj)
	if !exists {
		return nil, known
	}
	return obj, known
}

// readInto is read for an object of any representation.
func (m *Monitor) readInto(gvk schema.GroupVersionKind, key types.NamespacedName, obj client.Object) (exists, known bool) {
	if m.reader == nil || !m.requests.Allow() {
		return false, false
	}
	ctx, cancel := context.WithTimeout(m.ctx, requestTimeout)
	defer cancel()
	err := m.reader.Get(ctx, key, obj)
	if client.IgnoreNotFound(err) != nil {
		m.logger.V(1).Info("An object could not be read, so a check has no result",
			"kind", gvk.GroupKind().String(), "object", key, "reason", err.Error())
		return false, false
	}
	return err == nil, true
}

// warn reports a warning, unless it was reported before.
func (m *Monitor) warn(w config.Warning) { m.reports.add(w) }
