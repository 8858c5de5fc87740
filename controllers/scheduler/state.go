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

// state is the scheduler's cache of the cluster: the nodes, the resources that the pods on them request,
// and the unschedulable pods. The events of nodes and pods update it, and a pod that is assigned is
// assumed to be on its node at once.
type state struct {
	preferred string

	mu            sync.Mutex
	nodes         map[string]*node
	placed        map[types.UID]placement
	unschedulable map[types.NamespacedName]struct{}
}

// placement is what one pod requests on a node.
type placement struct {
	node    *node
	needs   []need
	assumed bool // assigned here, but the binding was not observed yet
}

func newState(preferred string) *state {
	return &state{
		preferred:     preferred,
		nodes:         map[string]*node{},
		placed:        map[types.UID]placement{},
		unschedulable: map[types.NamespacedName]struct{}{},
	}
}

// assign chooses a node for a pod and assumes the pod there. If none fits, it returns why, and the pod is
// unschedulable until woken returns it.
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

// observe records where a pod is, and returns the pods to be tried again because of that.
func (s *state) observe(pod *corev1.Pod) []types.NamespacedName {
	if podstate.Finished(pod) {
		return s.remove(pod.UID)
	}
	if pod.Spec.NodeName == "" {
		return nil // if it is assumed, it stays so
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

// forget removes an assumed pod that could not be bound from its node, and returns the pods to be tried
// again because of that. A pod whose binding was observed stays.
func (s *state) forget(pod types.UID) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.placed[pod].assumed {
		return nil
	}
	s.displace(pod)
	return s.woken()
}

// remove removes a pod from its node, and returns the pods to be tried again because of that.
func (s *state) remove(pod types.UID) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.displace(pod) {
		return nil
	}
	return s.woken()
}

// drop removes a deleted pod from the unschedulable ones.
func (s *state) drop(pod types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unschedulable, pod)
}

// observeNode records the state of a node, and returns the pods to be tried again because of that.
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

// removeNode records the deletion of a node. Its pods stay counted until they are deleted too.
func (s *state) removeNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[name]; n != nil {
		n.Node = nil
		s.tidy(n)
	}
}

// sameToPods reports whether the same pods fit on a node in two states.
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

// woken returns all unschedulable pods, to be tried again, and clears them.
func (s *state) woken() []types.NamespacedName {
	keys := slices.Collect(maps.Keys(s.unschedulable))
	clear(s.unschedulable)
	return keys
}

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
