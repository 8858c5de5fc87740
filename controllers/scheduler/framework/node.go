package framework

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"flyball.dev/controllers/internal/nodestate"
)

// Node is a node with its pods, the sum of their requests, and their host ports.
//
//upstream:pkg/scheduler/framework.NodeInfo
type Node struct {
	name          string
	*corev1.Node  // nil if it does not exist, although pods are bound to it
	labelled      *corev1.Node
	taints        []corev1.Taint
	allocatable   Resource
	requested     Resource
	nonZeroCPU    int64
	nonZeroMemory int64
	ports         sets.Set[hostPort]
	pods          []*Pod
	images        map[string]*image
	slot          int // the index of the node's number in a count
}

// set sets the state of the node. Its taints are the ones that it should have.
func (n *Node) set(object *corev1.Node) {
	n.Node, n.taints, n.allocatable = object, nodestate.Taints(object), newResource(object.Status.Allocatable)
	n.labelled = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: object.Labels}}
}

// add adds a pod to the sums of the node.
//
//upstream:pkg/scheduler/framework.NodeInfo.AddPodInfo
func (n *Node) add(p *Pod) {
	n.pods = append(n.pods, p)
	n.count(p, 1)
	n.use(p.ports)
}

// remove removes a pod from the sums of the node.
//
//upstream:pkg/scheduler/framework.NodeInfo.RemovePod
func (n *Node) remove(p *Pod) {
	i := slices.Index(n.pods, p)
	last := len(n.pods) - 1
	n.pods[i], n.pods[last] = n.pods[last], nil
	n.pods = n.pods[:last]
	n.count(p, -1)
	n.ports.Delete(p.ports...) // as in kube-scheduler, even if another pod uses them too
}

// count adds the requests of a pod to the sums, or subtracts them.
//
//upstream:pkg/scheduler/framework.NodeInfo.update
func (n *Node) count(p *Pod, by int64) {
	n.requested.add(&p.requests, by)
	n.nonZeroCPU += by * p.nonZeroCPU
	n.nonZeroMemory += by * p.nonZeroMemory
}

// use marks host ports as used.
//
//upstream:pkg/scheduler/framework.NodeInfo.updateUsedPorts
func (n *Node) use(ports []hostPort) {
	if len(ports) > 0 && n.ports == nil {
		n.ports = sets.Set[hostPort]{}
	}
	n.ports.Insert(ports...)
}

// UseHostPorts marks the host ports of a pod as used on its node. The removal of another pod with the same ports has freed them, as
// in kube-scheduler, where the next update of the pod takes them again.
func (p *Pod) UseHostPorts() { p.node.use(p.ports) }

// image is an image that some nodes have.
//
//upstream:k8s.io/kube-scheduler/framework.ImageStateSummary
type image struct {
	size  int64
	nodes int
}
