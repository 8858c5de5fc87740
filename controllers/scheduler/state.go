package scheduler

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/nodestate"
	"flyball.dev/controllers/internal/podstate"
)

// state is what the scheduler knows of the cluster: the nodes, what the pods on them use, and the pods
// that fit nowhere. It follows the events of nodes and pods, and counts a pod that it assigns at once.
type state struct {
	preferred string

	mu            sync.Mutex
	nodes         map[string]*node
	placed        map[types.UID]placement
	unschedulable map[types.NamespacedName]struct{}
}

// placement is what one pod uses of a node.
type placement struct {
	node    *node
	needs   []need
	assumed bool // assigned here, but not yet seen to be bound
}

func newState(preferred string) *state {
	return &state{
		preferred:     preferred,
		nodes:         map[string]*node{},
		placed:        map[types.UID]placement{},
		unschedulable: map[types.NamespacedName]struct{}{},
	}
}

// assign chooses a node for a pod and counts the pod there. If there is none, it says why, and keeps
// the pod's key for woken.
func (s *state) assign(pod *corev1.Pod) (node, why string) {
	needs := requests(&pod.Spec)
	key := keyOf(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	there := slices.DeleteFunc(slices.Collect(maps.Values(s.nodes)), gone)
	n, why := choose(pod, needs, there, s.preferred)
	if n == nil {
		s.unschedulable[key] = struct{}{}
		return "", why
	}
	delete(s.unschedulable, key)
	s.place(pod.UID, placement{n, needs, true})
	return n.name, ""
}

// ready reports whether any node is ready.
func (s *state) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if !gone(n) && nodestate.Ready(n.Node) {
			return true
		}
	}
	return false
}

func gone(n *node) bool { return n.Node == nil }

// observe counts a pod where it is now, and returns the pods to be tried again because of that.
func (s *state) observe(pod *corev1.Pod) []types.NamespacedName {
	if podstate.Finished(pod) {
		return s.remove(pod.UID)
	}
	if pod.Spec.NodeName == "" {
		return nil // one that was just assigned stays where it will be
	}
	needs := requests(&pod.Spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.placed[pod.UID]
	if ok && !was.assumed && was.node == s.nodes[pod.Spec.NodeName] && slices.Equal(was.needs, needs) {
		return nil
	}
	s.place(pod.UID, placement{s.node(pod.Spec.NodeName), needs, false})
	if ok && !slices.Equal(was.needs, needs) {
		return s.woken() // it was resized
	}
	return nil
}

// forget takes back the assignment of a pod that could not be bound, and returns the pods to be tried
// again because of that. A pod that was seen to be bound stays.
func (s *state) forget(pod types.UID) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.placed[pod].assumed {
		return nil
	}
	s.displace(pod)
	return s.woken()
}

// remove counts a pod no more, and returns the pods to be tried again because of that.
func (s *state) remove(pod types.UID) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.displace(pod) {
		return nil
	}
	return s.woken()
}

// drop stops keeping the key of a pod that is no more.
func (s *state) drop(pod types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unschedulable, pod)
}

// observeNode takes a node as it is now, and returns the pods to be tried again because of that.
func (s *state) observeNode(object *corev1.Node) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.node(object.Name)
	was := n.Node
	n.set(object)
	if was != nil && sameToPods(was, object) {
		return nil
	}
	return s.woken()
}

// removeNode: no pod is assigned to the node from now on.
func (s *state) removeNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[name]; n != nil {
		n.Node = nil
		s.tidy(n)
	}
}

// sameToPods reports whether two states of a node have room for the same pods.
func sameToPods(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable && nodestate.Ready(a) == nodestate.Ready(b) &&
		maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(nodestate.Taints(a), nodestate.Taints(b)) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

func (s *state) node(name string) *node {
	n := s.nodes[name]
	if n == nil {
		n = &node{name: strings.Clone(name), used: amounts{}}
		s.nodes[n.name] = n
	}
	return n
}

// tidy removes a node that neither exists nor is named by a pod.
func (s *state) tidy(n *node) {
	if gone(n) && n.pods == 0 {
		delete(s.nodes, n.name)
	}
}

func (s *state) place(pod types.UID, p placement) {
	if s.displace(pod) {
		s.nodes[p.node.name] = p.node // should it have been the last one there
	}
	s.placed[types.UID(strings.Clone(string(pod)))] = p
	p.node.pods++
	for _, need := range p.needs {
		p.node.used[need.name] += need.amount
	}
}

func (s *state) displace(pod types.UID) bool {
	p, ok := s.placed[pod]
	if !ok {
		return false
	}
	delete(s.placed, pod)
	p.node.pods--
	for _, need := range p.needs {
		p.node.used[need.name] -= need.amount
	}
	s.tidy(p.node)
	return true
}

// woken takes all pods that fitted nowhere.
func (s *state) woken() []types.NamespacedName {
	keys := slices.Collect(maps.Keys(s.unschedulable))
	clear(s.unschedulable)
	return keys
}

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
