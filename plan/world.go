package plan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
	"flyball.dev/internal/canonical"
	"flyball.dev/internal/clientscheme"
	"flyball.dev/internal/inprocess"
	"flyball.dev/lab"
	"flyball.dev/record/restore"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// NotRunning are controllers of Kubernetes that do not run in a plan, since they act on time, on machines or on clouds, with what
// they would do.
var NotRunning = map[string]string{
	"cronjob-controller":                             "CronJobs start no Jobs",
	"ttl-after-finished-controller":                  "finished Jobs are not deleted after their time",
	"horizontal-pod-autoscaler-controller":           "autoscalers do not scale",
	"node-lifecycle-controller":                      "nodes do not become unreachable",
	"service-lb-controller":                          "Services of the type LoadBalancer get no address",
	"pod-garbage-collector-controller":               "pods that have ended are not deleted",
	"certificatesigningrequest-approving-controller": "certificate requests are not approved",
	"certificatesigningrequest-cleaner-controller":   "",
	"certificatesigningrequest-signing-controller":   "certificates are not signed",
	"storage-version-migrator-controller":            "",
}

// phase is a part of a run.
type phase int32

const (
	forking   phase = iota // the controllers of Kubernetes start
	preparing              // the operator starts, or its old version
	acting                 // the change, and the start of the operator if there is none
)

// event is a write that the server has stored.
type event struct {
	storage.Event
	phase phase
	at    time.Duration
}

// world is one run of a plan: a fork, and the operator in it.
type world struct {
	*Options
	order   *order
	store   *ledger
	plane   *controlplane.ControlPlane
	watcher storage.Watcher
	audit   auditTrail
	began   time.Time
	phase   atomic.Int32

	events  []event
	last    time.Time      // of the last event
	written map[string]int // how often each object was written in the phase
	most    int            // the largest of these numbers
	endless map[phase]bool
	failed  error // the history cannot be read

	mu       sync.Mutex
	external map[string]bool // calls and connections that were refused

	operator *running
	steps    []StepResult
}

// newWorld forks a source.
func newWorld(ctx context.Context, o *Options, order *order, s *source) (w *world, err error) {
	w = &world{Options: o, order: order, began: time.Now(), endless: map[phase]bool{}, written: map[string]int{}, external: map[string]bool{}}
	w.audit.clients = map[string]string{}
	store, err := restore.Storage(s.Moment, nil, memory.Options{Retention: 10_000 * time.Hour, History: 1 << 30})
	if err != nil {
		return nil, err
	}
	w.store = &ledger{Store: store, authors: map[uint64]author{}}
	selected, err := w.controllers(s)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	options := controlplane.Options{Storage: w.store, Controllers: selected, DialWebhook: w.dial, WrapTransport: order.wrap,
		Logger: logr.New(log.NullLogSink{}), // what fails is in the plan
		Audit:  auditlog.Options{Policy: []byte(auditPolicy), Writer: trail{w}}}
	w.operator = &running{world: w}
	if o.Operator.Program != nil || o.From.Program != nil {
		w.operator.addTokens(&options)
	}
	if w.plane, err = controlplane.Start(ctx, options); err != nil {
		return nil, err
	}
	if w.watcher, err = w.store.Watch(ctx, "", 0); err != nil {
		return nil, errors.Join(err, w.plane.Stop())
	}
	return w, nil
}

// controllers returns the controllers that run.
func (w *world) controllers(s *source) (controllers.Options, error) {
	var all controllers.Options
	names, err := all.Names()
	if err != nil {
		return all, err
	}
	selected := controllers.Options{WithoutEvents: true, RootCA: s.rootCA()}
	for name := range NotRunning {
		selected.Without = append(selected.Without, name)
	}
	for _, name := range w.Without {
		if !slices.Contains(names, name) {
			return all, fmt.Errorf("there is no controller %q: the names are %s", name, strings.Join(names, ", "))
		}
		selected.Without = append(selected.Without, name)
	}
	selected.Pods.WithoutLeases, selected.Pods.AllNodes = true, true
	if s.hasNodes() {
		selected.Pods.Nodes = []corev1.Node{}
	}
	return selected, nil
}

// dial connects to a webhook or an extension API server. The operator's own webhooks are on loopback.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !w.AllowNet && !isLoopback(address) {
		w.refuse("connection to " + address)
		return nil, errNet
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// errNet is the error of a connection, and of a call of an external system, that the plan has refused.
var errNet = errors.New("plan: external systems are shut off")

func (w *world) refuse(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.external[call] = true
}

// stop ends the run.
func (w *world) stop() error {
	err := w.operator.stop()
	w.watcher.Close()
	return errors.Join(err, w.plane.Stop())
}

