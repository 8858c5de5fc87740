package controller

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainingv1 "flyball.dev/examples/training/api/v1"
)

// The reasons of conditions, and of events.
const (
	ReasonAllRunning    = "AllRunning"
	ReasonStarting      = "Starting"
	ReasonEnded         = "Ended"
	ReasonSucceeded     = "WorkersSucceeded"
	ReasonBackoffLimit  = "BackoffLimitExceeded"
	ReasonPodReplaced   = "PodReplaced"
	ReasonJobRestarting = "Restarting"
	ReasonNameTaken     = "NameTaken"
	// ReasonReconcileFailed is the reason if the API server refuses a request, which is retried.
	ReasonReconcileFailed = "ReconcileFailed"
)

// nextStatus returns the status that follows from the present one and the Pods, and the events that
// say what has changed. It changes nothing.
func (o *observation) nextStatus() (*trainingv1.TrainingJobStatus, []jobEvent) {
	status := o.job.Status.DeepCopy()
	status.ObservedGeneration = o.job.Generation
	var events []jobEvent
	if !ended(status) {
		failures := o.updatePods(status)
		events = o.judge(status, failures)
	}
	o.summarize(status)
	if event := o.judgeBlocked(status); event != nil {
		events = append(events, *event)
	}
	return status, events
}

// judgeBlocked makes the condition Running say why a TrainingJob that has not ended cannot go on. It
// returns an event if that is new.
func (o *observation) judgeBlocked(status *trainingv1.TrainingJobStatus) *jobEvent {
	was := meta.FindStatusCondition(o.job.Status.Conditions, trainingv1.ConditionRunning)
	switch {
	case ended(status):
	case o.blocked != nil:
		taken, reason := (*nameTakenError)(nil), ReasonReconcileFailed
		if errors.As(o.blocked, &taken) {
			reason = ReasonNameTaken
		}
		message := o.blocked.Error()
		o.setCondition(status, trainingv1.ConditionRunning, metav1.ConditionFalse, reason, message)
		if was == nil || was.Reason != reason || was.Message != message {
			return &jobEvent{corev1.EventTypeWarning, reason, message}
		}
	case was != nil && (was.Reason == ReasonNameTaken || was.Reason == ReasonReconcileFailed) && o.missing(status):
		// Whether it still holds is known when the Pods that are missing have been created.
		o.setCondition(status, trainingv1.ConditionRunning, was.Status, was.Reason, was.Message)
	}
	return nil
}

// missing reports whether there are members without a Pod that has not failed.
func (o *observation) missing(status *trainingv1.TrainingJobStatus) bool {
	return status.Active+status.Succeeded < o.job.Spec.Workers+o.job.Spec.ParameterServers
}

// ended reports whether a TrainingJob is complete or has failed.
func ended(status *trainingv1.TrainingJobStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, trainingv1.ConditionComplete) ||
		meta.IsStatusConditionTrue(status.Conditions, trainingv1.ConditionFailed)
}

// updatePods updates the recorded Pods. Those that have to be replaced get the phase Replaced; why,
// is returned.
func (o *observation) updatePods(status *trainingv1.TrainingJobStatus) (failures []string) {
	var updated []trainingv1.PodStatus
	for _, m := range membersOf(&o.job.Spec) {
		name := m.podName(o.job)
		recorded := recordOf(status, name)
		pod := o.pods[name]
		if recorded == nil || recorded.Phase == trainingv1.PodReplaced {
			if pod == nil || !pod.DeletionTimestamp.IsZero() || recorded != nil && pod.UID == recorded.UID {
				if recorded != nil {
					updated = append(updated, *recorded)
				}
				continue // its successor does not exist yet
			}
			recorded = &trainingv1.PodStatus{Name: name, UID: pod.UID}
		}
		next := *recorded
		if next.Phase != trainingv1.PodSucceeded { // which it stays when its Pod is deleted
			if why := o.failureOf(m, next); why != "" {
				failures = append(failures, why)
				next.Phase = trainingv1.PodReplaced
			} else {
				next.Phase = phaseOf(pod)
			}
		}
		updated = append(updated, next)
	}
	status.Pods = updated
	return failures
}

