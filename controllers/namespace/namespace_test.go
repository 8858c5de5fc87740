package namespace_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// countingStore counts the reads of Secrets in the namespace doomed.
type countingStore struct {
	storage.Store
	reads atomic.Int64
}

func (s *countingStore) Range(ctx context.Context, q storage.Query) (storage.Page, error) {
	if strings.Contains(q.Path, "secrets") && strings.Contains(q.Path, "doomed") {
		s.reads.Add(1)
	}
	return s.Store.Range(ctx, q)
}

// TestBlockedNamespaceIsNotPolled: the content of a namespace that cannot be deleted yet is read
// again only when a watch has delivered a change of it.
func TestBlockedNamespaceIsNotPolled(t *testing.T) {
	store := &countingStore{Store: memory.New(memory.Options{})}
	controllerstest.WithControlPlane(t, controlplane.Options{Storage: store}, func(e controllerstest.Env) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
		e.CreateAll(ns)
		blocking := controllerstest.ConfigMap("blocking")
		blocking.Namespace, blocking.Finalizers = "doomed", []string{"example.com/a", "example.com/b"}
		e.CreateAll(blocking)
		e.Must(e.Delete(e.Context(), ns))
		e.WaitIdle()
		const both = "Some content in the namespace has finalizers remaining: example.com/a in 1 resource instances, example.com/b in 1 resource instances"
		if got := finalizersRemaining(e, ns); got != both {
			t.Fatalf("the condition is %q", got)
		}

		before := store.reads.Load()
		if before == 0 {
			t.Fatal("no reads were counted")
		}
		time.Sleep(time.Hour) // virtual
		if after := store.reads.Load(); after != before {
			t.Errorf("%d reads in an hour without changes", after-before)
		}

		e.Must(e.Patch(e.Context(), blocking, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/b"]}}`))))
		e.WaitIdle()
		const one = "Some content in the namespace has finalizers remaining: example.com/b in 1 resource instances"
		if got := finalizersRemaining(e, ns); got != one {
			t.Errorf("the condition is %q", got)
		}
		e.Must(e.Patch(e.Context(), blocking, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace still exists: %v", err)
		}
	})
}

// finalizersRemaining returns the message of this condition of a namespace.
func finalizersRemaining(e controllerstest.Env, ns *corev1.Namespace) string {
	e.Helper()
	e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(ns), ns))
	for _, c := range ns.Status.Conditions {
		if c.Type == corev1.NamespaceFinalizersRemaining {
			return c.Message
		}
	}
	return ""
}

func TestNamespaceDeletion(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
		e.CreateAll(ns)
		stuck := controllerstest.ConfigMap("stuck")
		stuck.Namespace, stuck.Finalizers = "doomed", []string{"example.com/wait"}
		plain := controllerstest.ConfigMap("plain")
		plain.Namespace = "doomed"
		e.CreateAll(stuck, plain)
		e.Must(e.Delete(e.Context(), ns))
		e.WaitIdle()

		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(ns), ns))
		got := map[corev1.NamespaceConditionType]string{}
		for _, c := range ns.Status.Conditions {
			got[c.Type] = string(c.Status) + " " + c.Message
		}
		if ns.Status.Phase != corev1.NamespaceTerminating ||
			got[corev1.NamespaceContentRemaining] != "True Some resources are remaining: configmaps. has 1 resource instances" ||
			got[corev1.NamespaceFinalizersRemaining] != "True Some content in the namespace has finalizers remaining: example.com/wait in 1 resource instances" {
			t.Errorf("%s %v", ns.Status.Phase, got)
		}
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(plain), plain); !apierrors.IsNotFound(err) {
			t.Errorf("an object without finalizers still exists: %v", err)
		}
		e.Must(e.Patch(e.Context(), stuck, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace still exists: %v", err)
		}
	})
}

// TestConditionsOfAnEmptyNamespace: the conditions of a namespace that another finalizer keeps say that it is empty.
func TestConditionsOfAnEmptyNamespace(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"example.com/other"}}}
		e.CreateAll(ns)
		stuck := controllerstest.ConfigMap("stuck")
		stuck.Namespace, stuck.Finalizers = "doomed", []string{"example.com/wait"}
		e.CreateAll(stuck)
		e.Must(e.Delete(e.Context(), ns))
		e.WaitIdle()
		e.Must(e.Patch(e.Context(), stuck, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		e.WaitIdle()
		if got, want := finalizersRemaining(e, ns), "All content-preserving finalizers finished"; got != want {
			t.Errorf("the condition is %q, want %q", got, want)
		}
		if len(ns.Spec.Finalizers) != 1 || ns.Spec.Finalizers[0] != "example.com/other" {
			t.Errorf("the finalizers are %v", ns.Spec.Finalizers)
		}
	})
}

// TestPodsThatDoNotEnd: pods are expected to end within their grace period, and nothing else is deleted before they have.
func TestPodsThatDoNotEnd(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
		e.CreateAll(ns)
		kept := controllerstest.ConfigMap("kept")
		kept.Namespace = "doomed"
		e.CreateAll(kept, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "silent"}}, controllerstest.PodOn("silent", "doomed", "stuck"))
		failure := func() string {
			e.Helper()
			e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(ns), ns))
			e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(kept), kept))
			for _, c := range ns.Status.Conditions {
				if c.Status == corev1.ConditionTrue {
					return c.Message
				}
			}
			return ""
		}
		e.Must(e.Delete(e.Context(), ns))
		e.WaitIdle()
		time.Sleep(20 * time.Second) // virtual
		if got := failure(); got != "" {
			t.Errorf("within the grace period: %q", got)
		}
		time.Sleep(13 * time.Second)
		const want = "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: doomed for gvr: /v1, Resource=pods"
		if got := failure(); got != want {
			t.Errorf("after the grace period: %q", got)
		}
		e.Must(e.Delete(e.Context(), controllerstest.PodOn("silent", "doomed", "stuck"), client.GracePeriodSeconds(0)))
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace still exists: %v", err)
		}
	})
}

// TestForegroundDeletionInNamespace: an object that waits for its dependents is deleted with its namespace at once.
func TestForegroundDeletionInNamespace(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
		e.CreateAll(ns)
		owner, dependent := controllerstest.ConfigMap("owner"), controllerstest.ConfigMap("dependent")
		owner.Namespace, dependent.Namespace = "doomed", "doomed"
		e.CreateAll(owner)
		dependent.Finalizers = []string{"example.com/wait"}
		dependent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, BlockOwnerDeletion: ptr.To(true)}}
		e.CreateAll(dependent)
		e.Must(e.Delete(e.Context(), owner, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		e.WaitIdle()
		if e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(owner), owner)); len(owner.Finalizers) != 1 {
			t.Fatalf("the finalizers are %q", owner.Finalizers)
		}
		e.Must(e.Delete(e.Context(), ns))
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(owner), owner); !apierrors.IsNotFound(err) {
			t.Errorf("the owner still exists: %v", err)
		}
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(dependent), dependent); err != nil {
			t.Errorf("the dependent: %v", err)
		}
	})
}
