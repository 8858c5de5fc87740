package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"flyball.dev/controllers/internal/jobstate"
	"flyball.dev/controllers/internal/podstate"
)

// observation is a Job with the pods that it owns, and the values that follow from them. It is immutable.
//
//upstream:pkg/controller/job.syncJobCtx
type observation struct {
	job  *batchv1.Job
	pods []*corev1.Pod // ordered by completion index
	now  time.Time

	// uncountedSucceeded and uncountedFailed are the pods in the status that are not in its counters.
	uncountedSucceeded, uncountedFailed sets.Set[types.UID]
	// newSucceeded and newFailed are the terminated pods that are not in the status at all.
	newSucceeded, newFailed []*corev1.Pod
	// succeeded and failed are the numbers of pods in the next status.
	succeeded, failed int
	// completed and failedIndexes are the indexes in the next status.
	completed, failedIndexes indexes
	// delayedDeletion has the failed pods, by index, that keep their finalizer until their replacement
	// exists, because it inherits their number of failures.
	delayedDeletion map[int]*corev1.Pod
}

// observe returns an observation of a Job and the pods that it owns.
//
//upstream:pkg/controller/job.Controller.syncJob
//upstream:pkg/controller/job.getNewFinishedPods
func observe(job *batchv1.Job, pods []*corev1.Pod, now time.Time) *observation {
	o := &observation{job: job, pods: slices.Clone(pods), now: now}
	slices.SortStableFunc(o.pods, func(a, b *corev1.Pod) int { return cmp.Compare(indexOf(a), indexOf(b)) })
	uncounted := job.Status.UncountedTerminatedPods
	if uncounted == nil {
		uncounted = &batchv1.UncountedTerminatedPods{}
	}
	o.uncountedSucceeded, o.uncountedFailed = sets.New(uncounted.Succeeded...), sets.New(uncounted.Failed...)
	ignored := 0
	for _, p := range o.pods {
		switch {
		case !tracked(p) || !o.validIndex(p) || o.inStatus(p):
		case p.Status.Phase == corev1.PodSucceeded:
			o.newSucceeded = append(o.newSucceeded, p)
		case isPodFailed(job, p):
			o.newFailed = append(o.newFailed, p)
			if !failureActionOf(job.Spec.PodFailurePolicy, p).counts() {
				ignored++
			}
		}
	}
	o.succeeded = int(job.Status.Succeeded) + len(uncounted.Succeeded) + len(o.newSucceeded)
	o.failed = int(job.Status.Failed) + len(uncounted.Failed) + len(o.newFailed) - ignored
	if indexed(job) {
		o.observeIndexes()
	}
	return o
}

// completions returns the number of completions of an indexed Job.
func (o *observation) completions() int { return int(*o.job.Spec.Completions) }

// validIndex reports whether a pod of an indexed Job has an index below completions.
func (o *observation) validIndex(p *corev1.Pod) bool {
	i := indexOf(p)
	return !indexed(o.job) || i != noIndex && i < o.completions()
}

// inStatus reports whether a pod is among the uncounted pods in the status. The phase of the pod may have changed
// since, for example by an eviction, but the pod must not be in the status twice.
func (o *observation) inStatus(p *corev1.Pod) bool {
	return o.uncountedSucceeded.Has(p.UID) || o.uncountedFailed.Has(p.UID)
}

// observeIndexes computes the completed and the failed indexes, and the pods with a delayed deletion.
//
//upstream:pkg/controller/job.calculateSucceededIndexes
//upstream:pkg/controller/job.calculateFailedIndexes
//upstream:pkg/controller/job.getPodsWithDelayedDeletionPerIndex
func (o *observation) observeIndexes() {
	s := &o.job.Status
	o.completed = parseIndexes(s.CompletedIndexes, o.completions()).union(indexesOf(indexesOfPods(o.newSucceeded)...))
	o.succeeded = o.completed.count()
	if o.job.Spec.BackoffLimitPerIndex == nil {
		return
	}
	if s.FailedIndexes != nil {
		o.failedIndexes = parseIndexes(*s.FailedIndexes, o.completions())
	}
	var failed []int
	for _, p := range o.pods {
		if tracked(p) && o.validIndex(p) && o.indexFailed(p) {
			failed = append(failed, indexOf(p))
		}
	}
	o.failedIndexes = o.failedIndexes.union(indexesOf(failed...))
	done := o.completed.union(o.failedIndexes, indexesOf(indexesOfPods(podstate.FilterActive(o.pods))...))
	o.delayedDeletion = map[int]*corev1.Pod{}
	for _, p := range o.pods {
		i := indexOf(p)
		if !tracked(p) || !o.validIndex(p) || !isPodFailed(o.job, p) || done.has(i) {
			continue
		}
		if last := o.delayedDeletion[i]; last == nil || compareFailures(last, p) <= 0 {
			o.delayedDeletion[i] = p
		}
	}
}

// indexFailed reports whether the index of a pod fails with it.
//
//upstream:pkg/controller/job.isIndexFailed
func (o *observation) indexFailed(p *corev1.Pod) bool {
	if !isPodFailed(o.job, p) {
		return false
	}
	a := failureActionOf(o.job.Spec.PodFailurePolicy, p)
	return a.action == batchv1.PodFailurePolicyActionFailIndex ||
		a.counts() && failureCount(p) >= int(*o.job.Spec.BackoffLimitPerIndex)
}

