package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func readyNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "a", "cores": "8"}},
		Status: corev1.NodeStatus{
			Allocatable: list("cpu", "4", "memory", "1Gi", "pods", "3"),
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func podWith(change func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	change(&p.Spec)
	return p
}

func requesting(pairs ...string) *corev1.Pod {
	return podWith(func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = list(pairs...) })
}

func onPort(ip string, protocol corev1.Protocol, port int32) *corev1.Pod {
	return podWith(func(s *corev1.PodSpec) {
		s.Containers[0].Ports = []corev1.ContainerPort{{HostIP: ip, Protocol: protocol, HostPort: port, ContainerPort: 8080}}
	})
}

func affinity(terms ...corev1.NodeSelectorTerm) *corev1.Pod {
	return podWith(func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	})
}

func labelled(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func named(op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: op, Values: values}}}
}

func tainted(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "for", Value: "db", Effect: effect}} }
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func unready(n *corev1.Node) { n.Status.Conditions = nil }

func tolerating(t ...corev1.Toleration) *corev1.Pod {
	return podWith(func(s *corev1.PodSpec) { s.Tolerations = t })
}

func TestSelectNode(t *testing.T) {
	anyPod := podWith(func(*corev1.PodSpec) {})
	const (
		noVictims  = "No preemption victims found for incoming pod"
		notHelpful = "Preemption is not helpful for scheduling"
	)
	why := func(reasons, preemption string) string {
		return "0/1 nodes are available: " + reasons + ". no new claims to deallocate, preemption: 0/1 nodes are available: " + preemption + "."
	}
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		nodes []*corev1.Node
		pods  []*corev1.Pod // on the node n
		want  string        // the node
		why   string
	}{
		{name: "one node", pod: anyPod, nodes: []*corev1.Node{readyNode("n")}, want: "n"},
		{name: "no node", pod: anyPod, why: "no nodes available to schedule pods"},
		{name: "the preferred one", pod: anyPod, nodes: []*corev1.Node{readyNode("a"), readyNode("preferred"), readyNode("z")}, want: "preferred"},
		{name: "the one with fewer pods", pod: anyPod, nodes: []*corev1.Node{readyNode("n"), readyNode("o")}, pods: []*corev1.Pod{anyPod}, want: "o"},
		{name: "the only one that is ready", pod: anyPod, nodes: []*corev1.Node{readyNode("a", unready), readyNode("preferred", cordoned), readyNode("z")}, want: "z"},

		{name: "not ready", pod: anyPod, nodes: []*corev1.Node{readyNode("n", unready)}, why: why("1 node(s) had untolerated taint(s)", "1 "+notHelpful)},
		{name: "cordoned", pod: anyPod, nodes: []*corev1.Node{readyNode("n", cordoned)}, why: why("1 node(s) were unschedulable", "1 "+notHelpful)},
		{name: "cordoned, tolerated", pod: tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}),
			nodes: []*corev1.Node{readyNode("n", cordoned)}, want: "n"},
		{name: "tainted", pod: anyPod, nodes: []*corev1.Node{readyNode("n", tainted(corev1.TaintEffectNoSchedule))}, why: why("1 node(s) had untolerated taint(s)", "1 "+notHelpful)},
		{name: "tainted, NoExecute", pod: anyPod, nodes: []*corev1.Node{readyNode("n", tainted(corev1.TaintEffectNoExecute))}, why: why("1 node(s) had untolerated taint(s)", "1 "+notHelpful)},
		{name: "tainted, PreferNoSchedule", pod: anyPod, nodes: []*corev1.Node{readyNode("n", tainted(corev1.TaintEffectPreferNoSchedule))}, want: "n"},
		{name: "tainted, tolerated", pod: tolerating(corev1.Toleration{Key: "for", Value: "db"}),
			nodes: []*corev1.Node{readyNode("n", tainted(corev1.TaintEffectNoSchedule))}, want: "n"},
		{name: "tainted, with another toleration", pod: tolerating(corev1.Toleration{Key: "for", Value: "web"}),
			nodes: []*corev1.Node{readyNode("n", tainted(corev1.TaintEffectNoSchedule))}, why: why("1 node(s) had untolerated taint(s)", "1 "+notHelpful)},

		{name: "selected", pod: podWith(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"zone": "a"} }), nodes: []*corev1.Node{readyNode("n")}, want: "n"},
		{name: "not selected", pod: podWith(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"zone": "b"} }), nodes: []*corev1.Node{readyNode("n")},
			why: why("1 node(s) didn't match Pod's node affinity/selector", "1 "+notHelpful)},

		{name: "fits", pod: requesting("cpu", "4", "memory", "1Gi"), nodes: []*corev1.Node{readyNode("n")}, want: "n"},
		{name: "more than the node has", pod: requesting("cpu", "99999"), nodes: []*corev1.Node{readyNode("n")}, why: why("1 Insufficient cpu", "1 "+notHelpful)},
		{name: "more than is free", pod: requesting("cpu", "3", "memory", "1"), nodes: []*corev1.Node{readyNode("n")}, pods: []*corev1.Pod{requesting("cpu", "1001m")},
			why: why("1 Insufficient cpu", "1 "+noVictims)},
		{name: "more than is free, of two resources", pod: requesting("cpu", "3", "memory", "2Gi"), nodes: []*corev1.Node{readyNode("n")}, pods: []*corev1.Pod{requesting("cpu", "1001m")},
			why: why("1 Insufficient cpu, 1 Insufficient memory", "1 "+notHelpful)},
		{name: "a resource that the node does not have", pod: requesting("example.com/gpu", "1"), nodes: []*corev1.Node{readyNode("n")}, why: why("1 Insufficient example.com/gpu", "1 "+notHelpful)},
		{name: "zero of a resource that the node does not have", pod: requesting("example.com/gpu", "0"), nodes: []*corev1.Node{readyNode("n")}, want: "n"},
		{name: "too many pods", pod: anyPod, nodes: []*corev1.Node{readyNode("n")}, pods: []*corev1.Pod{anyPod, anyPod, anyPod}, why: why("1 Too many pods", "1 "+noVictims)},

		{name: "a host port that is used", pod: onPort("", "TCP", 80), nodes: []*corev1.Node{readyNode("n")}, pods: []*corev1.Pod{onPort("127.0.0.1", "", 80)},
			why: why("1 node(s) didn't have free ports for the requested pod ports", "1 "+noVictims)},
		{name: "a host port of another address, protocol and number", pod: onPort("127.0.0.1", "TCP", 80), nodes: []*corev1.Node{readyNode("n")},
			pods: []*corev1.Pod{onPort("127.0.0.2", "TCP", 80), onPort("", "UDP", 80)}, want: "n"},

		{name: "several", pod: requesting("cpu", "5"), nodes: []*corev1.Node{readyNode("n"), readyNode("o"), readyNode("p", cordoned)},
			why: "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 " + notHelpful + "."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var nodes []*nodeInfo
			for _, object := range tt.nodes {
				n := newNodeInfo(object.Name)
				n.set(object)
				if n.name == "n" {
					for _, p := range tt.pods {
						n.pods++
						for _, need := range podRequests(p) {
							n.used[need.name] += need.amount
						}
						for _, port := range hostPorts(&p.Spec) {
							n.ports[port]++
						}
					}
				}
				nodes = append(nodes, n)
			}
			got, why := selectNode(tt.pod, podRequests(tt.pod), nodes, "preferred")
			name := ""
			if got != nil {
				name = got.name
			}
			if name != tt.want || why != tt.why {
				t.Errorf("got %q, %q\nwant %q, %q", name, why, tt.want, tt.why)
			}
		})
	}
}

