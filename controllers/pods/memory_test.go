package pods

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/pods/sandbox"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/fake"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/internal/heaptest"
)

// newReconciler returns a reconciler of the pods on one node, without handlers and a shell.
func newReconciler(o Options) *reconciler {
	c := fake.NewClientBuilder().WithStatusSubresource(&corev1.Pod{}).Build()
	r := &reconciler{
		client: c, live: c, recorder: &record.FakeRecorder{}, options: o, addresses: newAddresses(DefaultNetwork), dependents: newDependents(),
		mounts: newDependents(), nodes: &servedNodes{addresses: map[string]string{"n": "10.0.0.1"}}, deferred: map[types.NamespacedName]bool{},
	}
	r.sandboxes = sandbox.New(sandbox.Options{Pod: r.pod, Reader: r.reader, Claim: r.claim, Script: r.options.scriptedLog, Image: r.options.image,
		Changed: r.enqueue, Record: r.recordContainer})
	return r
}

// reconcileUntil reconciles a pod until a time, and then until its status stays.
func (r *reconciler) reconcileUntil(ctx context.Context, key types.NamespacedName, until time.Time) error {
	for steps := 0; ; steps++ {
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: key})
		switch {
		case err != nil || steps > 100:
			return fmt.Errorf("step %d: %v", steps, err)
		case result.RequeueAfter > 0 && time.Now().Add(result.RequeueAfter).Before(until):
			time.Sleep(result.RequeueAfter) // virtual
		case steps > 2:
			return nil
		}
	}
}

// known returns how many pods the tables of the reconciler know, besides their addresses.
func (r *reconciler) known() int {
	return len(r.memories.pods) + len(r.deferred) + len(r.allocations.pods) + len(r.dependents.pods) + len(r.dependents.keys) +
		len(r.mounts.pods) + len(r.mounts.keys) + len(r.written.over) + len(r.addresses.waiting.at) + len(r.addresses.returned)
}

// TestTablesOfPods: the controller knows nothing of idle pods and of pods that have ended besides an address, and nothing at all of pods that
// are gone.
func TestTablesOfPods(t *testing.T) {
	for name, tt := range map[string]struct {
		options   Options
		script    string
		change    func(p *corev1.Pod)
		want      int // of a pod
		addresses int
	}{
		"idle":           {addresses: 1},
		"restarted once": {change: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "b" }, addresses: 1},
		"ended":          {change: withAnnotations(Succeeded, "5s", "")},
		"idle, with a script for images": {
			options:   Options{Script: &Script{Containers: []ContainerScript{{Files: map[string]string{"/x": "x"}}}}},
			addresses: 1,
		},
		"scripted":                      {script: "containers: [{runs: [{steps: [{usage: {cpu: 1}}]}]}]", want: 1, addresses: 1},
		"scripted, and ended":           {script: "containers: [{runs: [{steps: [{after: 5s, exit: {code: 0}}]}]}]"},
		"pulled after a failure":        {script: "containers: [{pull: {failures: 1}}]", addresses: 1},
		"with an image that is missing": {change: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "b:404" }, want: 1, addresses: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Second / 2) // virtual: the times in the status lack it
				r := newReconciler(tt.options)
				const pods = 3
				var all []*corev1.Pod
				for i := range pods {
					p := pod(restarting(corev1.RestartPolicyNever), func(p *corev1.Pod) {
						p.Namespace, p.Name, p.UID = "default", fmt.Sprint("p", i), types.UID(fmt.Sprint(i))
						p.Spec.NodeName, p.Spec.InitContainers, p.Status = "n", nil, corev1.PodStatus{}
					})
					if tt.script != "" {
						scripted(tt.script)(p)
					}
					if err := r.client.Create(t.Context(), p); err != nil {
						t.Fatal(err)
					}
					if err := r.reconcileUntil(t.Context(), client.ObjectKeyFromObject(p), time.Now()); err != nil {
						t.Fatal(err)
					}
					if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
						t.Fatal(err)
					}
					if tt.change != nil {
						tt.change(p)
						if err := r.client.Update(t.Context(), p); err != nil {
							t.Fatal(err)
						}
					}
					all = append(all, p)
				}
				for _, p := range all {
					if err := r.reconcileUntil(t.Context(), client.ObjectKeyFromObject(p), time.Now().Add(20*time.Minute)); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(11 * time.Minute) // virtual: back-offs of pulls expire
				for _, p := range all {
					if err := r.reconcileUntil(t.Context(), client.ObjectKeyFromObject(p), time.Now()); err != nil {
						t.Fatal(err)
					}
				}
				if r.known() != tt.want*pods || r.addresses.owners.len != tt.addresses*pods {
					t.Errorf("of %d pods, the tables have %d entries and %d addresses: %+v", pods, r.known(), r.addresses.owners.len, r.memories.pods)
				}
				for _, p := range all {
					if err := r.client.Delete(t.Context(), p); err != nil && !apierrors.IsNotFound(err) {
						t.Fatal(err)
					}
					if err := r.reconcileUntil(t.Context(), client.ObjectKeyFromObject(p), time.Now()); err != nil {
						t.Fatal(err)
					}
				}
				if r.known() != 0 || r.addresses.owners.len != 0 || len(r.addresses.owners.pages) != 0 {
					t.Errorf("of pods that are gone, the tables have %d entries and %d addresses", r.known(), r.addresses.owners.len)
				}
			})
		})
	}
}

// TestHeapOfIdlePods bounds the heap that the controller has for an idle pod: an address.
func TestHeapOfIdlePods(t *testing.T) {
	const pods, limit = 64, 150
	r := newReconciler(Options{})
	heap := heaptest.New(t, "flyball.dev/controllers/pods.(*addresses).", "flyball.dev/controllers/pods.(*memories).",
		"flyball.dev/controllers/pods.(*dependents).", "flyball.dev/controllers/pods.(*written).", "flyball.dev/controllers/pods.(*allocations).")
	errs := make(chan error)
	go r.runPods(pods, errs)
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	if size := heap.Held() / pods; size > limit {
		t.Errorf("the controller has %d bytes for an idle pod", size)
	} else {
		t.Logf("the controller has %d bytes for an idle pod", size)
	}
	runtime.KeepAlive(r)
}

// runPods creates pods, and reconciles them until they run.
func (r *reconciler) runPods(pods int, errs chan<- error) {
	for i := range pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint(i))},
			Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
		err := r.client.Create(context.Background(), p)
		if err == nil {
			err = r.reconcileUntil(context.Background(), client.ObjectKeyFromObject(p), time.Now())
		}
		if err != nil {
			errs <- err
			return
		}
	}
	errs <- nil
}
