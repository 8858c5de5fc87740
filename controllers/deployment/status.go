package deployment

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// statusOf returns the status of a Deployment without its conditions.
//
//upstream:pkg/controller/deployment.calculateStatus
func statusOf(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) appsv1.DeploymentStatus {
	newRS, _ := findNewAndOld(d, sets)
	s := appsv1.DeploymentStatus{ObservedGeneration: d.Generation, CollisionCount: d.Status.CollisionCount}
	for _, rs := range sets {
		s.Replicas += rs.Status.Replicas
		s.ReadyReplicas += rs.Status.ReadyReplicas
		s.AvailableReplicas += rs.Status.AvailableReplicas
	}
	s.TerminatingReplicas = terminatingReplicas(sets)
	s.UnavailableReplicas = max(0, sum(sets, replicas)-s.AvailableReplicas)
	if newRS != nil {
		s.UpdatedReplicas = newRS.Status.Replicas
	}
	return s
}

// terminatingReplicas returns the sum of the terminating replicas, or nil if a ReplicaSet that has been
// reconciled does not report them.
//
//upstream:pkg/controller/deployment/util.GetTerminatingReplicaCountForReplicaSets
func terminatingReplicas(sets []*appsv1.ReplicaSet) *int32 {
	total := int32(0)
	for _, rs := range sets {
		if rs.Status.TerminatingReplicas == nil && rs.Status.ObservedGeneration != 0 {
			return nil
		}
		total += ptr.Deref(rs.Status.TerminatingReplicas, 0)
	}
	return &total
}

// complete reports whether all replicas have the current template and are available.
//
//upstream:pkg/controller/deployment/util.DeploymentComplete
func complete(d *appsv1.Deployment, s appsv1.DeploymentStatus) bool {
	want := desired(d)
	return s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want &&
		s.ObservedGeneration >= d.Generation
}

// progressed reports whether a rollout has made progress between two statuses.
//
//upstream:pkg/controller/deployment/util.DeploymentProgressing
func progressed(was, is appsv1.DeploymentStatus) bool {
	return is.UpdatedReplicas > was.UpdatedReplicas ||
		is.Replicas-is.UpdatedReplicas < was.Replicas-was.UpdatedReplicas ||
		is.ReadyReplicas > was.ReadyReplicas ||
		is.AvailableReplicas > was.AvailableReplicas
}

// pausedOrResumed returns the conditions of a Deployment that was paused or resumed, or nil for any other.
//
//upstream:pkg/controller/deployment.DeploymentController.checkPausedConditions
func pausedOrResumed(d *appsv1.Deployment, now time.Time) []appsv1.DeploymentCondition {
	c := &conditions{list: slices.Clone(d.Status.Conditions), now: metav1.NewTime(now)}
	if d.DeletionTimestamp != nil || !hasDeadline(d) || !c.pause(d) {
		return nil
	}
	return c.list
}

// announced returns the conditions of a Deployment with the news of a step: the new ReplicaSet was created or found.
//
//upstream:pkg/controller/deployment.DeploymentController.getNewReplicaSet
func announced(d *appsv1.Deployment, newRS *appsv1.ReplicaSet, last step, now time.Time) []appsv1.DeploymentCondition {
	c := &conditions{list: slices.Clone(d.Status.Conditions), now: metav1.NewTime(now)}
	switch {
	case !hasDeadline(d):
	case last.create != nil:
		c.set(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetCreated",
			fmt.Sprintf("Created new replica set %q", newRS.Name))
	case newRS != nil && !last.annotated && c.get(appsv1.DeploymentProgressing) == nil:
		c.set(appsv1.DeploymentProgressing, corev1.ConditionTrue, "FoundNewReplicaSet",
			fmt.Sprintf("Found new replica set %q", newRS.Name))
	}
	return c.list
}

// conditionsOf returns the conditions of a Deployment with its availability and, in a rollout, its progress.
//
//upstream:pkg/controller/deployment.calculateStatus
//upstream:pkg/controller/deployment.DeploymentController.syncRolloutStatus
func conditionsOf(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, s appsv1.DeploymentStatus, rollout bool,
	now time.Time) []appsv1.DeploymentCondition {
	c := &conditions{list: slices.Clone(d.Status.Conditions), now: metav1.NewTime(now)}
	if s.AvailableReplicas >= desired(d)-maxUnavailable(d) {
		c.set(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable",
			"Deployment has minimum availability.")
	} else {
		c.set(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable",
			"Deployment does not have minimum availability.")
	}
	if !rollout {
		return c.list
	}
	if hasDeadline(d) {
		newRS, _ := findNewAndOld(d, sets)
		c.progress(d, newRS, s)
	} else {
		c.remove(appsv1.DeploymentProgressing)
	}
	if f := failure(d, sets); f != nil {
		c.put(appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: f.Status, Reason: f.Reason,
			Message: f.Message, LastUpdateTime: f.LastTransitionTime, LastTransitionTime: f.LastTransitionTime})
	} else {
		c.remove(appsv1.DeploymentReplicaFailure)
	}
	return c.list
}

// conditions are the conditions of a Deployment, to be updated.
type conditions struct {
	list []appsv1.DeploymentCondition
	now  metav1.Time
}

// These are reasons of the condition Progressing.
const (
	//upstream:pkg/controller/deployment/util.NewRSAvailableReason
	newReplicaSetAvailable = "NewReplicaSetAvailable"
	//upstream:pkg/controller/deployment/util.TimedOutReason
	progressDeadlineExceeded = "ProgressDeadlineExceeded"
	//upstream:pkg/controller/deployment/util.PausedDeployReason
	deploymentPaused = "DeploymentPaused"
)

