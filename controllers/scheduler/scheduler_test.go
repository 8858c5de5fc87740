package scheduler_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func requesting(cpu string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

func changeNode(e controllerstest.Env, name string, change func(*corev1.Node)) {
	e.Helper()
	node := &corev1.Node{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Name: name}, node))
	before := client.MergeFrom(node.DeepCopy())
	change(node)
	e.Must(e.Patch(e.Context(), node, before))
	e.WaitIdle()
}

func why(reason string) string {
	return "Pending Unschedulable: 0/1 nodes are available: 1 " + reason + ". preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
}

func TestUnschedulablePodsAreRetried(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.WaitIdle()
		changeNode(e, pods.NodeName, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		e.CreateAll(controllerstest.Pod("cordoned", "a"))
		e.WaitIdle()
		e.WantScheduled("cordoned", why("node(s) were unschedulable"))
		changeNode(e, pods.NodeName, func(n *corev1.Node) { n.Spec.Unschedulable = false })
		e.WantScheduled("cordoned", controllerstest.OnFlyball)

		changeNode(e, pods.NodeName, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
		})
		e.CreateAll(controllerstest.Pod("tainted", "a"))
		e.CreateAll(controllerstest.Pod("tolerating", "a", func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		}))
		e.WaitIdle()
		e.WantScheduled("tainted", why("node(s) had untolerated taint(s)"))
		e.WantScheduled("tolerating", controllerstest.OnFlyball)
		changeNode(e, pods.NodeName, func(n *corev1.Node) { n.Spec.Taints = nil })
		e.WantScheduled("tainted", controllerstest.OnFlyball)

		e.CreateAll(controllerstest.Pod("selective", "a", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "ssd"} }))
		e.WaitIdle()
		e.WantScheduled("selective", why("node(s) didn't match Pod's node affinity/selector"))
		changeNode(e, pods.NodeName, func(n *corev1.Node) { n.Labels["disk"] = "ssd" })
		e.WantScheduled("selective", controllerstest.OnFlyball)

		e.CreateAll(controllerstest.Pod("huge", "a", requesting("99999")))
		e.CreateAll(controllerstest.Pod("large", "a", requesting("9k")))
		e.WaitIdle()
		e.WantScheduled("huge", why("Insufficient cpu"))
		e.WantScheduled("large", controllerstest.OnFlyball)
		e.CreateAll(controllerstest.Pod("second", "a", requesting("9k")))
		e.WaitIdle()
		e.WantScheduled("second", strings.Replace(why("Insufficient cpu"), "Preemption is not helpful for scheduling", "No preemption victims found for incoming pod", 1))
		e.Must(e.Delete(e.Context(), e.Pod("large")))
		e.WaitIdle()
		e.WantScheduled("second", controllerstest.OnFlyball)
	})
}

func TestPodsThatAreNotScheduled(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Pod("gated", "a", func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} }))
		e.CreateAll(controllerstest.Pod("foreign", "a", func(s *corev1.PodSpec) { s.SchedulerName = "mine" }))
		e.CreateAll(controllerstest.Pod("nowhere", "a", func(s *corev1.PodSpec) { s.NodeName = "absent" }))
		e.CreateAll(controllerstest.Pod("direct", "a", func(s *corev1.PodSpec) { s.NodeName = pods.NodeName }))
		e.WaitIdle()
		e.WantScheduled("gated", "Pending SchedulingGated: Scheduling is blocked due to non-empty scheduling gates")
		e.WantScheduled("foreign", `Pending on ""`)
		e.WantScheduled("nowhere", `Pending on "absent"`)
		e.WantScheduled("direct", controllerstest.OnFlyball)

		gated := e.Pod("gated")
		before := client.MergeFrom(gated.DeepCopy())
		gated.Spec.SchedulingGates = nil
		e.Must(e.Patch(e.Context(), gated, before))
		e.WaitIdle()
		e.WantScheduled("gated", controllerstest.OnFlyball)
	})
}

// TestHostPorts schedules a pod when another one no longer uses its port of the host.
func TestHostPorts(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		onPort := func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}
		e.CreateAll(controllerstest.Pod("first", "a", onPort))
		e.WaitIdle()
		e.CreateAll(controllerstest.Pod("second", "a", onPort))
		e.WaitIdle()
		e.WantScheduled("first", controllerstest.OnFlyball)
		e.WantScheduled("second", strings.Replace(why("node(s) didn't have free ports for the requested pod ports"),
			"Preemption is not helpful for scheduling", "No preemption victims found for incoming pod", 1))
		e.Must(e.Delete(e.Context(), e.Pod("first")))
		e.WaitIdle()
		e.WantScheduled("second", controllerstest.OnFlyball)
	})
}

// TestOtherNodes: a node that a user adds gets pods when it is ready, and only those that do not
// fit on the one that is there.
func TestOtherNodes(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.WaitIdle()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "added", Labels: map[string]string{"disk": "ssd"}}}
		e.CreateAll(node)
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(node), node))
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		e.Must(e.Status().Update(e.Context(), node))
		e.WaitIdle()
		e.CreateAll(controllerstest.Pod("selective", "a", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "ssd"} }))
		e.CreateAll(controllerstest.Pod("web", "a"))
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(node), node))
		if len(node.Spec.Taints) != 2 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady {
			t.Errorf("the node that is not ready has the taints %v", node.Spec.Taints)
		}
		e.WantScheduled("selective", "Pending Unschedulable: 0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s)."+
			" preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")

		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
		e.Must(e.Status().Update(e.Context(), node))
		e.WaitIdle()
		e.WantScheduled("selective", `Pending on "added"`) // the kubelet of the node would run it
		e.WantScheduled("web", controllerstest.OnFlyball)
		e.Must(e.Get(e.Context(), client.ObjectKey{Name: "added"}, node))
		if len(node.Spec.Taints) != 0 {
			t.Errorf("the node that is ready has the taints %v", node.Spec.Taints)
		}
	})
}

// TestWithoutNodes: pods are reported as unschedulable only after a timeout.
func TestWithoutNodes(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Without: []string{"pods"}}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Pod("web", "a"))
		e.WaitIdle()
		e.WantScheduled("web", "Pending Unschedulable: no nodes available to schedule pods")
	})
}
