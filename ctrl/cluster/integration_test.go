package cluster_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/cluster"
	"flyball.dev/ctrl/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs f with a started cluster of a control plane of its own, in virtual
// time, and then stops both.
func run(t *testing.T, f func(t *testing.T, ctx context.Context, c cluster.Cluster)) {
	testserver.Test(t, func(t *testing.T) {
		c, err := cluster.New(testserver.Start(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Start(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		testserver.Wait()
		f(t, ctx, c)
	})
}

// TestOwnWrites checks that the client reads what it wrote, at once.
func TestOwnWrites(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, cl cluster.Cluster) {
		c := client.WithFieldOwner(cl.GetClient(), "test")
		key := client.ObjectKey{Namespace: "default", Name: "x"}
		var cm corev1.ConfigMap
		if err := c.Get(ctx, key, &cm); !apierrors.IsNotFound(err) { // the cache is in use from here on
			t.Fatal(err)
		}
		for round := range 20 {
			cm = corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Finalizers: []string{"example.com/hold"}}}
			check := func(step, want string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", step, err)
				}
				if err := c.Get(ctx, key, &cm); err != nil || cm.Data["step"] != want {
					t.Fatalf("round %d: read %q after the %s, %v", round, cm.Data["step"], step, err)
				}
			}
			cm.Data = map[string]string{"step": "created"}
			check("create", "created", c.Create(ctx, &cm))
			cm.Data["step"] = "updated"
			check("update", "updated", c.Update(ctx, &cm))
			before := cm.DeepCopy()
			cm.Data["step"] = "patched"
			check("patch", "patched", c.Patch(ctx, &cm, client.MergeFrom(before)))
			ac := corev1ac.ConfigMap(key.Name, key.Namespace).WithData(map[string]string{"step": "applied"})
			check("apply", "applied", c.Apply(ctx, ac, client.ForceOwnership))
			check("dry run", "applied", c.Delete(ctx, &cm, client.DryRunAll))
			check("delete", "applied", c.Delete(ctx, &cm))
			if cm.DeletionTimestamp == nil {
				t.Fatalf("round %d: the deletion does not show", round)
			}
			cm.Finalizers = nil
			if err := c.Update(ctx, &cm); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(ctx, key, &cm); !apierrors.IsNotFound(err) {
				t.Fatalf("round %d: still there after the last finalizer: %v", round, err)
			}
		}
	})
}

// TestEvents checks that the server takes the events of both APIs, and that it counts those that repeat. The count of
// an event of events.k8s.io is written with the second one, and then when the series has ended.
func TestEvents(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, c cluster.Cluster) {
		about := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "u"}}
		for range 3 {
			//lint:ignore SA1019 part of the interface
			c.GetEventRecorderFor("old").Event(about, "Normal", "Old", "said")
			c.GetEventRecorder("new").Eventf(about, nil, "Warning", "New", "Say", "said")
			time.Sleep(time.Second)
		}
		testserver.Wait()

		var core corev1.EventList
		var events eventsv1.EventList
		for _, l := range []client.ObjectList{&core, &events} {
			if err := c.GetAPIReader().List(ctx, l, client.InNamespace("default")); err != nil {
				t.Fatal(err)
			}
		}
		if len(core.Items) != 2 || len(events.Items) != 2 {
			t.Fatalf("%d core events, %d events", len(core.Items), len(events.Items))
		}
		for _, e := range core.Items {
			if e.Reason == "Old" && (e.Count != 3 || e.Source.Component != "old" || !e.LastTimestamp.After(e.FirstTimestamp.Time)) {
				t.Errorf("got %+v", e)
			}
		}
		for _, e := range events.Items {
			if e.Reason == "New" && (e.Series == nil || e.Series.Count != 2 || e.ReportingController != "new" || e.Note != "said") {
				t.Errorf("got %+v", e)
			}
		}
	})
}
