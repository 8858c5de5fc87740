package controllers_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is a test with a client of a control plane in virtual time.
type env struct {
	*testing.T
	client.WithWatch
	plane *controlplane.ControlPlane
}

// inVirtualTime runs a test with a control plane of its own.
func inVirtualTime(t *testing.T, o controllers.Options, test func(e env)) {
	t.Helper()
	withControlPlane(t, controlplane.Options{Controllers: o}, test)
}

// withControlPlane runs a test in virtual time with a control plane of its own.
func withControlPlane(t *testing.T, o controlplane.Options, test func(e env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { withPlane(t, o, test) })
}

// withPlane runs a test with a control plane of its own.
func withPlane(t *testing.T, o controlplane.Options, test func(e env)) {
	t.Helper()
	if o.Logger.GetSink() == nil {
		o.Logger = authorized(t)
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
	test(env{t, c, plane})
}

// withController runs a test in virtual time with one controller, which has its identity and a client
// that is intercepted.
func withController(t *testing.T, name string, funcs func(e env) interceptor.Funcs, test func(e env)) {
	t.Helper()
	others := slices.DeleteFunc(controllers.Names(), func(other string) bool { return other == name })
	withControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e env) {
		mgr, err := manager.New(e.configFor(controllers.ManagerIdentity), e.managerOptions())
		e.must(err)
		o := controllers.Options{Without: others, ConfigFor: e.configFor}
		e.must(controllers.AddAllWithClient(mgr, o, func(cfg *rest.Config, o client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(cfg, o)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(c, funcs(e)), nil
		}))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- mgr.Start(ctx) }()
		defer func() {
			cancel()
			e.must(<-done)
		}()
		test(e)
	})
}

// configFor returns the configuration of a client with an identity.
func (e env) configFor(id controllers.Identity) *rest.Config {
	e.Helper()
	cfg, err := e.plane.UserConfig(id.User, id.Groups...)
	e.must(err)
	cfg.UserAgent = id.UserAgent
	return cfg
}

// managerOptions returns the options of a manager of controllers.
func (e env) managerOptions() manager.Options {
	skipNames := true
	return manager.Options{
		Logger:     logr.New(&authorizedSink{log.NullLogSink{}, e.T}),
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skipNames},
	}
}

// waitIdle waits until the controllers are idle.
func (e env) waitIdle() {
	e.Helper()
	time.Sleep(10 * time.Second) // virtual
	synctest.Wait()
}

func (e env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// create creates objects.
func (e env) create(objects ...client.Object) {
	e.Helper()
	for _, o := range objects {
		e.must(e.Create(e.Context(), o))
	}
}