func TestAffinityMatches(t *testing.T) {
	node := readyNode("n")
	both := labelled("zone", corev1.NodeSelectorOpIn, "a")
	both.MatchFields = named(corev1.NodeSelectorOpIn, "other").MatchFields
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"in":                     {affinity(labelled("zone", corev1.NodeSelectorOpIn, "b", "a")), true},
		"not in it":              {affinity(labelled("zone", corev1.NodeSelectorOpIn, "b")), false},
		"in what there is not":   {affinity(labelled("rack", corev1.NodeSelectorOpIn, "")), false},
		"not in":                 {affinity(labelled("zone", corev1.NodeSelectorOpNotIn, "b")), true},
		"not in, but it is":      {affinity(labelled("zone", corev1.NodeSelectorOpNotIn, "a")), false},
		"not in what is not":     {affinity(labelled("rack", corev1.NodeSelectorOpNotIn, "1")), true},
		"exists":                 {affinity(labelled("zone", corev1.NodeSelectorOpExists)), true},
		"does not exist":         {affinity(labelled("zone", corev1.NodeSelectorOpDoesNotExist)), false},
		"greater":                {affinity(labelled("cores", corev1.NodeSelectorOpGt, "7")), true},
		"not greater":            {affinity(labelled("cores", corev1.NodeSelectorOpGt, "8")), false},
		"less":                   {affinity(labelled("cores", corev1.NodeSelectorOpLt, "9")), true},
		"not less":               {affinity(labelled("cores", corev1.NodeSelectorOpLt, "8")), false},
		"less than what is text": {affinity(labelled("zone", corev1.NodeSelectorOpLt, "8")), false},
		"either of two":          {affinity(labelled("zone", corev1.NodeSelectorOpIn, "b"), labelled("zone", corev1.NodeSelectorOpIn, "a")), true},
		"both in one":            {affinity(both), false},
		"by name":                {affinity(named(corev1.NodeSelectorOpIn, "n")), true},
		"nothing at all":         {affinity(corev1.NodeSelectorTerm{}), false},
	} {
		if got := affinityMatches(tt.pod, node); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(cpu string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list("cpu", cpu)}}
	}
	sidecar := func(cpu string) corev1.Container {
		c := container(cpu)
		c.RestartPolicy = &always
		return c
	}
	for name, tt := range map[string]struct {
		spec corev1.PodSpec
		want []request
	}{
		"none":       {corev1.PodSpec{Containers: []corev1.Container{{}}}, nil},
		"containers": {corev1.PodSpec{Containers: []corev1.Container{container("100m"), container("1")}}, []request{{"cpu", 1100}}},
		"a large init container": {corev1.PodSpec{
			Containers: []corev1.Container{container("1")}, InitContainers: []corev1.Container{container("3"), container("2")},
		}, []request{{"cpu", 3000}}},
		"a sidecar before an init container": {corev1.PodSpec{
			Containers: []corev1.Container{container("1")}, InitContainers: []corev1.Container{sidecar("2"), container("3")},
		}, []request{{"cpu", 5000}}},
		"a sidecar after an init container": {corev1.PodSpec{
			Containers: []corev1.Container{container("2")}, InitContainers: []corev1.Container{container("3"), sidecar("2")},
		}, []request{{"cpu", 4000}}},
		"the pod as a whole, with overhead": {corev1.PodSpec{
			Containers: []corev1.Container{container("2")}, Overhead: list("cpu", "1", "memory", "5"),
			Resources: &corev1.ResourceRequirements{Requests: list("cpu", "500m")},
		}, []request{{"cpu", 1500}, {"memory", 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, podRequests(&corev1.Pod{Spec: tt.spec}), cmp.AllowUnexported(request{})); d != "" {
				t.Error(d)
			}
		})
	}
}
