package controllers_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a test with a client of a control plane in virtual time.
type world struct {
	*testing.T
	client.WithWatch
}

// inVirtualTime runs a test with a control plane of its own.
func inVirtualTime(t *testing.T, o controllers.Options, test func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{Controllers: o})
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
		test(world{t, c})
	})
}

// waitIdle waits until the controllers are idle.
func (w world) waitIdle() {
	w.Helper()
	time.Sleep(10 * time.Second) // virtual
	synctest.Wait()
}

func (w world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
