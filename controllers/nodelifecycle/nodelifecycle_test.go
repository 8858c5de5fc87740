package nodelifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func TestMain(m *testing.M) { controllerstest.Main(m) }

// state returns the condition Ready of a node, and its taints.
func state(e controllerstest.Env, name string) string {
	e.Helper()
	node := &corev1.Node{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Name: name}, node))
	list := []string{"no condition"}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			list[0] = fmt.Sprint(c.Status, " ", c.Reason)
		}
	}
	var taints []string
	for _, t := range node.Spec.Taints {
		taints = append(taints, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
	}
	slices.Sort(taints)
	return strings.Join(append(list, taints...), ", ")
}

// kubelet starts or stops the kubelet of a node.
func kubelet(e controllerstest.Env, name, value string) {
	e.Helper()
	e.Must(e.Patch(e.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
		client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, pods.KubeletAnnotation, value))))
}

const (
	ready       = "True KubeletReady"
	unreachable = "Unknown NodeStatusUnknown, unreachable:NoExecute, unreachable:NoSchedule"
)

// TestLostNode: a node without heartbeats becomes unreachable, its pods are not ready, and are evicted when they do not
// tolerate that any longer. They stay until the kubelet returns.
func TestLostNode(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{Nodes: pods.Nodes(2)}}, func(e controllerstest.Env) {
		check := func(node, want string) {
			t.Helper()
			if got := state(e, node); got != want {
				t.Errorf("%s is %s; want %s", node, got, want)
			}
		}
		lost, seconds := "flyball-2", int64(20)
		e.CreateAll(controllerstest.PodOn(lost, "default", "usual"), controllerstest.PodOn("flyball", "default", "elsewhere"))
		soon := controllerstest.PodOn(lost, "default", "soon")
		soon.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}}
		forever := controllerstest.PodOn(lost, "default", "forever")
		forever.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		e.CreateAll(soon, forever)
		e.WaitIdle()
		check(lost, ready)

		kubelet(e, lost, pods.KubeletStopped)
		time.Sleep(39 * time.Second) // virtual; the last renewal was at most 10 s before
		check(lost, ready)
		time.Sleep(22 * time.Second)
		check(lost, unreachable)
		check("flyball", ready)
		e.WantEvent("usual", "Warning NodeNotReady", "Node is not ready")
		for _, name := range []string{"usual", "soon", "forever"} {
			wantReady(e, name, corev1.ConditionFalse)
		}
		wantReady(e, "elsewhere", corev1.ConditionTrue)
		e.CreateAll(controllerstest.PodOn(lost, "default", "late"))
		time.Sleep(25 * time.Second)
		wantTerminating(e, "soon")
		time.Sleep(5 * time.Minute)
		wantTerminating(e, "late", "soon", "usual")

		kubelet(e, lost, pods.KubeletRunning)
		e.WaitIdle()
		check(lost, ready)
		e.WantPodNames("elsewhere", "forever")
		wantReady(e, "forever", corev1.ConditionTrue)
		e.Must(e.Delete(e.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: lost}}))
		e.WaitIdle()
		e.WantEvents("Node", lost, "Normal RegisteredNode node-controller: Node flyball-2 event: Registered Node flyball-2 in Controller",
			"Normal NodeNotReady node-controller: Node flyball-2 status is now: NodeNotReady",
			"Normal RemovingNode node-controller: Node flyball-2 event: Removing Node flyball-2 from Controller")
	})
}

// wantReady checks the condition Ready of a pod.
func wantReady(e controllerstest.Env, name string, want corev1.ConditionStatus) {
	e.Helper()
	for _, c := range e.Pod(name).Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != want {
			e.Errorf("the pod %s is ready: %s; want %s", name, c.Status, want)
		}
	}
}

// wantTerminating checks which pods of the namespace default are terminating.
func wantTerminating(e controllerstest.Env, want ...string) {
	e.Helper()
	var got []string
	for _, p := range e.Terminating() {
		got = append(got, p.Name)
	}
	if !slices.Equal(got, want) {
		e.Errorf("terminating are %v, want %v", got, want)
	}
}

// TestNodeWithoutKubelet: the kubelet of a node never posts a status.
func TestNodeWithoutKubelet(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		e.WaitIdle()
		if got := state(e, "n"); got != "no condition" {
			t.Error(got)
		}
		time.Sleep(time.Minute)
		if got := state(e, "n"); got != "Unknown NodeStatusNeverUpdated, unreachable:NoExecute, unreachable:NoSchedule" {
			t.Error(got)
		}
	})
}