// run carries out the phases of the plan.
func (w *world) run(ctx context.Context) error {
	before, after := w.From, w.Operator
	if !before.exists() && len(w.Change) > 0 {
		before, after = w.Operator, Operator{}
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	if err := w.install(ctx); err != nil {
		return err
	}
	if before.exists() {
		w.phase.Store(int32(preparing))
		if err := w.operator.start(&before); err != nil {
			return err
		}
		if err := w.settle(ctx); err != nil {
			return err
		}
		if w.From.exists() {
			if err := w.operator.stop(); err != nil {
				return err
			}
			w.observe()
		}
	}
	w.phase.Store(int32(acting))
	if err := w.change(ctx); err != nil {
		return err
	}
	if after.exists() {
		if err := w.operator.start(&after); err != nil {
			return err
		}
	}
	return w.settle(ctx)
}

// changeAgent is the client that makes the change.
const changeAgent = "flyball-plan"

// install carries out the installation.
func (w *world) install(ctx context.Context) error {
	if len(w.Install) == 0 {
		return nil
	}
	w.phase.Store(int32(acting))
	results, err := w.carryOut(ctx, User{}, w.Install)
	if err != nil {
		return err
	}
	w.steps = slices.DeleteFunc(results, func(r StepResult) bool { return r.Error == "" })
	return w.settle(ctx)
}

// change makes the change.
func (w *world) change(ctx context.Context) error {
	results, err := w.carryOut(ctx, w.User, w.Change)
	w.steps = append(w.steps, results...)
	return err
}

// carryOut carries out steps. The API server may refuse one of them; the others are carried out nevertheless, as kubectl does.
func (w *world) carryOut(ctx context.Context, u User, steps []lab.Step) (results []StepResult, err error) {
	if len(steps) == 0 {
		return nil, nil
	}
	config, err := w.configOf(u, "user")
	if err != nil {
		return nil, err
	}
	config.UserAgent = changeAgent
	c, err := client.New(config, client.Options{Scheme: clientscheme.Scheme()})
	if err != nil {
		return nil, err
	}
	for _, step := range steps {
		result := StepResult{Name: step.Name}
		if err := step.Do(ctx, c); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			result.Error, result.Reason = err.Error(), string(apierrors.ReasonForError(err))
		}
		results = append(results, result)
	}
	return results, nil
}

// configOf returns the configuration of a client in the process.
func (w *world) configOf(u User, name string) (*rest.Config, error) {
	if u.Name == "" {
		u = User{Name: name, Groups: []string{user.SystemPrivilegedGroup}}
	}
	return w.plane.UserConfig(u.Name, u.Groups...)
}

// maxWrites is how many writes of one object in a phase are a loop.
const maxWrites = 1000

// settle waits until nothing has changed for a while, or the limit is reached, and then notes that the phase is endless. It returns
// an error if ctx or the operator ends.
func (w *world) settle(ctx context.Context) error {
	now := phase(w.phase.Load())
	began := time.Now()
	w.written = map[string]int{}
	w.last, w.most = began, 0
	rest := w.Rest
	if now == forking {
		rest = w.forkRest()
	}
	for {
		w.observe()
		if w.failed != nil {
			return w.failed
		}
		quiet, left := rest-time.Since(w.last), w.Limit-time.Since(began)
		switch {
		case quiet <= 0:
			return nil
		case left <= 0, w.most > maxWrites:
			w.endless[now] = true
			return nil
		}
		select {
		case <-w.watcher.Ready():
		case <-time.After(min(quiet, left)):
		case err := <-w.operator.ended():
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// forkRest is how long nothing must change until the controllers of Kubernetes have started. They are in this process, and act at
// once.
func (w *world) forkRest() time.Duration {
	if w.virtual {
		return w.Rest
	}
	return min(w.Rest, 500*time.Millisecond)
}

// observe reads what the server has stored since the last call.
func (w *world) observe() {
	stored, _, err := w.watcher.Next()
	if err != nil {
		w.failed = fmt.Errorf("reading the history of the fork: %w", err)
		return
	}
	for _, e := range stored {
		if canonical.IsState(e.Record.Key) {
			w.last = time.Now()
			w.written[e.Record.Key]++
			w.most = max(w.most, w.written[e.Record.Key])
			w.events = append(w.events, event{*e, phase(w.phase.Load()), time.Since(w.began)})
		}
	}
}

// operatorTransport is the transport of an operator in this process. It refuses calls of external systems.
type operatorTransport struct {
	http.RoundTripper
	world *world
}

var (
	_ inprocess.Transport = (*operatorTransport)(nil)
	_ inprocess.Caller    = (*operatorTransport)(nil)
)

// InProcess implements inprocess.Transport.
func (*operatorTransport) InProcess() bool { return true }

// Call implements inprocess.Caller.
func (t *operatorTransport) Call(name string, do func() error) error {
	if t.world.AllowNet {
		return do()
	}
	t.world.refuse("call " + name)
	return errNet
}

// running is the operator of a world.
type running struct {
	world *world
	token string
	stops func() error // ends the operator that runs, or is nil
	done  chan error   // receives the error of an operator that ends by itself
}

// errEnded is the error of an operator that has ended by itself.
var errEnded = errors.New("the operator has ended by itself")
