package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

const selectedNode = "volume.kubernetes.io/selected-node"

func slowClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "example.com/slow",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
}

// TestProvisionerThatRejects: a provisioner that takes each selected node back at once does not make the scheduler spin.
func TestProvisionerThatRejects(t *testing.T) {
	var selections atomic.Int32
	controllerstest.WithController(t, "scheduler", func(controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := c.Update(ctx, o, opts...); err != nil {
				return err
			}
			claim, ok := o.(*corev1.PersistentVolumeClaim)
			if !ok || claim.Annotations[selectedNode] == "" || selections.Add(1) > 100 {
				return nil
			}
			return c.Patch(ctx, claim.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+selectedNode+`":null,"x":"y"}}}`)))
		}}
	}, func(e controllerstest.Env) {
		createNode(e, "n", nil)
		e.WaitIdle()
		start := time.Now()
		e.CreateAll(slowClass(), controllerstest.Claim("data", "1Gi", "slow"), controllerstest.Pod("p", "a", usingData))
		e.WaitIdle()
		time.Sleep(10 * time.Second) // virtual
		e.WaitIdle()
		if n := selections.Load(); n > 6 {
			t.Errorf("the node was selected %d times in %v", n, time.Since(start))
		}
	})
}

// TestChangesDoNotEndBackoff: a change of labels does not end the back-off after a refused binding.
func TestChangesDoNotEndBackoff(t *testing.T) {
	var attempts atomic.Int32
	controllerstest.WithController(t, "scheduler", func(controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			attempts.Add(1)
			return errors.New("refused")
		}}
	}, func(e controllerstest.Env) {
		createNode(e, "n", nil)
		e.CreateAll(controllerstest.Pod("p", "a"))
		e.WaitIdle()
		time.Sleep(40 * time.Second)
		before, start := attempts.Load(), time.Now()
		for i := range 50 {
			p := e.Pod("p")
			e.Must(e.Patch(e.Context(), p, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"x":"%d"}}}`, i))))
			time.Sleep(10 * time.Millisecond)
		}
		if n := attempts.Load() - before; n > 2 {
			t.Errorf("%d attempts in %v, with a back-off of 10 s", n, time.Since(start))
		}
	})
}

// TestDeletedDuringAttempt: a pod that is deleted while it is scheduled leaves its node.
func TestDeletedDuringAttempt(t *testing.T) {
	var once atomic.Bool
	controllerstest.WithController(t, "scheduler", func(e controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			if pod, ok := o.(*corev1.Pod); ok && err == nil && key.Name == "p" && once.CompareAndSwap(false, true) {
				e.Must(e.Delete(context.Background(), pod.DeepCopy(), client.GracePeriodSeconds(0)))
				time.Sleep(time.Second) // the event of the deletion
			}
			return err
		}}
	}, func(e controllerstest.Env) {
		createNode(e, "n", nil)
		e.WaitIdle()
		e.CreateAll(slowClass(), controllerstest.Claim("data", "1Gi", "slow"), controllerstest.Pod("p", "a", usingData, requesting("3")))
		e.WaitIdle()
		time.Sleep(11 * time.Minute)
		e.CreateAll(controllerstest.Pod("q", "a", requesting("3")))
		e.WaitIdle()
		time.Sleep(11 * time.Minute)
		e.WantScheduled("q", `Pending on "n"`)
	})
}

// TestFailedReadKeepsNomination: a failed read of a nominated pod does not give its node to others.
func TestFailedReadKeepsNomination(t *testing.T) {
	var fail atomic.Bool
	controllerstest.WithController(t, "scheduler", func(e controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Pod); ok && key.Name == "important" && fail.Load() {
				return errors.New("the connection broke")
			}
			return c.Get(ctx, key, o, opts...)
		}}
	}, func(e controllerstest.Env) {
		createPriorities(e)
		createNode(e, "n", nil)
		e.WaitIdle()
		for i := range 2 {
			p := controllerstest.Pod(fmt.Sprint("victim", i), "a", ofPriority("low", "2"))
			p.Finalizers = []string{"example.com/wait"}
			e.CreateAll(p)
		}
		e.WaitIdle()
		e.CreateAll(controllerstest.Pod("important", "a", ofPriority("high", "4")))
		e.WaitIdle()
		if got := e.Pod("important").Status.NominatedNodeName; got != "n" {
			t.Fatalf("nominated for %q", got)
		}
		fail.Store(true)
		defer fail.Store(false)
		e.Must(e.Patch(e.Context(), e.Pod("important"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`))))
		time.Sleep(time.Second)
		e.Must(e.Patch(e.Context(), e.Pod("victim0"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		e.Must(e.Delete(e.Context(), e.Pod("victim0"), client.GracePeriodSeconds(0)))
		e.WaitIdle()
		e.CreateAll(controllerstest.Pod("thief", "a", ofPriority("low", "2")))
		time.Sleep(time.Second)
		if got := e.Pod("thief").Spec.NodeName; got != "" {
			t.Errorf("a pod of a low priority is on %q, nominated for another", got)
		}
	})
}
