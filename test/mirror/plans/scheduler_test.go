package plans

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/utils/ptr"

	scheduler "flyball.dev/controllers/scheduler/framework"
	"flyball.dev/test/mirror/random"
)

// TestScheduler compares the reasons why a node is not suitable for a pod. The filters of other pods and of volumes are not
// among them.
func TestScheduler(t *testing.T) {
	filters := newFilters(t)
	seen := random.Seen{}
	random.Compare(t, 30000, func(s *random.Source) {
		node := newNode(s)
		pod := newUnscheduled(s, "p")
		var others []*corev1.Pod
		for i := range s.IntN(4) {
			other := newUnscheduled(s, fmt.Sprint("other", i))
			other.Spec.NodeName = node.Name
			newResize(s, other)
			others = append(others, other)
		}
		ours, ourCode := scheduler.Unsuitable(pod, node, others)
		theirs, theirCode := filters.run(t.Context(), pod, node, others)
		slices.Sort(ours)
		slices.Sort(theirs)
		for _, reason := range theirs {
			seen[reason]++
		}
		seen[fmt.Sprint("unresolvable ", theirCode)]++
		if !slices.Equal(ours, theirs) || ourCode != theirCode {
			t.Errorf("ours are %q, %v, theirs %q, %v\n%s%s", ours, ourCode, theirs, theirCode, text(node), text(pod))
			for _, other := range others {
				t.Log(text(other))
			}
		}
	})
	seen.Require(t, nodeunschedulable.ErrReasonUnschedulable, "node(s) had untolerated taint(s)", nodeaffinity.ErrReasonPod, nodeports.ErrReason,
		"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage", "Insufficient example.com/gpu",
		"unresolvable true", "unresolvable false")
}

// filters are Kubernetes's filters in the order of the default profile, without the last one, for resources.
type filters []fwk.FilterPlugin

func newFilters(t *testing.T) (list filters) {
	add := func(p fwk.Plugin, err error) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p.(fwk.FilterPlugin))
	}
	add(nodename.New(t.Context(), nil, nil, feature.Features{}))
	add(nodeunschedulable.New(t.Context(), nil, nil, feature.Features{}))
	add(tainttoleration.New(t.Context(), nil, nil, feature.Features{}))
	add(nodeaffinity.New(t.Context(), &config.NodeAffinityArgs{}, nil, feature.Features{}))
	add(nodeports.New(t.Context(), nil, nil, feature.Features{}))
	return list
}

// run returns the reasons of the first filter that fails.
func (f filters) run(ctx context.Context, pod *corev1.Pod, node *corev1.Node, others []*corev1.Pod) (reasons []string, unresolvable bool) {
	info := framework.NewNodeInfo(others...)
	info.SetNode(node)
	for _, p := range f {
		state := framework.NewCycleState()
		if ports, ok := p.(*nodeports.NodePorts); ok {
			if _, status := ports.PreFilter(ctx, state, pod, nil); status.IsSkip() {
				continue
			}
		}
		if status := p.Filter(ctx, state, pod, info); !status.IsSuccess() {
			return status.Reasons(), status.Code() == fwk.UnschedulableAndUnresolvable
		}
	}
	for _, r := range noderesources.Fits(pod, info, nil, noderesources.ResourceRequestsOptions{EnablePodLevelResources: true, EnableDRAExtendedResource: true}) {
		reasons, unresolvable = append(reasons, r.Reason), unresolvable || r.Unresolvable
	}
	return reasons, unresolvable
}

// resources returns quantities of some resources.
func resources(s *random.Source, percent int, names ...corev1.ResourceName) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range names {
		if s.Chance(percent) {
			list[name] = resource.MustParse(random.Pick(s, "0", "1", "1", "2", "100m", "1500m", "3", "1Gi", "1500Mi", "3k"))
		}
	}
	return list
}

var scheduled = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "example.com/gpu", "hugepages-2Mi"}

// newNode returns a ready node. Its taints are not taints of conditions.
func newNode(s *random.Source) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: random.Pick(s, "a", "b"), Labels: map[string]string{"zone": random.Pick(s, "1", "2", "x"), "more": "3"}}}
	node.Spec.Unschedulable = s.Chance(5)
	for range s.IntN(3) {
		if s.Chance(30) {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: random.Pick(s, "k", "l"), Value: random.Pick(s, "", "5", "v"),
				Effect: random.Pick(s, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule)})
		}
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.Allocatable = resources(s, 70, scheduled...)
	for _, name := range scheduled[:3] {
		if s.Chance(70) {
			node.Status.Allocatable[name] = resource.MustParse(random.Pick(s, "4", "10", "10Gi"))
		}
	}
	if s.Chance(90) {
		node.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(int64(s.IntN(10)), resource.DecimalSI)
	}
	return node
}

