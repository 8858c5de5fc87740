package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"flyball.dev/controllers/internal/podstate"
)

// maxUncounted is the maximum number of pods that one update adds to the status. It keeps the status below 20 KB.
//
//upstream:pkg/controller/job.MaxUncountedPods
const maxUncounted = 500

// track returns the status of the Job with these pods, after the plan for them was executed, and the pods that may
// lose their finalizer once the status is written. finishedCondition is the condition in [plan], or the completion.
//
// Each terminated pod goes through the steps below. Each step is one write. If the controller stops, it continues
// at the same step. The sum of the counter, the uncounted pods and the terminated pods with a finalizer is constant:
//
//  1. The pod has the finalizer: it is not counted.
//  2. Its UID is in status.uncountedTerminatedPods.
//  3. The pod has lost the finalizer, and may be deleted by anyone.
//  4. The UID leaves the status, and the counter is incremented, in the same update.
//
// For pods that have succeeded in an indexed Job, the index in status.completedIndexes takes the place of the UID.
// An index cannot be added twice.
//
//upstream:pkg/controller/job.Controller.trackJobStatusAndRemoveFinalizers
//upstream:pkg/controller/job.Controller.flushUncountedAndRemoveFinalizers
func (o *observation) track(finishedCondition *batchv1.JobCondition, pods []*corev1.Pod) (batchv1.JobStatus, []*corev1.Pod) {
	status := *o.job.Status.DeepCopy()
	if status.UncountedTerminatedPods == nil {
		status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	countUntracked(&status, pods)
	untrack := o.countTerminated(&status, finishedCondition, pods)

	active, ready, terminating := podstate.FilterActive(pods), int32(0), int32(len(terminatingPods(pods)))
	for _, p := range active {
		if podstate.Ready(p) {
			ready++
		}
	}
	status.Active, status.Ready, status.Terminating = int32(len(active)), &ready, &terminating
	if finishedCondition == nil {
		o.setRunning(&status)
		return status, untrack
	}
	setCondition(&status, *finishedCondition)
	uncounted := status.UncountedTerminatedPods
	if len(untrack) == 0 && len(uncounted.Succeeded)+len(uncounted.Failed) == 0 && status.Active+terminating == 0 {
		o.setFinished(&status, finishedCondition)
	} else if status.StartTime == nil && !suspended(o.job) {
		o.setStarted(&status)
	}
	return status, untrack
}

// countUntracked moves the uncounted pods without a finalizer to the counters.
//
//upstream:pkg/controller/job.cleanUncountedPodsWithoutFinalizers
func countUntracked(status *batchv1.JobStatus, pods []*corev1.Pod) {
	withFinalizer := sets.Set[types.UID]{}
	for _, p := range pods {
		if tracked(p) {
			withFinalizer.Insert(p.UID)
		}
	}
	count := func(uncounted *[]types.UID, counter *int32) {
		before := len(*uncounted)
		*uncounted = slices.DeleteFunc(*uncounted, func(uid types.UID) bool { return !withFinalizer.Has(uid) })
		*counter += int32(before - len(*uncounted))
	}
	count(&status.UncountedTerminatedPods.Succeeded, &status.Succeeded)
	count(&status.UncountedTerminatedPods.Failed, &status.Failed)
}

// countTerminated adds the terminated pods to the uncounted pods or the completed indexes, and returns the pods
// that need no finalizer once the status is written.
//
//upstream:pkg/controller/job.Controller.trackJobStatusAndRemoveFinalizers
func (o *observation) countTerminated(status *batchv1.JobStatus, finishedCondition *batchv1.JobCondition,
	pods []*corev1.Pod) (untrack []*corev1.Pod) {
	uncounted, added := status.UncountedTerminatedPods, 0
	for _, p := range pods {
		if !tracked(p) || !o.canRemoveFinalizer(finishedCondition, p) {
			continue
		}
		if added == maxUncounted {
			break // the rest follows after the next event
		}
		untrack = append(untrack, p)
		added++
		switch {
		case o.inStatus(p) || !o.validIndex(p):
		case p.Status.Phase == corev1.PodSucceeded:
			if !indexed(o.job) {
				uncounted.Succeeded = append(uncounted.Succeeded, p.UID)
			}
		case o.countsAsFailed(finishedCondition, p):
			uncounted.Failed = append(uncounted.Failed, p.UID)
		}
	}
	if indexed(o.job) {
		status.Succeeded, status.CompletedIndexes = int32(o.completed.count()), o.completed.String()
		status.FailedIndexes = nil
		if o.job.Spec.BackoffLimitPerIndex != nil {
			list := o.failedIndexes.String()
			status.FailedIndexes = &list
		}
	}
	return untrack
}

// canRemoveFinalizer reports whether a pod needs no finalizer once the status has it.
//
//upstream:pkg/controller/job.canRemoveFinalizer
func (o *observation) canRemoveFinalizer(finishedCondition *batchv1.JobCondition, p *corev1.Pod) bool {
	switch {
	case finishedCondition != nil || o.job.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded:
		return true
	case !isPodFailed(o.job, p):
		return false
	}
	delayed := o.delayedDeletion[indexOf(p)]
	return delayed == nil || delayed.UID != p.UID
}

// countsAsFailed reports whether a pod counts as failed when it loses its finalizer. When the Job fails, every pod that has
// not terminated fails too. A pod that the Job deletes because it succeeds does not fail.
func (o *observation) countsAsFailed(finishedCondition *batchv1.JobCondition, p *corev1.Pod) bool {
	before := p
	if i := slices.IndexFunc(o.pods, func(was *corev1.Pod) bool { return was.UID == p.UID }); i >= 0 {
		before = o.pods[i] // not yet deleted
	}
	fails := finishedCondition != nil && finishedCondition.Type == batchv1.JobFailureTarget
	return (fails || isPodFailed(o.job, before)) && failureActionOf(o.job.Spec.PodFailurePolicy, p).counts()
}

// setRunning sets the start time, and the condition Suspended, of a Job that goes on.
//
//upstream:pkg/controller/job.Controller.syncJob
func (o *observation) setRunning(status *batchv1.JobStatus) {
	if o.job.DeletionTimestamp != nil {
		if status.StartTime == nil && !suspended(o.job) {
			o.setStarted(status)
		}
		return
	}
	if suspended(o.job) {
		status.StartTime = nil
		setCondition(status, *newCondition(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", o.now))
		return
	}
	o.setStarted(status)
	if slices.ContainsFunc(status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended }) {
		setCondition(status, *newCondition(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed", o.now))
	}
}

// setStarted sets the start time.
func (o *observation) setStarted(status *batchv1.JobStatus) {
	start := o.startTime()
	status.StartTime = &start
}

// setFinished adds the condition Complete or Failed, with the reason of the condition before it.
//
//upstream:pkg/controller/job.Controller.enactJobFinished
func (o *observation) setFinished(status *batchv1.JobStatus, finishedCondition *batchv1.JobCondition) {
	if status.StartTime == nil {
		o.setStarted(status) // a finished Job must have one
	}
	kind := batchv1.JobFailed
	if finishedCondition.Type == batchv1.JobSuccessCriteriaMet {
		kind = batchv1.JobComplete
	}
	c := newCondition(kind, corev1.ConditionTrue, finishedCondition.Reason, finishedCondition.Message, o.now)
	setCondition(status, *c)
	if kind == batchv1.JobComplete {
		status.CompletionTime = &c.LastTransitionTime
	}
}

// setCondition sets a condition, unless one of its type has the same status, reason and message already.
//
//upstream:pkg/controller/job.ensureJobConditionStatus
func setCondition(status *batchv1.JobStatus, c batchv1.JobCondition) {
	for i, old := range status.Conditions {
		if old.Type == c.Type {
			if old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message {
				status.Conditions[i] = c
			}
			return
		}
	}
	status.Conditions = append(status.Conditions, c)
}
