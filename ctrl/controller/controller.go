// Package controller runs reconcilers.
//
// A controller adds the requests of its sources to a work queue, and passes them to its reconciler.
// Most programs create controllers with package builder.
//
// # Concurrency
//
// Up to MaxConcurrentReconciles requests are reconciled at once, but never two that are equal.
// Equal requests in the queue are merged; a request that is added while an equal one is being
// reconciled is reconciled again afterwards.
//
// # Outcomes of a reconcile
//
//   - Success: nothing until the next event. The backoff of the request is reset.
//   - RequeueAfter: requeued after that time. The backoff is reset.
//   - Requeue: requeued with backoff.
//   - An error: logged, counted and requeued with backoff.
//   - A [reconcile.TerminalError]: logged and counted, not retried.
//   - A conflict, the API server's response to a write based on an old version: requeued with
//     backoff. Optimistic concurrency makes conflicts normal, so it is logged at level 1 and
//     counted in controller_runtime_reconcile_conflicts_total, and as "requeue" in
//     controller_runtime_reconcile_total. The sixth consecutive one and those after it count as
//     errors.
//   - A panic: an error, unless RecoverPanic is false.
//
// # Observability
//
// [reconcile.CausesFrom] returns why a reconciler was called; errors are logged with the causes. A
// request that is reconciled endlessly because of its own reconciles' writes is a hot loop: it is
// reported with the fields that change, see [HotLoop]. To detect them a controller stores hashes of
// its writes of the last minute, in at most half a MiB whatever the number of objects, unless
// DetectHotLoops is false. A reconcile that hangs is reported with its stack. With OpenTelemetry
// every reconcile is a span.
//
// # Structure
//
// A worker takes a request from the queue and computes the outcome of the reconcile in one pure function. The context
// of a reconcile is one allocation, and clients report their writes to it. Hot loops are detected from the writes and
// the causes. Requests that a person has paused on the console are parked (holds.go).
package controller

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/internal/development"
	"flyball.dev/ctrl/internal/names"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/internal/optional"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
	"flyball.dev/internal/inprocess"
)

const (
	defaultCacheSyncTimeout = 2 * time.Minute
	defaultHungAfter        = 5 * time.Minute
)

// Controller is a controller of reconcile.Requests.
type Controller = TypedController[reconcile.Request]

// TypedController reconciles the requests of its sources.
type TypedController[request comparable] interface {
	// Reconcile calls the reconciler, with the controller's timeout and its handling of panics.
	reconcile.TypedReconciler[request]

	// Watch adds a source. It is started with the controller or, if that is running, at once; Watch
	// then returns its error without waiting for it to be in sync.
	Watch(src source.TypedSource[request]) error

	// Start starts the sources, waits until they are in sync, and reconciles until ctx is done and
	// the running reconciles have returned. It returns an error if a source cannot be started, and
	// when it is called a second time.
	Start(ctx context.Context) error

	// GetLogger returns the logger of the controller.
	GetLogger() logr.Logger
}

// Options are the options of a controller of reconcile.Requests.
type Options = TypedOptions[reconcile.Request]

