package manager_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/testserver"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
)

// replica is one of several managers that elect a leader.
type replica struct {
	manager.Manager
	stop  context.CancelFunc
	ended chan error
}

// start starts a replica. Its leader-only work calls lead.
func start(t *testing.T, config *rest.Config, lead func()) *replica {
	t.Helper()
	mgr, err := manager.New(config, manager.Options{
		Metrics:        metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "test", LeaderElectionNamespace: "default",
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       ptr.To(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		lead()
		<-ctx.Done()
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &replica{mgr, stop, make(chan error, 1)}
	go func() { r.ended <- mgr.Start(ctx) }()
	return r
}

// TestElection lets replicas elect a leader over a Lease in a control plane.
func TestElection(t *testing.T) {
	testserver.Test(t, func(t *testing.T) {
		config := testserver.Start(t)
		defer testserver.Wait() // a manager that lost its lease still records that
		var mu sync.Mutex
		var led []string
		lead := func(name string) func() {
			return func() {
				mu.Lock()
				defer mu.Unlock()
				led = append(led, name)
			}
		}
		expect := func(want ...string) {
			t.Helper()
			testserver.Wait()
			mu.Lock()
			defer mu.Unlock()
			if fmt.Sprint(led) != fmt.Sprint(want) {
				t.Errorf("led: %v, want %v", led, want)
			}
		}
		c, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		holder := func() string {
			t.Helper()
			lease := &coordinationv1.Lease{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "test"}, lease); err != nil {
				t.Fatal(err)
			}
			return ptr.Deref(lease.Spec.HolderIdentity, "")
		}

		a := start(t, config, lead("a"))
		<-a.Elected()
		b := start(t, config, lead("b"))
		long := 10 * time.Minute
		if testserver.External() {
			long = 5 * time.Second
		}
		time.Sleep(long)
		expect("a")
		first := holder()

		a.stop()
		if err := <-a.ended; err != nil {
			t.Error(err)
		}
		if h := holder(); h != "" {
			t.Errorf("the lease was not released: %q has it", h)
		}
		stopped := time.Now()
		<-b.Elected()
		if took := time.Since(stopped); took > 5*time.Second {
			t.Errorf("it took %v to take over", took)
		}
		expect("a", "b")
		if h := holder(); h == "" || h == first {
			t.Errorf("%q has the lease", h)
		}

		// Another holder takes the lease.
		lease := &coordinationv1.Lease{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "test"}, lease); err != nil {
			t.Fatal(err)
		}
		lease.Spec.HolderIdentity = ptr.To("thief")
		if err := c.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		if err := <-b.ended; err == nil || err.Error() != "leader election lost" {
			t.Errorf("after the lease was taken: %v", err)
		}

		// The elections are recorded.
		events := &corev1.EventList{}
		if err := c.List(t.Context(), events, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		reasons := map[string]int{}
		for _, e := range events.Items {
			reasons[e.Reason]++
		}
		if reasons["LeaderElection"] < 3 {
			t.Errorf("events: %v", reasons)
		}
	})
}
