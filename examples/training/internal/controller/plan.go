package controller

import (
	corev1 "k8s.io/api/core/v1"

	trainingv1 "flyball.dev/examples/training/api/v1"
)

// plan is the next step for the Pods.
type plan struct {
	remove []deletion
	create []member
}

// deletion is a Pod to be deleted. It is deleted by force if its node cannot confirm its end.
type deletion struct {
	pod   *corev1.Pod
	force bool
}

// plan returns the actions for the Pods when the status has been written. It does not create
// a Pod before its predecessor is gone, or with RestartAll before all predecessors are, and none
// without the Service.
func (o *observation) plan(status *trainingv1.TrainingJobStatus) plan {
	p, waiting := plan{}, false
	for _, m := range membersOf(&o.job.Spec) {
		name := m.podName(o.job)
		recorded, pod := recordOf(status, name), o.pods[name]
		replaced := recorded != nil && recorded.Phase == trainingv1.PodReplaced
		switch {
		case ended(status):
			if pod != nil && !finished(pod) { // those that have finished stay, for their logs
				o.remove(&p, pod)
			}
		case replaced && pod != nil && pod.UID == recorded.UID:
			waiting = true
			o.remove(&p, pod)
		case pod == nil && (recorded == nil || replaced):
			p.create = append(p.create, m)
		}
	}
	if o.blocked != nil || waiting && o.job.Spec.RestartPolicy == trainingv1.RestartAll {
		p.create = nil
	}
	return p
}

// remove adds a Pod to those that are deleted, unless that would change nothing.
func (o *observation) remove(p *plan, pod *corev1.Pod) {
	force := o.lost[pod.UID] != ""
	confirmed := pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0
	if pod.DeletionTimestamp.IsZero() || force && !confirmed {
		p.remove = append(p.remove, deletion{pod, force})
	}
}
