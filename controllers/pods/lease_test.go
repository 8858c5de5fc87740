package pods_test

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/controllerstest"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
)

// failingSink fails the test when an error is logged.
type failingSink struct {
	log.NullLogSink
	t *testing.T
}

func (s failingSink) Error(err error, message string, _ ...any) { s.t.Errorf("%s: %v", message, err) }

func (s failingSink) WithValues(...any) logr.LogSink { return s }

func (s failingSink) WithName(string) logr.LogSink { return s }

// TestNodeLeaseWithoutNamespace: the node waits without errors for the namespace of its lease.
func TestNodeLeaseWithoutNamespace(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{Logger: logr.New(failingSink{t: t})}, func(e controllerstest.Env) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}}
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: ns.Name, Name: pods.NodeName}
		e.WaitIdle()
		e.Must(e.Get(e.Context(), key, lease))
		e.Must(e.Delete(e.Context(), ns))
		for e.Get(e.Context(), client.ObjectKeyFromObject(ns), ns) == nil {
			time.Sleep(10 * time.Millisecond) // virtual
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pods.NodeName}}
		e.Must(e.Patch(e.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
		time.Sleep(2 * time.Minute) // the API server creates the namespace again after a minute
		e.WaitIdle()
		e.Must(e.Get(e.Context(), key, lease))
	})
}
