package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/nodestate"
	"flyball.dev/controllers/internal/podstate"
)

// state is the scheduler's cache of the cluster: the nodes, the requests and host ports of the pods on them, and the unschedulable
// pods. Events of nodes and pods update it. A scheduled pod is assumed to be on its node until its binding is observed.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl
type state struct {
	preferred string

	mu            sync.Mutex
	nodes         map[string]*nodeInfo
	pods          map[types.UID]podInfo
	unschedulable map[types.NamespacedName]struct{}
}

// podInfo is a pod on a node, with its requests and host ports.
type podInfo struct {
	node    *nodeInfo
	needs   []request
	ports   []hostPort
	assumed bool // scheduled, but the binding was not observed yet
}

// newState returns a state without nodes and pods.
func newState(preferred string) *state {
	return &state{
		preferred:     preferred,
		nodes:         map[string]*nodeInfo{},
		pods:          map[types.UID]podInfo{},
		unschedulable: map[types.NamespacedName]struct{}{},
	}
}

// schedule selects a node for a pod and assumes the pod there. If none is suitable, it returns
// kube-scheduler's message, and the pod is unschedulable until takeUnschedulable returns it.
//
//upstream:pkg/scheduler.Scheduler.schedulingCycle
func (s *state) schedule(pod *corev1.Pod) (node, message string) {
	needs := podRequests(pod)
	key := keyOf(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes := slices.DeleteFunc(slices.Collect(maps.Values(s.nodes)), missing)
	n, message := selectNode(pod, needs, nodes, s.preferred)
	if n == nil {
		s.unschedulable[key] = struct{}{}
		return "", message
	}
	delete(s.unschedulable, key)
	s.addToNode(pod.UID, podInfo{n, needs, hostPorts(&pod.Spec), true})
	return n.name, ""
}

// isAssumed reports whether a pod is bound to a node, as far as this scheduler knows.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.IsAssumedPod
func (s *state) isAssumed(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.pods[uid]
	return ok
}

// unresolvable returns kube-scheduler's message for a pod that no node is suitable for, for a reason
// that does not depend on the node.
func (s *state) unresolvable(reason string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for _, n := range s.nodes {
		if !missing(n) {
			count++
		}
	}
	return unavailable(count, reason, fmt.Sprintf("%d Preemption is not helpful for scheduling", count))
}

// ready reports whether any node is ready.
func (s *state) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if !missing(n) && nodestate.Ready(n.Node) {
			return true
		}
	}
	return false
}

// missing reports whether a node does not exist, although pods are bound to it.
func missing(n *nodeInfo) bool { return n.Node == nil }

// updatePod updates the node and the requests of a pod, and returns the pods to be retried because
// of that.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.AddPod
//upstream:pkg/scheduler/backend/cache.cacheImpl.UpdatePod
func (s *state) updatePod(pod *corev1.Pod) []types.NamespacedName {
	if podstate.Finished(pod) {
		return s.removePod(pod.UID)
	}
	if pod.Spec.NodeName == "" {
		return nil // if it is assumed, it stays so
	}
	needs := boundRequests(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.pods[pod.UID]
	if ok && !was.assumed && was.node == s.nodes[pod.Spec.NodeName] && slices.Equal(was.needs, needs) {
		return nil
	}
	s.addToNode(pod.UID, podInfo{s.node(pod.Spec.NodeName), needs, hostPorts(&pod.Spec), false})
	if ok && !slices.Equal(was.needs, needs) {
		return s.takeUnschedulable() // it was resized
	}
	return nil
}

// forgetPod removes an assumed pod that could not be bound from its node, and returns the pods to retry because of
// that. It does not remove a pod with an observed binding.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.ForgetPod
func (s *state) forgetPod(pod types.UID) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.pods[pod].assumed {
		return nil
	}
	s.removeFromNode(pod)
	return s.takeUnschedulable()
}

// removePod removes a pod from its node, and returns the pods to be retried because of that.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.RemovePod
func (s *state) removePod(pod types.UID) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.removeFromNode(pod) {
		return nil
	}
	return s.takeUnschedulable()
}

// removeUnschedulable removes a deleted pod from the unschedulable pods.
func (s *state) removeUnschedulable(pod types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unschedulable, pod)
}

// updateNode updates a node, and returns the pods to be retried because of that.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.UpdateNode
func (s *state) updateNode(object *corev1.Node) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.node(object.Name)
	was := n.Node
	n.set(object)
	if was != nil && schedulesTheSame(was, object) {
		return nil
	}
	return s.takeUnschedulable()
}

// removeNode removes a deleted node. Its pods are kept until they are deleted too.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.RemoveNode
func (s *state) removeNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[name]; n != nil {
		n.Node = nil
		s.removeIfUnused(n)
	}
}

// schedulesTheSame reports whether a node in two states is suitable for the same pods.
func schedulesTheSame(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable && nodestate.Ready(a) == nodestate.Ready(b) &&
		maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(nodestate.Taints(a), nodestate.Taints(b)) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// node returns the node of that name, and adds it if necessary.
func (s *state) node(name string) *nodeInfo {
	n := s.nodes[name]
	if n == nil {
		n = newNodeInfo(name)
		s.nodes[name] = n
	}
	return n
}

// removeIfUnused removes a node that does not exist if no pod is bound to it.
func (s *state) removeIfUnused(n *nodeInfo) {
	if missing(n) && n.pods == 0 {
		delete(s.nodes, n.name)
	}
}

// addToNode adds a pod to a node, or moves it there.
func (s *state) addToNode(pod types.UID, p podInfo) {
	if s.removeFromNode(pod) {
		s.nodes[p.node.name] = p.node // in case the pod was the last one of the node
	}
	s.pods[pod] = p
	p.node.pods++
	for _, need := range p.needs {
		p.node.used[need.name] += need.amount
	}
	for _, port := range p.ports {
		p.node.ports[port]++
	}
}

// removeFromNode removes a pod from its node, and reports whether it had one.
func (s *state) removeFromNode(pod types.UID) bool {
	p, ok := s.pods[pod]
	if !ok {
		return false
	}
	delete(s.pods, pod)
	p.node.pods--
	for _, need := range p.needs {
		p.node.used[need.name] -= need.amount
	}
	for _, port := range p.ports {
		if p.node.ports[port]--; p.node.ports[port] == 0 {
			delete(p.node.ports, port)
		}
	}
	s.removeIfUnused(p.node)
	return true
}

// takeUnschedulable returns the unschedulable pods, to be retried, and clears them.
func (s *state) takeUnschedulable() []types.NamespacedName {
	keys := slices.Collect(maps.Keys(s.unschedulable))
	clear(s.unschedulable)
	return keys
}

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
