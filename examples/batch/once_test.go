package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
	migrationv1 "flyball.dev/examples/batch/api/v1"
	"flyball.dev/examples/batch/internal/controller"
	"flyball.dev/examples/internal/crash"
	"flyball.dev/examples/internal/example"
)

// newWorld returns a control plane without an operator. It ends with the test.
func newWorld(t *testing.T) *example.World {
	t.Helper()
	plane, err := controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	w, err := example.NewWorld(t.Context(), batch, plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// reconciler returns a reconciler with a client, and one to ask the API server.
func reconciler(c client.Client, live client.Reader) *controller.MigrationReconciler {
	return &controller.MigrationReconciler{Client: c, Live: live, Scheme: c.Scheme(), Recorder: &events.FakeRecorder{}}
}

// newMigration returns a Migration that runs for half a minute. Its Job is deleted at once when it
// has ended.
func newMigration(name, outcome string) *migrationv1.Migration {
	return &migrationv1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: migrationv1.MigrationSpec{
			Image: "example.com/migrate:1", TTLSecondsAfterFinished: new(int32(0)),
			PodAnnotations: map[string]string{"flyball.dev/outcome": outcome, "flyball.dev/duration": "30s"},
		},
	}
}

// reconcileAll reconciles a Migration again and again, with a minute in between, in which its Job
// ends and is deleted; before each minute, meddle is called.
func reconcileAll(t *testing.T, c *crash.Client, live client.WithWatch, m *migrationv1.Migration, meddle func()) {
	t.Helper()
	r := reconciler(c, live)
	for range 7 {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(m)})
		if err != nil && !errors.Is(err, crash.Err) {
			t.Fatal(err)
		}
		c.Restart()
		meddle()
		time.Sleep(time.Minute)
		synctest.Wait()
	}
}

// meddlers change, between two reconciles, what an operator must not rely on.
var meddlers = []struct {
	name   string
	meddle func(context.Context, client.Client, *migrationv1.Migration) error
}{
	{"nobody", func(context.Context, client.Client, *migrationv1.Migration) error { return nil }},
	{"status lost", func(ctx context.Context, c client.Client, m *migrationv1.Migration) error {
		now := &migrationv1.Migration{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(m), now); err != nil {
			return err
		}
		before := client.MergeFrom(now.DeepCopy())
		now.Status = migrationv1.MigrationStatus{}
		return c.Status().Patch(ctx, now, before)
	}},
	{"metadata touched", func(ctx context.Context, c client.Client, m *migrationv1.Migration) error {
		now := &migrationv1.Migration{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(m), now); err != nil {
			return err
		}
		before := client.MergeFrom(now.DeepCopy())
		metav1.SetMetaDataLabel(&now.ObjectMeta, "touched", time.Now().Format("150405"))
		return c.Patch(ctx, now, before)
	}},
}

// TestOnce crashes the operator before and after each write. Whatever else happens, one Job is
// created, it has one Pod, its result is recorded, and it is released.
func TestOnce(t *testing.T) {
	for _, outcome := range []migrationv1.Result{migrationv1.Succeeded, migrationv1.Failed} {
		for _, other := range meddlers {
			t.Run(fmt.Sprintf("%s, %s", outcome, other.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					for write := 0; ; write++ {
						before := once(t, w, outcome, crash.Point{Write: write}, other.meddle)
						after := once(t, w, outcome, crash.Point{Write: write, After: true}, other.meddle)
						if write > 0 && !before && !after {
							if write < 6 {
								t.Errorf("there were only %d writes", write-1)
							}
							return // there is no such write
						}
					}
				})
			})
		}
	}
}

