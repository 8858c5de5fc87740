package scenarios

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// monitorPeriod is how often Kubernetes's controller looks at the nodes: 5 seconds, and a bit more, so that it does not
// taint nodes at the same time, as it does each 100 ms.
const monitorPeriod = 5000100 * time.Microsecond

// offset is a time after which no step, and no heartbeat, is at the time of a look.
const offset = 50 * time.Millisecond

// TestNodeLifecycle compares the conditions, labels and taints of nodes with kubelets that start and stop, and the readiness
// of their pods.
func TestNodeLifecycle(t *testing.T) {
	comparison{
		name:      "node-lifecycle-controller",
		scenarios: 100,
		run:       nodeRun,
		during:    kubelets,
		kinds:     []client.ObjectList{&corev1.NodeList{}, &corev1.PodList{}},
		periodic:  true,
		onlyEnd:   true,
		generate:  generateNodes,
		require: []string{"Node *.spec.taints*unreachable", "Node *.spec.taints*.effect NoExecute", "Node *.status.conditions*NodeStatusNeverUpdated",
			"Node *.status.conditions*Kubelet stopped posting node status", "Node *beta.kubernetes.io/os", "Event *NodeNotReady Node is not ready",
			"Event *RemovingNode", "Node *.spec.taints*memory-pressure"},
	}.compare(t)
}

// nodeRun returns Kubernetes's controller, with the options of kube-controller-manager.
func nodeRun(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
	n, err := upstream.NewNodeLifecycleController(ctx, f.Coordination().V1().Leases(), f.Core().V1().Pods(), f.Core().V1().Nodes(), f.Apps().V1().DaemonSets(),
		c, monitorPeriod, time.Minute, 50*time.Second, 0.1, 0.01, 50, 0.55)
	if err != nil {
		return nil, err
	}
	return n.Run, nil
}

// kubelet is the annotation of a node with a running kubelet. Its value says what the kubelet renews: the lease, the lease by a clock that
// is ahead, or the status.
const kubelet = "example.com/kubelet"

// kubelets renews the leases and the status of the nodes with running kubelets, each 10 seconds.
func kubelets(ctx context.Context, c client.Client) error {
	time.Sleep(offset)
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for {
		list := &corev1.NodeList{}
		if err := c.List(ctx, list); err != nil {
			return err
		}
		for i := range list.Items {
			if err := beat(ctx, c, &list.Items[i]); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
				return err // after a conflict, the kubelet tries again ten seconds later
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// beat is a heartbeat of the kubelet of a node, if it runs. A kubelet that finds an unknown condition posts a new one.
func beat(ctx context.Context, c client.Client, node *corev1.Node) error {
	now := time.Now()
	switch node.Annotations[kubelet] {
	case "lease", "ahead":
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node.Name}}
		if err := c.Get(ctx, client.ObjectKeyFromObject(lease), lease); client.IgnoreNotFound(err) != nil {
			return err
		}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: &metav1.MicroTime{Time: now}}
		if node.Annotations[kubelet] == "ahead" {
			lease.Spec.RenewTime.Time = now.Add(time.Hour)
		}
		if lease.UID == "" {
			if err := c.Create(ctx, lease); err != nil {
				return err
			}
		} else if err := c.Update(ctx, lease); err != nil {
			return err
		}
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Status == corev1.ConditionUnknown }) {
			return nil
		}
	case "":
		return nil
	}
	for i := range node.Status.Conditions {
		condition := &node.Status.Conditions[i]
		condition.LastHeartbeatTime = metav1.NewTime(now)
		if condition.Status == corev1.ConditionUnknown {
			condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, "KubeletPosts", ""
			if condition.Type == corev1.NodeReady {
				condition.Status = corev1.ConditionTrue
			}
			condition.LastTransitionTime = metav1.NewTime(now)
		}
	}
	return c.Status().Update(ctx, node)
}

