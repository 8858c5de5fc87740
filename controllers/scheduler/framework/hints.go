package framework

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Event is a set of changes that may make a pod fit.
//
//upstream:k8s.io/kube-scheduler/framework.ClusterEvent
type Event uint

// The changes. A change of a pod concerns a pod with a node.
const (
	NodeAdded Event = 1 << iota
	NodeRemoved
	NodeLabels
	NodeTaints // or the node was cordoned or uncordoned
	NodeAllocatable
	PodAdded
	PodRemoved
	PodLabels
	PodScaledDown
	ClaimChanged
	VolumeChanged
	ClassChanged
	DriverChanged // or its nodes, or its capacity
	AttachmentRemoved
)

// helpful are the changes that may help a pod that a plugin rejected.
//
//upstream:k8s.io/kube-scheduler/framework.EnqueueExtensions
var helpful = map[string]Event{
	"NodeName":           NodeAdded,
	"NodeUnschedulable":  NodeAdded | NodeTaints,
	"TaintToleration":    NodeAdded | NodeTaints,
	"NodeAffinity":       NodeAdded | NodeLabels,
	"NodePorts":          NodeAdded | PodRemoved,
	"NodeResourcesFit":   NodeAdded | NodeAllocatable | PodRemoved | PodScaledDown,
	"VolumeRestrictions": NodeAdded | PodRemoved | ClaimChanged,
	"NodeVolumeLimits":   DriverChanged | PodRemoved | ClaimChanged | AttachmentRemoved,
	"VolumeBinding":      NodeAdded | NodeLabels | ClaimChanged | VolumeChanged | ClassChanged | DriverChanged,
	"VolumeZone":         NodeAdded | NodeLabels | ClaimChanged | VolumeChanged | ClassChanged,
	"PodTopologySpread":  NodeAdded | NodeRemoved | NodeLabels | NodeTaints | PodAdded | PodRemoved | PodLabels,
	"InterPodAffinity":   NodeAdded | NodeLabels | PodAdded | PodRemoved | PodLabels,
}

// Helps reports whether a change may help a pod that some plugins rejected. changed are the states of the pod that changed, or none.
// A pod that no plugin rejected may be helped by any change.
//
//upstream:pkg/scheduler/backend/queue.PriorityQueue.isEntityWorthRequeuing
func (e Event) Helps(pod *corev1.Pod, plugins []string, changed ...*corev1.Pod) bool {
	if len(plugins) == 0 {
		return true
	}
	return slices.ContainsFunc(plugins, func(plugin string) bool {
		if helpful[plugin]&e == 0 {
			return false
		}
		switch {
		case len(changed) == 0 || e&(PodAdded|PodRemoved|PodLabels) == 0:
			return true
		case plugin == "PodTopologySpread":
			return slices.ContainsFunc(changed, func(o *corev1.Pod) bool { return spreadWith(pod, o) })
		case plugin == "InterPodAffinity":
			return slices.ContainsFunc(changed, func(o *corev1.Pod) bool {
				return e != PodAdded && repels(pod, o) || e != PodRemoved && attracts(pod, o)
			})
		}
		return true
	})
}

// spreadWith reports whether a pod is spread with another one.
//
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread.isSchedulableAfterAssignedPodChange
func spreadWith(pod, other *corev1.Pod) bool {
	if pod.Namespace != other.Namespace {
		return false
	}
	list, err := newConstraints(&cycle{pod: pod}, pod.Spec.TopologySpreadConstraints, corev1.DoNotSchedule)
	return err != nil || slices.ContainsFunc(list, func(t constraint) bool { return t.selector.Matches(labels.Set(other.Labels)) })
}

// attracts reports whether a pod may need another one near it.
//
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.InterPodAffinity.isSchedulableAfterAssignedPodChange
func attracts(pod, other *corev1.Pod) bool {
	t, err := newTerms(pod)
	return err != nil || t != nil && slices.ContainsFunc(t.affinity, func(t term) bool { return mayMatch(t, other) })
}

// repels reports whether one of two pods may not want the other near it.
func repels(pod, other *corev1.Pod) bool {
	of := func(a, b *corev1.Pod) bool {
		t, err := newTerms(a)
		return err != nil || t != nil && slices.ContainsFunc(t.antiAffinity, func(t term) bool { return mayMatch(t, b) })
	}
	return of(pod, other) || of(other, pod)
}

// mayMatch reports whether a term matches a pod if its namespace is selected.
func mayMatch(t term, p *corev1.Pod) bool {
	_, selectable := t.namespaceSelector.Requirements()
	return (selectable || t.namespaces.Has(p.Namespace)) && t.selector.Matches(labels.Set(p.Labels))
}