// TypedOptions are the options of a controller.
type TypedOptions[request comparable] struct {
	// SkipNameValidation allows a name that another controller of the same manager has. Their
	// metrics are then summed. False if nil.
	SkipNameValidation *bool

	// MaxConcurrentReconciles is how many requests are reconciled at once. 1 if zero.
	MaxConcurrentReconciles int

	// CacheSyncTimeout is how long each source may take to start and to be in sync. 2 minutes if
	// zero.
	CacheSyncTimeout time.Duration

	// RecoverPanic turns a panic of the reconciler into an error. True if nil. If false, a panic
	// ends the program.
	RecoverPanic *bool

	// NeedLeaderElection makes the controller run only in the leader. True if nil.
	NeedLeaderElection *bool

	// Reconciler reconciles the requests. It is required.
	Reconciler reconcile.TypedReconciler[request]

	// RateLimiter returns the delay before a request is retried. The default is 5 ms, doubled with
	// every failure up to 1000 s; without a priority queue there is also an overall limit of 10 a
	// second with bursts of 100.
	RateLimiter workqueue.TypedRateLimiter[request]

	// NewQueue creates the work queue when the controller starts. The default is priorityqueue.New.
	// A queue that is not a priorityqueue.PriorityQueue has no priorities; one that is not a
	// priorityqueue.CauseRecorder has no causes, without which hot loops are not detected.
	NewQueue func(
		controllerName string, rateLimiter workqueue.TypedRateLimiter[request],
	) workqueue.TypedRateLimitingInterface[request]

	// Logger is the base of the controller's logger.
	Logger logr.Logger

	// LogConstructor returns the logger of a request, or the logger of the controller itself if the
	// request is nil. The default adds the controller's name, the object's name and its namespace
	// to Logger.
	LogConstructor func(request *request) logr.Logger

	// UsePriorityQueue is whether the queue has priorities. True if nil.
	UsePriorityQueue *bool

	// EnableWarmup starts the sources before this process is the leader, so that it can take over
	// quickly. It has no effect without leader election. False if nil.
	EnableWarmup *bool

	// ReconciliationTimeout limits the context of every Reconcile. Zero means no limit.
	ReconciliationTimeout time.Duration

	// The following fields are additions to what controller-runtime has.

	// Flow returns the name of the flow that a request belongs to, such as its namespace or its
	// tenant. The flows of one priority are served round robin, so that the owner of many requests
	// does not delay the owner of few. It must be quick. Nil means FIFO order. NewQueue overrides
	// it.
	Flow func(request) string

	// InTurn makes the workers take requests in turn: the next request is taken from the queue after the Reconcile of the last one
	// has called EndTurn or returned. Reconciles that share something, such as a pool of addresses, then decide in the order of the
	// queue, and write concurrently.
	InTurn bool

	// HungAfter, DetectHotLoops, OnHotLoop and TracerProvider are as in config.Controller.
	HungAfter      time.Duration
	DetectHotLoops *bool
	OnHotLoop      func(HotLoop)
	TracerProvider trace.TracerProvider

	// Kind is the kind of the objects that the requests name. The console shows it. The builder sets it to the kind of For.
	Kind schema.GroupVersionKind
}

// HotLoop is a request that is reconciled endlessly because of the reconciler's own writes.
type HotLoop = config.HotLoop

// DefaultFromConfig sets the options that are not set to the options of config.
func (options *TypedOptions[request]) DefaultFromConfig(config config.Controller) {
	if options.Logger.GetSink() == nil {
		options.Logger = config.Logger
	}
	options.SkipNameValidation = cmp.Or(options.SkipNameValidation, config.SkipNameValidation)
	options.UsePriorityQueue = cmp.Or(options.UsePriorityQueue, config.UsePriorityQueue)
	options.RecoverPanic = cmp.Or(options.RecoverPanic, config.RecoverPanic)
	options.NeedLeaderElection = cmp.Or(options.NeedLeaderElection, config.NeedLeaderElection)
	options.EnableWarmup = cmp.Or(options.EnableWarmup, config.EnableWarmup)
	options.CacheSyncTimeout = cmp.Or(options.CacheSyncTimeout, config.CacheSyncTimeout)
	options.ReconciliationTimeout = cmp.Or(options.ReconciliationTimeout, config.ReconciliationTimeout)
	options.HungAfter = cmp.Or(options.HungAfter, config.HungAfter)
	options.DetectHotLoops = cmp.Or(options.DetectHotLoops, config.DetectHotLoops)
	if options.OnHotLoop == nil {
		options.OnHotLoop = config.OnHotLoop
	}
	if options.TracerProvider == nil {
		options.TracerProvider = config.TracerProvider
	}
	if options.MaxConcurrentReconciles <= 0 && config.MaxConcurrentReconciles > 0 {
		options.MaxConcurrentReconciles = config.MaxConcurrentReconciles
	}
}

// controller implements TypedController. Its only goroutines are its workers.
type controller[request comparable] struct {
	name        string
	options     TypedOptions[request] // complete
	development *development.Monitor  // nil if the manager has none
	record      *observe.Controller   // nil if the manager has no console
	reconciles  inprocess.Reconciles  // nil unless the transport of the manager learns of reconciles
	holds       holds[request]

	mu       sync.Mutex
	started  bool
	stopped  bool                          // whether Start has returned
	pending  []source.TypedSource[request] // sources to start with the controller
	sources  *eventSources[request]        // nil until they are started
	begun    chan struct{}                 // closed when sources is set
	flushers []optional.Flusher            // of the sources that were started
}

func (c *controller[request]) GetLogger() logr.Logger { return c.options.LogConstructor(nil) }

