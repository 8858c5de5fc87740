package daemonset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
)

// observed is the state of the cluster that a DaemonSet depends on.
type observed struct {
	set         *appsv1.DaemonSet
	hash        string // of its present template
	tolerations []corev1.Toleration
	nodes       []*corev1.Node // by name
	fits        map[string]fit // by the name of the node
	// pods are the pods of the DaemonSet by the node that they are bound to or require. Pods that have terminated and are
	// being deleted are not among them.
	pods map[string][]*corev1.Pod
	now  time.Time
	// backoff returns for how long a failed pod stays on a node. If it is zero, the pod is deleted, and the next one on the
	// node stays longer.
	backoff func(node string) time.Duration
}

// newObserved returns the state with these nodes and pods, which newObserved sorts.
//
//upstream:pkg/controller/daemon.DaemonSetsController.getNodesToDaemonPods
func newObserved(set *appsv1.DaemonSet, hash string, nodes []*corev1.Node, pods []*corev1.Pod, now time.Time) *observed {
	o := &observed{set: set, hash: hash, tolerations: tolerationsOf(set), nodes: nodes, fits: map[string]fit{},
		pods: map[string][]*corev1.Pod{}, now: now}
	slices.SortFunc(o.nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, node := range nodes {
		o.fits[node.Name] = fitOf(set, o.tolerations, node)
	}
	for _, pod := range pods {
		node := nodeOf(pod)
		if node == "" || podstate.Finished(pod) && pod.DeletionTimestamp != nil {
			continue
		}
		o.pods[node] = append(o.pods[node], pod)
	}
	for _, onNode := range o.pods {
		slices.SortFunc(onNode, compareAge)
	}
	return o
}

// plan is the pods to be created and deleted.
type plan struct {
	create []string // the nodes that need a pod
	delete []*corev1.Pod
	events []podEvent
	after  time.Duration // until failed pods are deleted, or zero
}

// empty reports whether nothing is created or deleted.
func (p *plan) empty() bool { return len(p.create)+len(p.delete) == 0 }

// podEvent is an event about a pod.
type podEvent struct{ kind, reason, message string }

// waitFor makes the plan be made anew after a time.
func (p *plan) waitFor(after time.Duration) {
	if p.after == 0 || after < p.after {
		p.after = after
	}
}

// managePlan returns the pods to be created and deleted so that each suitable node has a pod, and other nodes have none.
//
//upstream:pkg/controller/daemon.DaemonSetsController.manage
//upstream:pkg/controller/daemon.DaemonSetsController.podsShouldBeOnNode
//upstream:pkg/controller/daemon.getUnscheduledPodsWithoutNode
func (o *observed) managePlan() plan {
	var p plan
	for _, node := range o.nodes {
		pods := o.pods[node.Name]
		switch f := o.fits[node.Name]; {
		case f.run && len(pods) == 0:
			p.create = append(p.create, node.Name)
		case f.stay:
			o.manageNode(&p, node.Name, f.run)
		default:
			p.delete = append(p.delete, notDeleted(pods)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.pods)) {
		if _, exists := o.fits[name]; exists {
			continue
		}
		for _, pod := range o.pods[name] { // the pod garbage collector deletes the bound pods of nodes that are gone
			if pod.Spec.NodeName == "" {
				p.delete = append(p.delete, pod)
			}
		}
	}
	return p
}

// manageNode deletes the pods on a node that have terminated, and the surplus. With a surge, a node may have a pod of the
// present template besides an older one.
func (o *observed) manageNode(p *plan, node string, run bool) {
	active := o.deleteTerminated(p, node)
	switch {
	case !o.surges():
		if len(active) > 1 {
			p.delete = append(p.delete, active[1:]...)
		}
	case len(active) == 0:
		if run {
			p.create = append(p.create, node)
		}
	case len(active) > 1:
		o.deleteSurplus(p, active)
	}
}

// deleteTerminated deletes the pods on a node that have terminated, and returns the others that are not being deleted.
func (o *observed) deleteTerminated(p *plan, node string) (active []*corev1.Pod) {
	for _, pod := range notDeleted(o.pods[node]) {
		switch pod.Status.Phase {
		case corev1.PodFailed:
			if after := o.backoff(node); after > 0 {
				p.waitFor(after)
				continue
			}
			p.events = append(p.events, podEvent{corev1.EventTypeWarning, "FailedDaemonPod",
				fmt.Sprintf("Found failed daemon pod %s/%s on node %s, will try to kill it", pod.Namespace, pod.Name, node)})
			p.delete = append(p.delete, pod)
		case corev1.PodSucceeded:
			p.events = append(p.events, podEvent{corev1.EventTypeNormal, "SucceededDaemonPod",
				fmt.Sprintf("Found succeeded daemon pod %s/%s on node %s, will try to delete it", pod.Namespace, pod.Name, node)})
			p.delete = append(p.delete, pod)
		default:
			active = append(active, pod)
		}
	}
	return active
}

// deleteSurplus deletes all pods but the oldest of the present template and the oldest of the others. Of these two, the
// latter is deleted too if it is not ready, or if the former is available.
func (o *observed) deleteSurplus(p *plan, active []*corev1.Pod) {
	var isNew, isOld *corev1.Pod
	for _, pod := range active {
		oldest := &isOld
		if pod.Labels[hashLabel] == o.hash {
			oldest = &isNew
		}
		if *oldest == nil {
			*oldest = pod
		} else {
			p.delete = append(p.delete, pod)
		}
	}
	if isNew != nil && isOld != nil && (!podstate.Ready(isOld) || o.available(isNew)) {
		p.delete = append(p.delete, isOld)
	}
}

// notDeleted returns the pods that are not being deleted.
func notDeleted(pods []*corev1.Pod) []*corev1.Pod {
	var list []*corev1.Pod
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			list = append(list, pod)
		}
	}
	return list
}
