package pods_test

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
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

// TestNodeIntervals: a kubelet renews its lease every 10 seconds. It posts its status every 5 minutes, the first time after 2½ to 7½ minutes, and
// at once when it has changed. A kubelet that is stopped does neither.
func TestNodeIntervals(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{Nodes: pods.Nodes(8)}}, func(e controllerstest.Env) {
		type times struct{ renewed, posted []time.Time }
		seen := map[string]*times{}
		for _, n := range pods.Nodes(8) {
			seen[n.Name] = &times{}
		}
		note := func(list *[]time.Time, at time.Time) {
			if len(*list) == 0 || !(*list)[len(*list)-1].Equal(at) {
				*list = append(*list, at)
			}
		}
		observe := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Second) {
				nodes, leases := &corev1.NodeList{}, &coordinationv1.LeaseList{}
				e.Must(e.List(e.Context(), nodes))
				e.Must(e.List(e.Context(), leases, client.InNamespace(corev1.NamespaceNodeLease)))
				for _, l := range leases.Items {
					note(&seen[l.Name].renewed, l.Spec.RenewTime.Time)
				}
				for _, n := range nodes.Items {
					for _, c := range n.Status.Conditions {
						if c.Type == corev1.NodeReady {
							note(&seen[n.Name].posted, c.LastHeartbeatTime.Time)
						}
					}
				}
			}
		}
		observe(21 * time.Minute)
		firsts := map[time.Duration]bool{}
		for name, s := range seen {
			for i := 1; i < len(s.renewed); i++ {
				if d := s.renewed[i].Sub(s.renewed[i-1]); d < 10*time.Second || d > 11*time.Second {
					t.Errorf("%s renews its lease after %v", name, d)
				}
			}
			if len(s.renewed) < 120 || len(s.posted) < 3 {
				t.Fatalf("%s: %d renewals, posted at %v", name, len(s.renewed), s.posted)
			}
			first := s.posted[1].Sub(s.posted[0])
			firsts[first.Round(10*time.Second)] = true
			if first < 150*time.Second || first > 461*time.Second {
				t.Errorf("%s posts its status again after %v", name, first)
			}
			for i := 2; i < len(s.posted); i++ {
				if d := s.posted[i].Sub(s.posted[i-1]); d < 5*time.Minute || d > 5*time.Minute+11*time.Second {
					t.Errorf("%s posts its status after %v", name, d)
				}
			}
		}
		if len(firsts) < 3 {
			t.Errorf("all nodes post their statuses at %v", firsts)
		}
		e.Must(e.Plane.Nodes().Stop(pods.NodeName))
		e.WaitIdle()
		stopped := seen[pods.NodeName]
		renewed, posted := len(stopped.renewed), len(stopped.posted)
		observe(30 * time.Second)
		if len(stopped.renewed) > renewed+1 || len(stopped.posted) > posted+1 {
			t.Errorf("a kubelet that is stopped renews its lease at %v, and posts its status at %v", stopped.renewed[renewed:], stopped.posted[posted:])
		}
	})
}