func generateNodes(s *random.Source) []step {
	var nodes []*corev1.Node
	steps := []step{{text: "begin", do: func(context.Context, client.Client) error { return nil }, wait: offset}}
	for i := range 1 + s.IntN(5) {
		n := newNode(string(rune('a'+i)), s.Chance(80))
		newNodeLabels(s, n)
		if s.Chance(10) {
			n.Status.Conditions = nil
		}
		if s.Chance(10) {
			n.Finalizers = []string{"example.com/f"}
		}
		if s.Chance(85) {
			n.Annotations = map[string]string{kubelet: random.Pick(s, "lease", "lease", "lease", "status", "status", "ahead")}
		}
		nodes = append(nodes, n)
		steps = append(steps, createNode(n))
	}
	var pods []*corev1.Pod
	for i := range s.IntN(6) {
		p := newPod(s, fmt.Sprint("p", i), random.Pick(s, nodes...).Name)
		p.Finalizers = nil
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		pods = append(pods, p)
		steps = append(steps, create(p))
	}
	for range 2 + s.IntN(8) {
		n := random.Pick(s, nodes...)
		choices := []step{
			setKubelet(n, ""), setKubelet(n, ""), setKubelet(n, "lease"), setKubelet(n, "lease"), setKubelet(n, "status"), setKubelet(n, "ahead"),
			post(n, corev1.NodeReady, corev1.ConditionTrue), post(n, corev1.NodeReady, corev1.ConditionFalse),
			post(n, random.Pick(s, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable),
				random.Pick(s, corev1.ConditionTrue, corev1.ConditionFalse)),
			changeStatus("no conditions", n, func(n *corev1.Node) { n.Status.Conditions = nil }),
			change("cordon", n, func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable }),
			changeTaints(s, n), relabel(s, n), after(remove(n), 41*time.Second), after(createNode(n), 41*time.Second),
		}
		if len(pods) > 0 {
			choices = append(choices, create(random.Pick(s, pods...)), kill(random.Pick(s, pods...)))
		}
		steps = append(steps, random.Pick(s, choices...))
	}
	for i := range steps {
		if steps[i].wait == 0 {
			steps[i].wait = random.Pick(s, 100*time.Millisecond, 3300*time.Millisecond, 41*time.Second, 150*time.Second)
		}
	}
	return steps
}

// createNode returns the step in which a kubelet registers its node. Kubernetes takes a node that is created again with the same
// heartbeat for the node before.
func createNode(n *corev1.Node) step {
	s := create(n)
	s.do = func(ctx context.Context, c client.Client) error {
		created := n.DeepCopy()
		for i := range created.Status.Conditions {
			created.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
		}
		return c.Create(ctx, created)
	}
	return s
}

// newNodeLabels gives a node labels of its zone and of its system.
func newNodeLabels(s *random.Source, n *corev1.Node) {
	if s.Chance(50) {
		n.Labels[corev1.LabelTopologyZone] = random.Pick(s, "x", "y")
	}
	if s.Chance(40) {
		n.Labels[corev1.LabelOSStable] = "linux"
	}
	if s.Chance(20) {
		n.Labels["beta.kubernetes.io/os"] = random.Pick(s, "linux", "windows")
	}
	if s.Chance(15) {
		n.Labels["node.kubernetes.io/exclude-disruption"] = ""
	}
}

// setKubelet returns the step that starts or stops the kubelet of a node.
func setKubelet(n *corev1.Node, state string) step {
	return change("kubelet: "+state, n, func(n *corev1.Node) {
		n.Annotations = map[string]string{kubelet: state}
	})
}

// post returns the step in which a kubelet posts a condition. Unknown is for the controller alone.
func post(n *corev1.Node, kind corev1.NodeConditionType, status corev1.ConditionStatus) step {
	return changeStatus(fmt.Sprint(kind, " ", status), n, func(n *corev1.Node) {
		now := metav1.Now()
		for i := range n.Status.Conditions {
			if c := &n.Status.Conditions[i]; c.Type == kind {
				c.Status, c.Reason, c.LastHeartbeatTime, c.LastTransitionTime = status, "Posted", now, now
				return
			}
		}
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Reason: "Posted", LastHeartbeatTime: now, LastTransitionTime: now})
	})
}

// changeTaints returns the step in which a user changes the taints of a node.
func changeTaints(s *random.Source, n *corev1.Node) step {
	taints := []corev1.Taint{}
	for _, key := range random.Some(s, 2, "mine", corev1.TaintNodeMemoryPressure, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable) {
		if t := (corev1.Taint{Key: key, Effect: random.Pick(s, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)}); !has(taints, t) {
			taints = append(taints, t)
		}
	}
	return change(fmt.Sprint("taints ", jsonOf(taints)), n, func(n *corev1.Node) { n.Spec.Taints = taints })
}

// relabel returns the step in which a user changes the labels of a node.
func relabel(s *random.Source, n *corev1.Node) step {
	with := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelHostname: n.Name}}}
	newNodeLabels(s, with)
	return change(fmt.Sprint("labels ", jsonOf(with.Labels)), n, func(n *corev1.Node) { n.Labels = maps.Clone(with.Labels) })
}