// NeedLeaderElection reports whether the manager starts the controller only in the leader.
func (c *controller[request]) NeedLeaderElection() bool {
	return ptr.Deref(c.options.NeedLeaderElection, true)
}

// Warmup starts the sources, if EnableWarmup is set, before this process is the leader.
func (c *controller[request]) Warmup(ctx context.Context) error {
	if !ptr.Deref(c.options.EnableWarmup, false) {
		return nil
	}
	_, err := c.startSources(ctx)
	return err
}

// New returns a controller that the manager starts. Its name is used in metrics and logs, and must
// be unique in the manager.
//
//go:noinline because the packages that call it would instantiate the controller
func New(name string, mgr manager.Manager, options Options) (Controller, error) {
	return NewTyped(name, mgr, options)
}

// NewTyped is New for requests of any type.
func NewTyped[request comparable](
	name string, mgr manager.Manager, options TypedOptions[request],
) (TypedController[request], error) {
	if mgr == nil {
		return nil, errors.New("must provide a non-nil Manager")
	}
	options.DefaultFromConfig(mgr.GetControllerOptions())
	scope := &names.Process
	if owner, ok := mgr.(names.Owner); ok {
		scope = owner.ControllerNames()
	}
	c, err := newController(name, options, scope)
	if err != nil {
		return nil, err
	}
	if owner, ok := mgr.(development.Owner); ok {
		c.development = owner.DevelopmentMonitor()
	}
	c.observe(observe.RecorderOf(mgr))
	c.reconciles = inprocess.ReconcilesOf(mgr.GetConfig())
	return c, mgr.Add(c)
}

// NewUnmanaged returns a controller that the caller starts. Its name must be unique among the
// unmanaged controllers of the process.
//
//go:noinline because the packages that call it would instantiate the controller
func NewUnmanaged(name string, options Options) (Controller, error) {
	return NewTypedUnmanaged(name, options)
}

// NewTypedUnmanaged is NewUnmanaged for requests of any type.
func NewTypedUnmanaged[request comparable](
	name string, options TypedOptions[request],
) (TypedController[request], error) {
	c, err := newController(name, options, &names.Process)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController[request comparable](
	name string, options TypedOptions[request], scope *names.Set,
) (*controller[request], error) {
	if f := reflect.ValueOf(options.Reconciler); !f.IsValid() || f.Kind() == reflect.Func && f.IsNil() {
		return nil, errors.New("must specify Reconciler")
	}
	if name == "" {
		return nil, errors.New("must specify Name for Controller")
	}
	if !ptr.Deref(options.SkipNameValidation, false) {
		if err := scope.Claim(name); err != nil {
			return nil, err
		}
	}
	complete(&options, name)
	return &controller[request]{name: name, options: options, begun: make(chan struct{})}, nil
}

// complete sets the defaults of options that are not set.
func complete[request comparable](options *TypedOptions[request], name string) {
	if options.MaxConcurrentReconciles <= 0 {
		options.MaxConcurrentReconciles = 1
	}
	options.CacheSyncTimeout = cmp.Or(options.CacheSyncTimeout, defaultCacheSyncTimeout)
	options.HungAfter = cmp.Or(options.HungAfter, defaultHungAfter)
	priorities := ptr.Deref(options.UsePriorityQueue, true)
	if options.RateLimiter == nil {
		if priorities {
			options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[request](
				5*time.Millisecond, 1000*time.Second)
		} else {
			options.RateLimiter = workqueue.DefaultTypedControllerRateLimiter[request]()
		}
	}
	logger := options.Logger.WithValues("controller", name)
	if options.NewQueue == nil {
		options.NewQueue = func(
			name string, limiter workqueue.TypedRateLimiter[request],
		) workqueue.TypedRateLimitingInterface[request] {
			return priorityqueue.New(name, func(o *priorityqueue.Opts[request]) {
				o.Log = logger
				o.RateLimiter = limiter
				o.IgnorePriorities = !priorities
				o.Flow = options.Flow
			})
		}
	}
	if options.LogConstructor == nil {
		options.LogConstructor = func(in *request) logr.Logger {
			if req, ok := any(in).(*reconcile.Request); ok && req != nil {
				return logger.WithValues("object", klog.KRef(req.Namespace, req.Name),
					"namespace", req.Namespace, "name", req.Name)
			}
			return logger
		}
	}
}
