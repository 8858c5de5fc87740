package controllers_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controlplane"
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
	synctest.Test(t, func(t *testing.T) {
		store := &countingStore{Store: memory.New(memory.Options{})}
		plane, err := controlplane.Start(t.Context(), controlplane.Options{Storage: store})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		c, err := client.NewWithWatch(plane.Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := world{t, c}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
		w.create(ns)
		blocking := configMap("blocking")
		blocking.Namespace, blocking.Finalizers = "doomed", []string{"example.com/a", "example.com/b"}
		w.create(blocking)
		w.must(w.Delete(w.Context(), ns))
		w.waitIdle()
		const both = "Some content in the namespace has finalizers remaining: example.com/a in 1 resource instances, example.com/b in 1 resource instances"
		if got := w.finalizersRemaining(ns); got != both {
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

		w.must(w.Patch(w.Context(), blocking, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/b"]}}`))))
		w.waitIdle()
		const one = "Some content in the namespace has finalizers remaining: example.com/b in 1 resource instances"
		if got := w.finalizersRemaining(ns); got != one {
			t.Errorf("the condition is %q", got)
		}
		w.must(w.Patch(w.Context(), blocking, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		w.waitIdle()
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace still exists: %v", err)
		}
	})
}

// finalizersRemaining returns the message of this condition of a namespace.
func (w world) finalizersRemaining(ns *corev1.Namespace) string {
	w.Helper()
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(ns), ns))
	for _, c := range ns.Status.Conditions {
		if c.Type == corev1.NamespaceFinalizersRemaining {
			return c.Message
		}
	}
	return ""
}