// pause sets the condition Progressing if the Deployment was paused or resumed, and reports whether it was. The progress
// deadline of a Deployment that is resumed begins anew.
//
//upstream:pkg/controller/deployment.DeploymentController.checkPausedConditions
func (c *conditions) pause(d *appsv1.Deployment) bool {
	reason := ""
	if was := c.get(appsv1.DeploymentProgressing); was != nil {
		reason = was.Reason
	}
	switch {
	case reason == progressDeadlineExceeded:
	case d.Spec.Paused && reason != deploymentPaused:
		c.set(appsv1.DeploymentProgressing, corev1.ConditionUnknown, deploymentPaused, "Deployment is paused")
		return true
	case !d.Spec.Paused && reason == deploymentPaused:
		c.set(appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed")
		return true
	}
	return false
}

// progress sets the condition Progressing of a rollout.
//
//upstream:pkg/controller/deployment.DeploymentController.syncRolloutStatus
func (c *conditions) progress(d *appsv1.Deployment, newRS *appsv1.ReplicaSet, s appsv1.DeploymentStatus) {
	const kind = appsv1.DeploymentProgressing
	was := c.get(kind)
	name := fmt.Sprintf("Deployment %q", d.Name)
	if newRS != nil {
		name = fmt.Sprintf("ReplicaSet %q", newRS.Name)
	}
	switch {
	case was != nil && was.Reason == newReplicaSetAvailable && s.Replicas == s.UpdatedReplicas:
		// The rollout is complete; the replacement of a pod is not a rollout.
	case complete(d, s):
		c.set(kind, corev1.ConditionTrue, newReplicaSetAvailable, name+" has successfully progressed.")
	case progressed(d.Status, s):
		c.update(c.condition(kind, corev1.ConditionTrue, "ReplicaSetUpdated", name+" is progressing."))
	case was == nil || was.Reason == newReplicaSetAvailable:
	case was.Reason == progressDeadlineExceeded || deadline(d, *was).Before(c.now.Time):
		c.set(kind, corev1.ConditionFalse, progressDeadlineExceeded, name+" has timed out progressing.")
	}
}

// get returns the condition of that type, or nil.
//
//upstream:pkg/controller/deployment/util.GetDeploymentCondition
func (c *conditions) get(kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range c.list {
		if c.list[i].Type == kind {
			return &c.list[i]
		}
	}
	return nil
}

// condition returns a condition that changes now.
//
//upstream:pkg/controller/deployment/util.NewDeploymentCondition
func (c *conditions) condition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason,
	message string) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: message,
		LastUpdateTime: c.now, LastTransitionTime: c.now}
}

// set puts a condition that changes now.
func (c *conditions) set(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) {
	c.put(c.condition(kind, status, reason, message))
}

// put updates a condition, unless its status and reason are the same. A message alone is no reason for an
// update, since the message of an error may name another object each time.
//
//upstream:pkg/controller/deployment/util.SetDeploymentCondition
func (c *conditions) put(is appsv1.DeploymentCondition) {
	if was := c.get(is.Type); was == nil || was.Status != is.Status || was.Reason != is.Reason {
		c.update(is)
	}
}

// update replaces a condition and the time of its last update. The condition is the last one then.
//
//upstream:pkg/controller/deployment/util.SetDeploymentCondition
func (c *conditions) update(is appsv1.DeploymentCondition) {
	if was := c.get(is.Type); was != nil && was.Status == is.Status {
		is.LastTransitionTime = was.LastTransitionTime
	}
	c.remove(is.Type)
	c.list = append(c.list, is)
}

//upstream:pkg/controller/deployment/util.RemoveDeploymentCondition
func (c *conditions) remove(kind appsv1.DeploymentConditionType) {
	c.list = slices.DeleteFunc(c.list, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
}

// failure returns the condition ReplicaFailure of the new ReplicaSet, or else of an old one, or
// nil.
//
//upstream:pkg/controller/deployment.DeploymentController.getReplicaFailures
func failure(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) *appsv1.ReplicaSetCondition {
	newRS, old := findNewAndOld(d, sets)
	if newRS != nil {
		old = append([]*appsv1.ReplicaSet{newRS}, old...)
	}
	for _, rs := range old {
		for i := range rs.Status.Conditions {
			if c := &rs.Status.Conditions[i]; c.Type == appsv1.ReplicaSetReplicaFailure {
				return c
			}
		}
	}
	return nil
}

// hasDeadline reports whether a Deployment has a progress deadline.
//
//upstream:pkg/controller/deployment/util.HasProgressDeadline
func hasDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

// deadline returns the progress deadline.
//
//upstream:pkg/controller/deployment/util.DeploymentTimedOut
func deadline(d *appsv1.Deployment, progress appsv1.DeploymentCondition) time.Time {
	return progress.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second)
}

// untilDeadline returns the time until the progress deadline of a rollout, or zero if there is
// none.
//
//upstream:pkg/controller/deployment.DeploymentController.requeueStuckDeployment
func untilDeadline(d *appsv1.Deployment, now time.Time) time.Duration {
	c := &conditions{list: d.Status.Conditions}
	p := c.get(appsv1.DeploymentProgressing)
	if !hasDeadline(d) || d.Spec.Paused || p == nil || p.Status == corev1.ConditionFalse ||
		p.Reason == newReplicaSetAvailable {
		return 0
	}
	return max(deadline(d, *p).Sub(now), time.Millisecond)
}