// recordOf returns the recorded Pod of a name, or nil.
func recordOf(status *trainingv1.TrainingJobStatus, name string) *trainingv1.PodStatus {
	for i := range status.Pods {
		if status.Pods[i].Name == name {
			return &status.Pods[i]
		}
	}
	return nil
}

// judge decides whether the TrainingJob has ended, and counts restarts.
func (o *observation) judge(status *trainingv1.TrainingJobStatus, failures []string) []jobEvent {
	if o.succeeded(status) == o.job.Spec.Workers {
		message := fmt.Sprintf("%d workers have succeeded", o.job.Spec.Workers)
		o.setCondition(status, trainingv1.ConditionComplete, metav1.ConditionTrue, ReasonSucceeded, message)
		return []jobEvent{{corev1.EventTypeNormal, ReasonSucceeded, message}}
	}
	if len(failures) == 0 {
		return nil
	}
	why, all := summary(failures), o.job.Spec.RestartPolicy == trainingv1.RestartAll
	restarts, reason := int32(len(failures)), ReasonPodReplaced
	if all {
		restarts, reason = 1, ReasonJobRestarting
	}
	if status.Restarts+restarts > o.job.Spec.BackoffLimit {
		replacePhase(status, trainingv1.PodReplaced, trainingv1.PodFailed)
		message := fmt.Sprintf("%s, and there were %d restarts before", why, status.Restarts)
		o.setCondition(status, trainingv1.ConditionFailed, metav1.ConditionTrue, ReasonBackoffLimit, message)
		return []jobEvent{{corev1.EventTypeWarning, ReasonBackoffLimit, message}}
	}
	status.Restarts += restarts
	if all {
		for i := range status.Pods {
			status.Pods[i].Phase = trainingv1.PodReplaced
		}
	}
	return []jobEvent{{corev1.EventTypeWarning, reason, why}}
}

// summary returns a sentence with the first failures, and how many there are more. An event has 1024
// characters at most.
func summary(failures []string) string {
	const most = 5
	if more := len(failures) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(failures[:most], ", "), more)
	}
	return strings.Join(failures, ", ")
}

// replacePhase gives the Pods of one phase another one.
func replacePhase(status *trainingv1.TrainingJobStatus, from, to trainingv1.PodPhase) {
	for i := range status.Pods {
		if status.Pods[i].Phase == from {
			status.Pods[i].Phase = to
		}
	}
}

// succeeded returns the number of workers that have succeeded. Parameter servers never do.
func (o *observation) succeeded(status *trainingv1.TrainingJobStatus) (n int32) {
	for _, p := range status.Pods {
		if p.Phase == trainingv1.PodSucceeded {
			n++
		}
	}
	return n
}

// summarize sets the counts and the condition Running.
func (o *observation) summarize(status *trainingv1.TrainingJobStatus) {
	status.Active, status.Succeeded = 0, o.succeeded(status)
	if ended(status) {
		o.setCondition(status, trainingv1.ConditionRunning, metav1.ConditionFalse, ReasonEnded, "the TrainingJob has ended")
		return
	}
	running := int32(0)
	for _, p := range status.Pods {
		switch p.Phase {
		case trainingv1.PodRunning:
			running++
			status.Active++
		case trainingv1.PodPending:
			status.Active++
		}
	}
	want := o.job.Spec.Workers + o.job.Spec.ParameterServers - status.Succeeded
	value, reason := metav1.ConditionFalse, ReasonStarting
	if running == want {
		value, reason = metav1.ConditionTrue, ReasonAllRunning
	}
	o.setCondition(status, trainingv1.ConditionRunning, value, reason, fmt.Sprintf("%d/%d Pods are running", running, want))
}

// setCondition sets a condition of the present generation.
func (o *observation) setCondition(status *trainingv1.TrainingJobStatus, kind string, value metav1.ConditionStatus,
	reason, message string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: kind, Status: value, Reason: reason,
		Message: message, ObservedGeneration: o.job.Generation})
}
