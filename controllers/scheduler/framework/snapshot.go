package framework

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the nodes, the pods on them, the nominated pods and the other objects that matter for scheduling.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl
//upstream:pkg/scheduler/backend/cache.Snapshot
type Snapshot struct {
	Objects *Objects

	nodes     map[string]*Node
	list      []*Node // the nodes that exist
	pods      map[types.UID]*Pod
	nominated map[types.UID]nomination
	images    map[string]*image
	needs     map[common]*sharedNeeds
	claims    map[string]int // the number of pods that use a claim, by its namespace and name

	counts map[string]*count
	reads  uint64
	groups [termKinds]map[string]*termGroup
	slots  []*Node // nil for one that is free

	next int // the index of the first node of the next attempt
}

// nomination is a pod that waits until its victims on a node are gone.
//
//upstream:pkg/scheduler/backend/queue.nominator
type nomination struct {
	pod  *Pod
	node string
}

// NewSnapshot returns an empty snapshot.
func NewSnapshot() *Snapshot {
	s := &Snapshot{Objects: newObjects(), nodes: map[string]*Node{}, pods: map[types.UID]*Pod{}, nominated: map[types.UID]nomination{},
		images: map[string]*image{}, needs: map[common]*sharedNeeds{}, claims: map[string]int{}, counts: map[string]*count{}}
	for i := range s.groups {
		s.groups[i] = map[string]*termGroup{}
	}
	return s
}

// Len returns the number of nodes.
func (s *Snapshot) Len() int { return len(s.list) }

// Node returns a node, or nil if it does not exist.
func (s *Snapshot) Node(name string) *corev1.Node {
	if n := s.nodes[name]; n != nil {
		return n.Node
	}
	return nil
}

// Pod returns a pod on a node, or nil, and the name of the node.
func (s *Snapshot) Pod(uid types.UID) (pod *Pod, node string) {
	if p := s.pods[uid]; p != nil {
		return p, p.node.name
	}
	return nil, ""
}

// SetNode adds a node, or updates it.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.UpdateNode
func (s *Snapshot) SetNode(object *corev1.Node) {
	n := s.node(object.Name)
	if n.Node == nil {
		s.list = append(s.list, n)
	}
	s.removeImages(n)
	n.set(object)
	n.images = map[string]*image{}
	for _, i := range object.Status.Images {
		for _, name := range i.Names {
			s.addImage(n, name, i.SizeBytes)
		}
	}
}

// addImage adds an image of a node. The first node that has an image says how large the image is.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.addNodeImageStates
func (s *Snapshot) addImage(n *Node, name string, size int64) {
	if n.images[name] != nil {
		return
	}
	i := s.images[name]
	if i == nil {
		i = &image{size: size}
		s.images[name] = i
	}
	i.nodes++
	n.images[name] = i
}

// removeImages removes the images of a node.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.removeNodeImageStates
func (s *Snapshot) removeImages(n *Node) {
	for name, i := range n.images {
		if i.nodes--; i.nodes == 0 {
			delete(s.images, name)
		}
	}
	n.images = nil
}

// RemoveNode removes a deleted node. Its pods are kept until they are removed too.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.RemoveNode
func (s *Snapshot) RemoveNode(name string) {
	n := s.nodes[name]
	if n == nil || n.Node == nil {
		return
	}
	s.removeImages(n)
	n.Node = nil
	s.list = slices.DeleteFunc(s.list, func(o *Node) bool { return o == n })
	s.removeIfUnused(n)
}

// SetPod adds a pod with a node, or updates it.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.AddPod
//upstream:pkg/scheduler/backend/cache.cacheImpl.UpdatePod
func (s *Snapshot) SetPod(pod *corev1.Pod) {
	p, _ := newPod(pod) // as in kube-scheduler, a term that does not parse matches nothing
	s.place(p, pod.Spec.NodeName)
}

// Assume adds a pod to a node before it is bound.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.AssumePod
func (s *Snapshot) Assume(pod *corev1.Pod, node string) {
	p, _ := newPod(pod)
	s.place(p, node)
}

// place adds a pod to a node, in place of a pod with its UID. A preempted pod stays so: the state may be from before its deletion.
func (s *Snapshot) place(p *Pod, node string) {
	if was := s.pods[p.UID]; was != nil && was.Preempted {
		p.Preempted = true
	}
	delete(s.nominated, p.UID)
	s.RemovePod(p.UID)
	s.share(p)
	p.node = s.node(node)
	s.pods[p.UID] = p
	p.node.add(p)
	s.changed(p, 1)
}

// RemovePod removes a pod from its node, and reports whether it had one.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.RemovePod
func (s *Snapshot) RemovePod(uid types.UID) bool {
	p, ok := s.pods[uid]
	if !ok {
		return false
	}
	delete(s.pods, uid)
	p.node.remove(p)
	s.changed(p, -1)
	s.unshare(p)
	s.removeIfUnused(p.node)
	return true
}

// changed updates the sums of all pods.
func (s *Snapshot) changed(p *Pod, by int32) {
	s.groupTerms(p, by)
	for _, c := range s.counts {
		c.add(p, p.node, by)
	}
	for i := range p.volumes {
		if c := p.volumes[i].PersistentVolumeClaim; c != nil {
			key := claimKey(p.Namespace, c.ClaimName)
			if s.claims[key] += int(by); s.claims[key] == 0 {
				delete(s.claims, key)
			}
		}
	}
}

// Nominate reserves a node for a pod, against pods of a lower priority. An empty name reserves none.
//
//upstream:pkg/scheduler/backend/queue.nominator.addNominatedPodUnlocked
//upstream:pkg/scheduler/backend/queue.nominator.deleteUnlocked
func (s *Snapshot) Nominate(pod *corev1.Pod, node string) {
	if node == "" || s.pods[pod.UID] != nil {
		delete(s.nominated, pod.UID)
		return
	}
	p, _ := newPod(pod)
	s.nominated[p.UID] = nomination{p, node}
}

// NominatedNode returns the node that is reserved for a pod, or "".
func (s *Snapshot) NominatedNode(uid types.UID) string { return s.nominated[uid].node }

// NominatedBelow returns the pods of less than a priority that a node is reserved for.
//
//upstream:pkg/scheduler/framework/preemption.getLowerPriorityNominatedPods
func (s *Snapshot) NominatedBelow(node string, priority int32) (list []*Pod) {
	for _, o := range s.nominated {
		if o.node == node && o.pod.Priority < priority {
			list = append(list, o.pod)
		}
	}
	slices.SortFunc(list, byName)
	return list
}

// node returns the node of that name, and adds it if necessary.
func (s *Snapshot) node(name string) *Node {
	n := s.nodes[name]
	if n != nil {
		return n
	}
	n = &Node{name: name, slot: slices.Index(s.slots, (*Node)(nil))}
	if n.slot < 0 {
		n.slot = len(s.slots)
		s.slots = append(s.slots, nil)
	}
	s.slots[n.slot] = n
	s.nodes[name] = n
	return n
}

// removeIfUnused removes a node that does not exist if no pod is bound to it.
func (s *Snapshot) removeIfUnused(n *Node) {
	if n.Node == nil && len(n.pods) == 0 && s.nodes[n.name] == n {
		delete(s.nodes, n.name)
		s.slots[n.slot] = nil
	}
}

func claimKey(namespace, name string) string { return namespace + "/" + name }
