package scheduler_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestUnsatisfiableSpread: a pod that no node can have without too great a skew says so, and holds no other pod up.
func TestUnsatisfiableSpread(t *testing.T) {
	controllerstest.InVirtualTime(t, threeNodes(), func(e controllerstest.Env) {
		e.WaitIdle()
		changeNode(e, "flyball-2", func(n *corev1.Node) { n.Spec.Unschedulable = true }) // the only node of zone 2
		spread := func(name, key string) *corev1.Pod {
			p := controllerstest.Pod(name, "a", func(s *corev1.PodSpec) {
				s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "spread"}}}}
			})
			p.Labels = map[string]string{"app": "spread"}
			return p
		}
		e.CreateAll(spread("first", corev1.LabelTopologyZone))
		e.WaitIdle()
		e.CreateAll(spread("second", corev1.LabelTopologyZone), spread("rackless", "example.com/rack"), controllerstest.Pod("other", "a"))
		e.WaitIdle()
		const (
			useless = "3 Preemption is not helpful for scheduling."
			skewed  = "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match pod topology spread constraints. preemption: 0/3 nodes are available: " +
				"1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod."
			missing = "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match pod topology spread constraints (missing required label). " +
				"preemption: 0/3 nodes are available: " + useless
		)
		for name, message := range map[string]string{"second": skewed, "rackless": missing} {
			e.WantScheduled(name, "Pending Unschedulable: "+message)
			e.WantEvents("Pod", name, "Warning FailedScheduling default-scheduler: "+message)
		}
		if p := e.Pod("other"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("the other pod is %s", p.Status.Phase)
		}
		changeNode(e, "flyball-2", func(n *corev1.Node) { n.Spec.Unschedulable = false })
		e.WantScheduled("second", `Running on "flyball-2"`)
	})
}

// TestNegativeCapacity: a node cannot have less than nothing, and the scheduler never hears of such an attempt.
func TestNegativeCapacity(t *testing.T) {
	controllerstest.InVirtualTime(t, threeNodes(), func(e controllerstest.Env) {
		e.WaitIdle()
		node := func() *corev1.Node {
			n := &corev1.Node{}
			e.Must(e.Get(e.Context(), client.ObjectKey{Name: pods.NodeName}, n))
			return n
		}
		was := node().ResourceVersion
		for _, tt := range []struct {
			change func(*corev1.NodeStatus)
			want   string
		}{
			{func(s *corev1.NodeStatus) { s.Capacity["cpu"] = resource.MustParse("-1") }, `status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0`},
			{func(s *corev1.NodeStatus) { s.Allocatable["cpu"] = resource.MustParse("-1") }, `status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0`},
			{func(s *corev1.NodeStatus) { s.Allocatable["pods"] = resource.MustParse("500m") }, `status.allocatable.pods: Invalid value: "500m": must be an integer`},
		} {
			n := node()
			before := client.MergeFrom(n.DeepCopy())
			tt.change(&n.Status)
			if err := e.Status().Patch(e.Context(), n, before); err == nil || err.Error() != `Node "flyball" is invalid: `+tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		}
		n := node()
		before := client.MergeFrom(n.DeepCopy())
		n.Status.Capacity["cpu"] = resource.MustParse("-1")
		e.Must(e.Patch(e.Context(), n, before)) // a patch of the node itself leaves the status alone
		if got := node().ResourceVersion; got != was {
			t.Errorf("the node was changed: %s, before %s", got, was)
		}
		e.CreateAll(controllerstest.Pod("web", "a", requesting("4"), func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelHostname: pods.NodeName} }))
		e.WaitIdle()
		e.WantScheduled("web", controllerstest.OnFlyball)
	})
}