// once executes a Migration with a crash, and reports whether that has happened.
func once(t *testing.T, w *example.World, outcome migrationv1.Result, p crash.Point,
	meddle func(context.Context, client.Client, *migrationv1.Migration) error) bool {
	t.Helper()
	m := newMigration(fmt.Sprintf("m-%d-%t", p.Write, p.After), string(outcome))
	if err := w.Client.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	c := crash.NewClient(w.Client, p)
	reconcileAll(t, c, w.Client, m, func() {
		if err := meddle(t.Context(), w.Client, m); err != nil {
			t.Fatal(err)
		}
	})
	r := reconciler(w.Client, w.Client)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(m)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatal(err)
	}
	if m.Status.Result != outcome || m.Annotations[controller.ResultAnnotation] != string(outcome) {
		t.Errorf("crash %v: the status is %+v, the annotations %v, want %s", p, m.Status, m.Annotations, outcome)
	}
	created := slices.DeleteFunc(slices.Clone(c.Writes), func(s string) bool { return s != "create *v1.Job "+m.Name+"-1" })
	if len(created) != 1 {
		t.Errorf("crash %v: the writes were %q", p, c.Writes)
	}
	if n := podsOf(t, w, m.Name+"-1"); n != 1 {
		t.Errorf("crash %v: %d Pods were created", p, n)
	}
	err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: m.Namespace, Name: m.Name + "-1"}, &batchv1.Job{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("crash %v: the Job is still there: %v", p, err)
	}
	return c.Crashed
}

// podsOf returns how many Pods were ever created for a Job, by its events.
func podsOf(t *testing.T, w *example.World, job string) (n int) {
	t.Helper()
	list := &corev1.EventList{}
	if err := w.Client.List(t.Context(), list, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.InvolvedObject.Name == job && e.Reason == "SuccessfulCreate" {
			n += int(max(e.Count, 1))
		}
	}
	return n
}

// TestStaleCache has a cache from before the Migration was started, or from while it ran but without
// its Job, as a new leader may have for a moment.
func TestStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := newMigration("stale", string(migrationv1.Succeeded))
		if err := w.Client.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(m)}
		if _, err := reconciler(w.Client, w.Client).Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		started := &migrationv1.Migration{}
		if err := w.Client.Get(t.Context(), request.NamespacedName, started); err != nil {
			t.Fatal(err)
		}
		check := func(when string) {
			for _, cached := range []*migrationv1.Migration{m, started} {
				c := crash.NewClient(staleClient(w.Client, cached), crash.Point{})
				_, err := reconciler(c, w.Client).Reconcile(t.Context(), request)
				if err != nil && !apierrors.IsConflict(err) || len(c.Writes) > 0 {
					t.Errorf("%s, with a cache at resource version %s: %v, the writes were %q", when,
						cached.ResourceVersion, err, c.Writes)
				}
			}
		}
		check("while the Job runs")
		reconcileAll(t, crash.NewClient(w.Client, crash.Point{}), w.Client, m.DeepCopy(), func() {})
		check("when the Job is gone")
		if n := podsOf(t, w, "stale-1"); n != 1 {
			t.Errorf("%d Pods were created", n)
		}
	})
}

// staleClient returns a client that reads a Migration as it was once, and no Jobs.
func staleClient(c client.WithWatch, m *migrationv1.Migration) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			m.DeepCopyInto(obj.(*migrationv1.Migration))
			return nil
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
	})
}

// TestOneAttemptAtATime increases the attempt while the Job of the first one runs.
func TestOneAttemptAtATime(t *testing.T) {
	for _, outcome := range []migrationv1.Result{migrationv1.Succeeded, migrationv1.Failed} {
		t.Run(string(outcome), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := newMigration("impatient", string(outcome))
				if err := w.Client.Create(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				c := crash.NewClient(w.Client, crash.Point{})
				r := reconciler(c, w.Client)
				request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(m)}
				if _, err := r.Reconcile(t.Context(), request); err != nil {
					t.Fatal(err)
				}
				if err := w.Client.Get(t.Context(), request.NamespacedName, m); err != nil {
					t.Fatal(err)
				}
				before := client.MergeFrom(m.DeepCopy())
				m.Spec.Attempt = 2
				if err := w.Client.Patch(t.Context(), m, before); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Reconcile(t.Context(), request); err != nil {
					t.Fatal(err)
				}
				if n := podsOf(t, w, "impatient-2"); n != 0 {
					t.Errorf("the second attempt has %d Pods while the first one runs", n)
				}
				time.Sleep(time.Minute)
				reconcileAll(t, c, w.Client, m, func() {})
				want := 0
				if outcome == migrationv1.Failed {
					want = 1
				}
				if n := podsOf(t, w, "impatient-2"); n != want {
					t.Errorf("the second attempt has %d Pods, want %d", n, want)
				}
			})
		})
	}
}
