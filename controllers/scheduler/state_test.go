package scheduler

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func numbered(n int, cpu string, on string) *corev1.Pod {
	p := requesting("cpu", cpu)
	p.Name, p.UID, p.Spec.NodeName = "p"+strconv.Itoa(n), types.UID(strconv.Itoa(n)), on
	return p
}

func names(keys []types.NamespacedName) (list []string) {
	for _, k := range keys {
		list = append(list, k.Name)
	}
	slices.Sort(list)
	return list
}

// TestAssumedPods: a pod that was scheduled is not scheduled again before the binding is observed. Its own requests would
// leave no place for it.
func TestAssumedPods(t *testing.T) {
	s := newState("")
	s.updateNode(readyNode("n"))
	pod := numbered(1, "3", "")
	if s.isAssumed(pod.UID) {
		t.Error("a new pod is assumed")
	}
	if node, why := s.schedule(pod); node != "n" || !s.isAssumed(pod.UID) {
		t.Errorf("scheduled to %q, %s", node, why)
	}
	s.forgetPod(pod.UID)
	if s.isAssumed(pod.UID) {
		t.Error("a pod is assumed after a binding that failed")
	}
}

// TestCapacity schedules pods on one node with 4 CPUs, and checks which pods are retried when some
// are free.
func TestCapacity(t *testing.T) {
	s := newState("")
	s.updateNode(readyNode("n"))
	s.updatePod(numbered(0, "1", "n")) // bound by its user
	if node, why := s.schedule(numbered(1, "2", "")); node != "n" {
		t.Fatal(why)
	}
	for _, n := range []int{2, 3} {
		if node, _ := s.schedule(numbered(n, "2", "")); node != "" {
			t.Fatalf("pod %d was scheduled to %s, which is full", n, node)
		}
	}
	for _, step := range []struct {
		name    string
		retried []types.NamespacedName
		want    []string
	}{
		{"an event older than the scheduling", s.updatePod(numbered(1, "2", "")), nil},
		{"the binding is observed", s.updatePod(numbered(1, "2", "n")), nil},
		{"the binding was a conflict, but it is bound", s.forgetPod("1"), nil},
		{"a pod is resized", s.updatePod(numbered(0, "500m", "n")), []string{"p2", "p3"}},
		{"there are no unschedulable pods any more", s.removePod("1"), nil},
	} {
		if got := names(step.retried); !slices.Equal(got, step.want) {
			t.Errorf("%s: retried are %v, want %v", step.name, got, step.want)
		}
	}
	for _, n := range []int{2, 3} {
		node, _ := s.schedule(numbered(n, "2", ""))
		if fits := node == "n"; fits != (n == 2) {
			t.Errorf("pod %d: %q", n, node)
		}
	}
	if got := names(s.forgetPod("2")); !slices.Equal(got, []string{"p3"}) {
		t.Errorf("after a binding that failed, %v are retried", got)
	}
	if node, _ := s.schedule(numbered(3, "2", "")); node != "n" {
		t.Error("there are free CPUs again")
	}
	done := numbered(3, "2", "n")
	done.Status.Phase = corev1.PodSucceeded
	s.updatePod(done)
	if node, _ := s.schedule(numbered(4, "3500m", "")); node != "n" {
		t.Error("a terminated pod requests nothing")
	}
}

func TestNodesAreAddedAndRemoved(t *testing.T) {
	s := newState("")
	s.updatePod(numbered(0, "3", "n")) // its node is added later
	if s.ready() {
		t.Error("there is no node yet")
	}
	if _, why := s.schedule(numbered(1, "2", "")); why != "no nodes available to schedule pods" {
		t.Error(why)
	}
	if got := names(s.updateNode(readyNode("n", cordoned))); !slices.Equal(got, []string{"p1"}) {
		t.Errorf("a node is added: %v", got)
	}
	s.schedule(numbered(1, "1", ""))
	if got := s.updateNode(readyNode("n", cordoned, func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} })); len(got) != 0 {
		t.Errorf("a node changes in a way that is irrelevant for pods: %v", got)
	}
	if got := names(s.updateNode(readyNode("n"))); !slices.Equal(got, []string{"p1"}) {
		t.Errorf("a node is uncordoned: %v", got)
	}
	if node, _ := s.schedule(numbered(1, "2", "")); node != "" {
		t.Error("the pods of before the node was added do not count")
	}
	s.removeNode("n")
	if s.ready() {
		t.Error("the node was removed")
	}
	s.updateNode(readyNode("n"))
	if node, _ := s.schedule(numbered(1, "2", "")); node != "" {
		t.Error("the pods of a node that was added again do not count")
	}
	s.removePod("0")
	s.removeNode("n")
	if len(s.nodes) != 0 || len(s.pods) != 0 {
		t.Errorf("not removed: %v, %v", s.nodes, s.pods)
	}
}

// TestStateAgainstModel replays a random history and compares the used resources with a sum over the pods.
func TestStateAgainstModel(t *testing.T) {
	random, s := rand.New(rand.NewPCG(1, 2)), newState("")
	type bound struct {
		node string
		cpu  int64
	}
	model := map[types.UID]bound{}
	nodes := []string{"a", "b", "c"}
	for range 20_000 {
		n := random.IntN(50)
		uid, name := types.UID(strconv.Itoa(n)), nodes[random.IntN(len(nodes))]
		switch random.IntN(6) {
		case 0:
			s.updateNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		case 1:
			s.removeNode(name)
		case 2:
			s.removePod(uid)
			delete(model, uid)
		case 3:
			s.updatePod(numbered(n, "7", ""))
		default:
			cpu := int64(1 + random.IntN(3))
			s.updatePod(numbered(n, strconv.FormatInt(cpu, 10), name))
			model[uid] = bound{name, 1000 * cpu}
		}
	}
	for _, name := range nodes {
		var cpu, count int64
		for _, p := range model {
			if p.node == name {
				cpu += p.cpu
				count++
			}
		}
		n := s.nodes[name]
		if n == nil {
			n = &nodeInfo{}
		}
		if n.used["cpu"] != cpu || n.pods != count {
			t.Errorf("%s has %d pods with %d, want %d with %d", name, n.pods, n.used["cpu"], count, cpu)
		}
	}
}

// BenchmarkSchedule removes and schedules a pod on a node with 100,000.
func BenchmarkSchedule(b *testing.B) {
	s := newState("")
	s.updateNode(readyNode("n", func(n *corev1.Node) { n.Status.Allocatable = list("cpu", "1M", "pods", "1M") }))
	const count = 100_000
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = numbered(i, "100m", "")
		s.schedule(pods[i])
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		p := pods[i%count]
		s.removePod(p.UID)
		if node, why := s.schedule(p); node == "" {
			b.Fatal(why)
		}
	}
}
