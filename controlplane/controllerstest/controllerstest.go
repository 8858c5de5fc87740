// Package controllerstest helps the tests of controllers: it runs a test in virtual time, with a control plane and all
// its controllers or one of them.
//
// [WithController] runs one controller and intercepts its client.
package controllerstest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
)

// Main runs the tests of a package and fails if goroutines are left.
func Main(m *testing.M) { goleak.VerifyTestMain(m) }

// Env is a test with a client of a control plane.
type Env struct {
	*testing.T
	client.WithWatch
	Plane *controlplane.ControlPlane
}

// InVirtualTime runs a test in virtual time with a control plane of its own.
func InVirtualTime(t *testing.T, o controllers.Options, test func(e Env)) {
	t.Helper()
	WithControlPlane(t, controlplane.Options{Controllers: o}, test)
}

// WithControlPlane is InVirtualTime with all options of a control plane.
func WithControlPlane(t *testing.T, o controlplane.Options, test func(e Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { WithPlane(t, o, test) })
}

// WithPlane runs a test with a control plane of its own. The test fails if RBAC forbids a request of a controller, or if a
// controller returns a result that is ignored.
func WithPlane(t *testing.T, o controlplane.Options, test func(e Env)) {
	t.Helper()
	if o.Logger.GetSink() == nil {
		o.Logger = logr.New(&checkedSink{LogSink: klog.Background().GetSink(), t: t})
	}
	plane, err := controlplane.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}()
	c, err := client.NewWithWatch(plane.Config(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	test(Env{t, c, plane})
}

// WithController runs a test in virtual time with one controller. The controller has its identity, and funcs intercepts
// its client.
func WithController(t *testing.T, name string, funcs func(e Env) interceptor.Funcs, test func(e Env)) {
	t.Helper()
	WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e Env) {
		newClient := func(cfg *rest.Config, o client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(cfg, o)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(c, funcs(e)), nil
		}
		defer e.StartController(name, controllers.Options{NewClient: newClient})()
		test(e)
	})
}

// StartController starts one controller, with its identity, and returns the function that stops it.
func (e Env) StartController(name string, o controllers.Options) (stop func()) {
	e.Helper()
	mgr, err := manager.New(e.ConfigFor(controllers.ManagerIdentity), e.ManagerOptions())
	e.Must(err)
	e.Must(o.Select(name))
	o.ConfigFor = e.ConfigFor
	e.Must(controllers.AddAll(mgr, o))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		e.Helper()
		cancel()
		e.Must(<-done)
	}
}

// ConfigFor returns the configuration of a client with an identity.
func (e Env) ConfigFor(id controllers.Identity) *rest.Config {
	e.Helper()
	cfg, err := e.Plane.UserConfig(id.User, id.Groups...)
	e.Must(err)
	cfg.UserAgent = id.UserAgent
	return cfg
}

// ManagerOptions returns the options of a manager of controllers.
func (e Env) ManagerOptions() manager.Options {
	skipNames := true
	return manager.Options{
		Logger:     Quiet(e.T),
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skipNames},
	}
}

// WaitIdle waits until the controllers are idle.
func (e Env) WaitIdle() {
	e.Helper()
	time.Sleep(10 * time.Second) // virtual
	synctest.Wait()
}

// Must fails the test if err is not nil.
func (e Env) Must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// CreateAll creates objects.
func (e Env) CreateAll(objects ...client.Object) {
	e.Helper()
	for _, o := range objects {
		e.Must(e.Create(e.Context(), o))
	}
}

// Quiet returns a logger that drops all messages. The test fails if they show a mistake of a controller, as with WithPlane.
func Quiet(t *testing.T) logr.Logger { return logr.New(&checkedSink{LogSink: log.NullLogSink{}, t: t}) }

// checkedSink fails the test when a controller logs that RBAC forbids one of its requests, or that its result is ignored.
type checkedSink struct {
	logr.LogSink
	t     *testing.T
	about []any // the values of the logger
}

// Enabled is true at the level of the messages of controllers. See controlplane.Options.Logger.
func (s *checkedSink) Enabled(level int) bool { return level <= 1 || s.LogSink.Enabled(level) }

func (s *checkedSink) Info(level int, message string, keysAndValues ...any) {
	if strings.HasPrefix(message, "The reconciler returned an error together with ") {
		s.t.Errorf("%s: %v", message, s.about)
	}
	if s.LogSink.Enabled(level) {
		s.LogSink.Info(level, message, keysAndValues...)
	}
}

func (s *checkedSink) Error(err error, message string, keysAndValues ...any) {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), ` is forbidden: User "system:`) {
		s.t.Errorf("%s: %v", message, err)
	}
	s.LogSink.Error(err, message, keysAndValues...)
}

func (s *checkedSink) WithValues(keysAndValues ...any) logr.LogSink {
	return &checkedSink{s.LogSink.WithValues(keysAndValues...), s.t, slices.Concat(s.about, keysAndValues)}
}

func (s *checkedSink) WithName(name string) logr.LogSink {
	return &checkedSink{s.LogSink.WithName(name), s.t, s.about}
}
