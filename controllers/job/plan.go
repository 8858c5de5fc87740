package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
)

// maxPodsPerReconcile is the maximum number of pods that one reconcile creates, or removes.
//
//upstream:pkg/controller/job.MaxPodCreateDeletePerSync
const maxPodsPerReconcile = 500

// plan is the next change of the pods of a Job. At most one of end, remove and create is set.
type plan struct {
	// finishedCondition is the condition FailureTarget or SuccessCriteriaMet, or nil if the Job continues. It must
	// not be in the status before all pods of end are deleted.
	finishedCondition *batchv1.JobCondition
	// end are the active pods to be deleted because the Job has finished. They stay tracked until the
	// status has them.
	end []*corev1.Pod
	// remove are the active pods to be deleted because there are too many. They are not counted.
	remove []*corev1.Pod
	// create has the completion index of each pod to be created, or noIndex.
	create []int
	// after is the time until the plan changes by itself, or zero.
	after time.Duration
}

// plan returns the next change of the pods. b has their failures so far.
//
//upstream:pkg/controller/job.Controller.manageJob
func (o *observation) plan(b backoff) plan {
	active := podstate.FilterActive(o.pods)
	if v := o.finishedCondition(); v != nil {
		return plan{finishedCondition: v, end: active}
	}
	p := plan{}
	if left, ok := o.untilDeadline(); ok {
		p.after = left
	}
	if o.job.DeletionTimestamp != nil {
		return p
	}
	wanted := o.wantActive(len(active))
	p.remove = o.surplus(active, max(0, len(active)-wanted))
	if len(p.remove) > 0 {
		if !suspended(o.job) {
			p.remove = p.remove[:min(len(p.remove), maxPodsPerReconcile)]
		}
		return p
	}
	n := wanted - len(active)
	if onlyReplaceFailedPods(o.job) {
		n -= len(terminatingPods(o.pods))
	}
	var wait time.Duration
	p.create, wait = o.creations(min(n, maxPodsPerReconcile), b)
	p.after = earlier(p.after, wait)
	return p
}

// wantActive returns the number of pods that should be active. active is the number now.
//
//upstream:pkg/controller/job.Controller.manageJob
func (o *observation) wantActive(active int) int {
	parallelism := int(*o.job.Spec.Parallelism)
	switch {
	case suspended(o.job):
		return 0
	case o.job.Spec.Completions != nil:
		return max(0, min(parallelism, int(*o.job.Spec.Completions)-o.succeeded))
	case o.succeeded > 0:
		return active // the others of a work queue end by themselves
	default:
		return parallelism
	}
}

// surplus returns the active pods to remove, at least atLeast of them. In an indexed Job, pods with an invalid or a
// duplicate index come first. Then come the pods that have made the least progress.
//
//upstream:pkg/controller/job.activePodsForRemoval
//upstream:pkg/controller/job.appendDuplicatedIndexPodsForRemoval
func (o *observation) surplus(active []*corev1.Pod, atLeast int) []*corev1.Pod {
	left := slices.Clone(active)
	slices.SortStableFunc(left, podstate.CompareForDeletion)
	if !indexed(o.job) {
		return left[:atLeast]
	}
	var remove, kept []*corev1.Pod
	seen := map[int]bool{}
	for _, p := range slices.Backward(left) {
		if i := indexOf(p); !o.validIndex(p) || seen[i] {
			remove = append(remove, p)
		} else {
			seen[i] = true
			kept = append(kept, p)
		}
	}
	slices.Reverse(kept)
	return append(remove, kept[:max(0, atLeast-len(remove))]...)
}

// creations returns the completion indexes of up to n pods to create now, or the time until the backoff ends.
//
//upstream:pkg/controller/job.Controller.getPodCreationInfoForIndependentIndexes
//upstream:pkg/controller/job.getRemainingTimePerIndex
func (o *observation) creations(n int, b backoff) (list []int, wait time.Duration) {
	if n <= 0 {
		return nil, 0
	}
	perIndex := o.job.Spec.BackoffLimitPerIndex != nil
	if !perIndex {
		if wait = b.remaining(o.now); wait > 0 {
			return nil, wait
		}
	}
	if !indexed(o.job) {
		return slices.Repeat([]int{noIndex}, n), 0
	}
	taken := podstate.FilterActive(o.pods)
	if onlyReplaceFailedPods(o.job) {
		taken = append(taken, terminatingPods(o.pods)...)
	}
	pending := o.completed.union(o.failedIndexes, indexesOf(indexesOfPods(taken)...)).missing(n, o.completions())
	if !perIndex {
		return pending, 0
	}
	for _, i := range pending {
		failed := o.delayedDeletion[i]
		if failed == nil {
			list = append(list, i)
			continue
		}
		left := backoffAfter(failureCount(failed)+ignoredFailureCount(failed)+1, finishTime(failed), o.now)
		if left == 0 {
			list = append(list, i)
		}
		wait = earlier(wait, left)
	}
	return list, wait
}

// earlier returns the smaller of two durations. Zero means never.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