// compareFailures orders failed pods of the same index.
//
//upstream:pkg/controller/job.getPodsWithDelayedDeletionPerIndex
func compareFailures(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(failureCount(a)+ignoredFailureCount(a), failureCount(b)+ignoredFailureCount(b)),
		finishTime(a).Compare(finishTime(b)),
	)
}

// indexesOfPods returns the completion indexes of the pods that have one.
func indexesOfPods(pods []*corev1.Pod) []int {
	var list []int
	for _, p := range pods {
		if i := indexOf(p); i != noIndex {
			list = append(list, i)
		}
	}
	return list
}

// terminatingPods returns the pods that are being deleted and have not terminated.
//
//upstream:pkg/controller.FilterTerminatingPods
func terminatingPods(pods []*corev1.Pod) []*corev1.Pod {
	var list []*corev1.Pod
	for _, p := range pods {
		if podstate.Terminating(p) {
			list = append(list, p)
		}
	}
	return list
}

// finishedCondition returns the condition FailureTarget or SuccessCriteriaMet of a Job that gets no more pods, or nil.
// A condition in the status is final. If a Job meets several criteria, the criteria for failure come first.
//
//upstream:pkg/controller/job.Controller.syncJob
func (o *observation) finishedCondition() *batchv1.JobCondition {
	for _, t := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget} {
		if c := jobstate.Condition(o.job, t); c != nil {
			return c
		}
	}
	fail := func(reason, message string) *batchv1.JobCondition {
		return newCondition(batchv1.JobFailureTarget, corev1.ConditionTrue, reason, message, o.now)
	}
	spec := &o.job.Spec
	for _, p := range o.pods {
		if !isPodFailed(o.job, p) {
			continue
		}
		if a := failureActionOf(spec.PodFailurePolicy, p); a.action == batchv1.PodFailurePolicyActionFailJob {
			return fail(batchv1.JobReasonPodFailurePolicy, a.message)
		}
	}
	left, limited := o.untilDeadline()
	switch {
	case o.failed > int(*spec.BackoffLimit) || o.tooManyRestarts():
		return fail(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	case limited && left <= 0:
		return fail(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	case !indexed(o.job):
		return nil
	case spec.MaxFailedIndexes != nil && o.failedIndexes.count() > int(*spec.MaxFailedIndexes):
		return fail(batchv1.JobReasonMaxFailedIndexesExceeded,
			"Job has exceeded the specified maximal number of failed indexes")
	case len(o.failedIndexes) > 0 && o.failedIndexes.count()+o.completed.count() >= o.completions():
		return fail(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	}
	if rule, ok := successRule(spec.SuccessPolicy, o.completions(), o.completed); ok {
		return newCondition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, batchv1.JobReasonSuccessPolicy,
			fmt.Sprintf("Matched rules at index %d", rule), o.now)
	}
	return nil
}

// completion returns the condition SuccessCriteriaMet if enough pods have succeeded and no pod is active, or nil. For
// a Job without a number of completions, one success is enough.
//
//upstream:pkg/controller/job.Controller.syncJob
func (o *observation) completion(pods []*corev1.Pod) *batchv1.JobCondition {
	want := 1
	if o.job.Spec.Completions != nil {
		want = o.completions()
	}
	if o.succeeded < want || len(podstate.FilterActive(pods)) > 0 {
		return nil
	}
	return newCondition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, batchv1.JobReasonCompletionsReached,
		"Reached expected number of succeeded pods", o.now)
}

// tooManyRestarts reports whether the containers of pods with the restart policy OnFailure were
// restarted too often.
//
//upstream:pkg/controller/job.pastBackoffLimitOnFailure
func (o *observation) tooManyRestarts() bool {
	if o.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	n := int32(0)
	for _, p := range o.pods {
		if p.Status.Phase != corev1.PodRunning && p.Status.Phase != corev1.PodPending {
			continue
		}
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			n += s.RestartCount
		}
	}
	return n > 0 && n >= *o.job.Spec.BackoffLimit
}

// untilDeadline returns the time until the active deadline, if there is one.
//
//upstream:pkg/controller/job.Controller.pastActiveDeadline
func (o *observation) untilDeadline() (left time.Duration, ok bool) {
	deadline := o.job.Spec.ActiveDeadlineSeconds
	if deadline == nil || suspended(o.job) {
		return 0, false
	}
	return o.startTime().Add(time.Duration(*deadline) * time.Second).Sub(o.now), true
}

// startTime returns the time at which a Job started, or was resumed. The Job is not suspended.
func (o *observation) startTime() metav1.Time {
	if t := o.job.Status.StartTime; t != nil && jobstate.Condition(o.job, batchv1.JobSuspended) == nil {
		return *t
	}
	return metav1.NewTime(o.now)
}

// newCondition returns a condition of a Job.
//
//upstream:pkg/controller/job.newCondition
func newCondition(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string,
	now time.Time) *batchv1.JobCondition {
	t := metav1.NewTime(now)
	return &batchv1.JobCondition{Type: kind, Status: status, LastProbeTime: t, LastTransitionTime: t,
		Reason: reason, Message: message}
}