// newUnscheduled returns a pod without a node.
func newUnscheduled(s *random.Source, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	container := func(name string) corev1.Container {
		c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: resources(s, 12, scheduled...)}}
		for range s.IntN(3) {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 80, HostPort: random.Pick[int32](s, 0, 0, 80, 81, 82),
				HostIP: random.Pick(s, "", "", "0.0.0.0", "127.0.0.1", "::1"), Protocol: random.Pick(s, "", corev1.ProtocolTCP, corev1.ProtocolUDP)})
		}
		return c
	}
	for i := range 1 + s.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprint("c", i)))
	}
	for i := range s.IntN(3) {
		c := container(fmt.Sprint("i", i))
		if s.Chance(50) {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if s.Chance(15) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: resources(s, 50, corev1.ResourceCPU, corev1.ResourceMemory, "hugepages-2Mi")}
	}
	if s.Chance(15) {
		pod.Spec.Overhead = resources(s, 50, corev1.ResourceCPU, corev1.ResourceMemory)
	}
	if s.Chance(20) {
		pod.Spec.NodeSelector = map[string]string{"zone": random.Pick(s, "1", "2")}
	}
	if s.Chance(30) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: newNodeSelector(s)}}
	}
	for range s.IntN(4) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: random.Pick(s, "k", "l", "", corev1.TaintNodeUnschedulable),
			Operator: random.Pick(s, "", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt),
			Value:    random.Pick(s, "", "5", "v"), Effect: random.Pick(s, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)})
	}
	return pod
}

func newNodeSelector(s *random.Source) *corev1.NodeSelector {
	selector := &corev1.NodeSelector{}
	for range 1 + s.IntN(2) {
		term := corev1.NodeSelectorTerm{}
		for range s.IntN(3) {
			r := corev1.NodeSelectorRequirement{Key: random.Pick(s, "zone", "more", "other"), Operator: random.Pick(s, corev1.NodeSelectorOpIn,
				corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt,
				corev1.NodeSelectorOpLt)}
			switch r.Operator {
			case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
				r.Values = random.Pick(s, []string{"1"}, []string{"2", "3"}, []string{"x", "1"})
			case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
				r.Values = []string{random.Pick(s, "0", "1", "2", "4")}
			}
			term.MatchExpressions = append(term.MatchExpressions, r)
		}
		if s.Chance(20) {
			term.MatchFields = []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField,
				Operator: random.Pick(s, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{random.Pick(s, "a", "b")}}}
		}
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
	}
	return selector
}

// newResize sets the status of a pod that kubelet resizes, or may have resized.
func newResize(s *random.Source, pod *corev1.Pod) {
	status := func(c corev1.Container) corev1.ContainerStatus {
		cs := corev1.ContainerStatus{Name: c.Name}
		if s.Chance(60) {
			cs.AllocatedResources = c.Resources.Requests
			if s.Chance(50) {
				cs.AllocatedResources = resources(s, 15, scheduled[:2]...)
			}
		}
		if s.Chance(60) {
			cs.Resources = &corev1.ResourceRequirements{Requests: random.Pick(s, nil, c.Resources.Requests, resources(s, 15, scheduled[:2]...))}
		}
		return cs
	}
	if s.Chance(40) {
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status(c))
		}
		for _, c := range pod.Spec.InitContainers {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status(c))
		}
	}
	if s.Chance(20) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
			Reason: random.Pick(s, corev1.PodReasonInfeasible, corev1.PodReasonDeferred)}}
	}
	if s.Chance(20) {
		pod.Status.Resources = &corev1.ResourceRequirements{Requests: random.Pick(s, nil, resources(s, 40, scheduled[:2]...))}
	}
	if s.Chance(20) {
		pod.Status.AllocatedResources = resources(s, 40, scheduled[:2]...)
	}
	pod.Status.Phase = random.Pick(s, corev1.PodPending, corev1.PodRunning, corev1.PodRunning)
}