// TestTerminatingNode: a node that is being deleted stays ready, with its pods, until its last finalizer is removed.
func TestTerminatingNode(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{Nodes: pods.Nodes(2)}}, func(e controllerstest.Env) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "flyball-2"}}
		finalize := func(with string) {
			t.Helper()
			e.Must(e.Patch(e.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+with+`}}`))))
		}
		e.CreateAll(controllerstest.PodOn(node.Name, "default", "web"))
		e.WaitIdle()
		finalize(`["example.com/drain"]`)
		e.Must(e.Delete(e.Context(), node))
		time.Sleep(10 * time.Minute) // virtual
		if got := state(e, node.Name); got != ready {
			t.Errorf("the node is %s", got)
		}
		wantReady(e, "web", corev1.ConditionTrue)
		finalize("null")
		time.Sleep(2 * time.Minute)
		e.WantPodNames()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(node), node); !apierrors.IsNotFound(err) {
			t.Errorf("the node is there: %v", err)
		}
	})
}

// TestClockAhead: a lease that was renewed by a clock ahead of the others is renewed as before, and its node stays ready.
func TestClockAhead(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{Nodes: pods.Nodes(2)}}, func(e controllerstest.Env) {
		e.WaitIdle()
		node := &corev1.Node{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Name: "flyball-2"}, node))
		since := node.Status.Conditions
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: "flyball-2"}
		e.Must(e.Get(e.Context(), key, lease))
		lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(time.Hour)))
		e.Must(e.Update(e.Context(), lease))
		time.Sleep(12 * time.Minute) // virtual
		e.Must(e.Get(e.Context(), key, lease))
		if behind := time.Since(lease.Spec.RenewTime.Time); behind < 0 || behind > 10*time.Second {
			t.Errorf("the lease was renewed %v ago", behind)
		}
		if got := state(e, "flyball-2"); got != ready {
			t.Errorf("the node is %s", got)
		}
		e.Must(e.Get(e.Context(), client.ObjectKey{Name: "flyball-2"}, node))
		for i, c := range node.Status.Conditions {
			if !c.LastTransitionTime.Equal(&since[i].LastTransitionTime) {
				t.Errorf("the condition %s has changed at %v, and before at %v", c.Type, c.LastTransitionTime, since[i].LastTransitionTime)
			}
		}
	})
}

// TestLeaseIsDeleted: a lease that is deleted is there again before it is missed.
func TestLeaseIsDeleted(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.WaitIdle()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: pods.NodeName}}
		e.Must(e.Delete(e.Context(), lease))
		time.Sleep(11 * time.Second) // virtual
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(lease), lease))
		time.Sleep(2 * time.Minute)
		e.WantEvents("Node", pods.NodeName, "Normal RegisteredNode node-controller: Node flyball event: Registered Node flyball in Controller")
	})
}

// TestDisruption: if all nodes are lost, no pods are evicted. When the first node returns, the others get time to follow.
func TestDisruption(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{Nodes: pods.Nodes(3)}}, func(e controllerstest.Env) {
		nodes := []string{"flyball", "flyball-2", "flyball-3"}
		all := func(want ...string) {
			t.Helper()
			for i, name := range nodes {
				if got := state(e, name); got != want[i] {
					t.Errorf("%s is %s; want %s", name, got, want[i])
				}
			}
		}
		e.WaitIdle()
		for _, name := range nodes {
			kubelet(e, name, pods.KubeletStopped)
		}
		const quiet = "Unknown NodeStatusUnknown, unreachable:NoSchedule"
		time.Sleep(time.Hour)
		all(quiet, quiet, quiet)
		kubelet(e, nodes[0], pods.KubeletRunning)
		time.Sleep(12 * time.Second)
		if states := []string{state(e, nodes[1]), state(e, nodes[2])}; !slices.Contains(states, unreachable) || !slices.Contains(states, quiet) {
			t.Errorf("the nodes are not tainted one by one: %q", states)
		}
		time.Sleep(10 * time.Second)
		all(ready, unreachable, unreachable)
		kubelet(e, nodes[1], pods.KubeletRunning)
		e.WaitIdle()
		all(ready, ready, unreachable)
		kubelet(e, nodes[0], pods.KubeletStopped)
		kubelet(e, nodes[1], pods.KubeletStopped)
		time.Sleep(2 * time.Minute)
		all(quiet, quiet, quiet)
	})
}
