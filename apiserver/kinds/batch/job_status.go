package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// validateJobStatus checks a status and its change. Most rules apply to changed fields only, so that a stored status that
// violates them can still be updated.
//
//upstream:pkg/apis/batch/validation.validateJobStatus
//upstream:pkg/apis/batch/validation.ValidateJobStatusUpdate
//upstream:pkg/registry/batch/job.getStatusValidationOptions
func validateJobStatus(j, old *batchv1.Job) (errs field.ErrorList) {
	status, s := check.Object(&errs).Child("status"), &j.Status
	check.NonNegative(status.Child("active"), &s.Active)
	check.NonNegative(status.Child("succeeded"), &s.Succeeded)
	check.NonNegative(status.Child("failed"), &s.Failed)
	check.NonNegative(status.Child("ready"), s.Ready)
	check.NonNegative(status.Child("terminating"), s.Terminating)
	if s.UncountedTerminatedPods != nil {
		uncountedPods(status.Child("uncountedTerminatedPods"), s.UncountedTerminatedPods)
	}
	jobConditions(status.Child("conditions"), j, old)
	jobTimes(status, j, old)
	jobCounters(status, j, old)
	jobIndexes(status, j, old)
	return errs
}

func jobIs(j *batchv1.Job, kind batchv1.JobConditionType) bool {
	return hasCondition(j, kind, corev1.ConditionTrue)
}

func hasCondition(j *batchv1.Job, kind batchv1.JobConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == kind && c.Status == status
	})
}

func finished(j *batchv1.Job) bool {
	return jobIs(j, batchv1.JobComplete) || jobIs(j, batchv1.JobFailed)
}

// jobConditions checks that conditions do not contradict each other, and that a finished job stays finished.
func jobConditions(at check.Field, j, old *batchv1.Job) {
	invalid := func(message string) { at.Invalid(field.OmitValueType{}, message) }
	changes := func(kind batchv1.JobConditionType) bool { return jobIs(j, kind) != jobIs(old, kind) }
	complete, failed := jobIs(j, batchv1.JobComplete), jobIs(j, batchv1.JobFailed)
	failing, succeeding := jobIs(j, batchv1.JobFailureTarget), jobIs(j, batchv1.JobSuccessCriteriaMet)
	completes, fails := changes(batchv1.JobComplete), changes(batchv1.JobFailed)
	if complete && failed && (completes || fails) {
		invalid("cannot set Complete=True and Failed=true conditions")
	}
	if complete && failing && (completes || changes(batchv1.JobFailureTarget)) {
		invalid("cannot set Complete=True and FailureTarget=true conditions")
	}
	if failed && !failing && (fails || !equality.Semantic(j.Status.FailedIndexes, old.Status.FailedIndexes)) {
		invalid("cannot set Failed=True condition without the FailureTarget=true condition")
	}
	if complete && !succeeding && (completes || changes(batchv1.JobSuccessCriteriaMet)) {
		invalid("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	}
	if succeeding && failed {
		invalid("cannot set SuccessCriteriaMet=True and Failed=true conditions")
	}
	if succeeding && failing {
		invalid("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	}
	if j.Spec.SuccessPolicy != nil && !succeeding && complete {
		invalid("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
	}
	for _, end := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		if jobIs(old, end) && !jobIs(j, end) {
			invalid(fmt.Sprintf("cannot disable the terminal %s=True condition", end))
		}
	}
	if jobIs(old, batchv1.JobSuccessCriteriaMet) && !succeeding {
		invalid("cannot disable the SuccessCriteriaMet=True condition")
	}
	if jobIs(old, batchv1.JobComplete) && !jobIs(old, batchv1.JobSuccessCriteriaMet) && succeeding {
		invalid("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	}
}

// jobTimes checks startTime and completionTime.
func jobTimes(status check.Field, j, old *batchv1.Job) {
	s, was := &j.Status, &old.Status
	start, completion := status.Child("startTime"), status.Child("completionTime")
	starts, completes := !s.StartTime.Equal(was.StartTime), !s.CompletionTime.Equal(was.CompletionTime)
	complete := jobIs(j, batchv1.JobComplete)
	if completes || complete != jobIs(old, batchv1.JobComplete) {
		if s.CompletionTime != nil && !complete {
			completion.Invalid(s.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
		}
		if s.CompletionTime == nil && complete {
			completion.Required("completionTime is required for Complete jobs")
		}
	}
	if (starts || completes) && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		completion.Invalid(s.CompletionTime, "must be equal to or after `startTime`")
	}
	if completes && s.CompletionTime != nil && was.CompletionTime != nil {
		completion.Invalid(s.CompletionTime, "field is immutable")
	}
	suspended := j.Spec.Suspend != nil && *j.Spec.Suspend
	empty := suspended && j.Spec.Completions != nil && *j.Spec.Completions == 0
	if s.StartTime == nil && finished(j) && (starts || !finished(old)) && !empty {
		start.Required("startTime is required for finished job")
	}
	resumes := jobIs(old, batchv1.JobSuspended) && hasCondition(j, batchv1.JobSuspended, corev1.ConditionFalse)
	if starts && was.StartTime != nil && !suspended && !resumes {
		start.Invalid(s.StartTime, "field is immutable for unsuspended job once set")
	}
}

// jobCounters checks that the counters of pods agree, and that the counters of finished pods do not decrease.
func jobCounters(status check.Field, j, old *batchv1.Job) {
	s, was := &j.Status, &old.Status
	ends := finished(j) != finished(old)
	differs := func(a, b any) bool { return !equality.Semantic(a, b) }
	if s.Active > 0 && finished(j) && (ends || s.Active != was.Active) {
		status.Child("active").Invalid(s.Active, "active>0 is invalid for finished job")
	}
	if s.Terminating != nil && *s.Terminating > 0 && finished(j) && (ends || differs(s.Terminating, was.Terminating)) {
		status.Child("terminating").Invalid(*s.Terminating, "terminating>0 is invalid for finished job")
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Failed)+len(u.Succeeded) > 0 && finished(j) &&
		(ends || differs(u, was.UncountedTerminatedPods)) {
		status.Child("uncountedTerminatedPods").Invalid(fieldrules.Internal(u), "must be empty for finished job")
	}
	if s.Ready != nil && *s.Ready > s.Active && (differs(s.Ready, was.Ready) || s.Active != was.Active) {
		status.Child("ready").Invalid(*s.Ready, "cannot set more ready pods than active")
	}
	if s.Failed < was.Failed {
		status.Child("failed").Invalid(s.Failed, "cannot decrease the failed counter")
	}
	// The completions of an elastic indexed job may be scaled down.
	elastic := indexed(&j.Spec) && !differs(j.Spec.Completions, j.Spec.Parallelism)
	if s.Succeeded < was.Succeeded && !elastic {
		status.Child("succeeded").Invalid(s.Succeeded, "cannot decrease the succeeded counter")
	}
}

// jobIndexes checks completedIndexes and failedIndexes.
func jobIndexes(status check.Field, j, old *batchv1.Job) {
	s, n := &j.Status, j.Spec.Completions
	completed, failed := status.Child("completedIndexes"), status.Child("failedIndexes")
	if s.CompletedIndexes != old.Status.CompletedIndexes {
		if n != nil {
			if _, err := countIndexes(s.CompletedIndexes, *n); err != nil {
				completed.Invalidf(s.CompletedIndexes, "error parsing completedIndexes: %v", err)
			}
		}
		if s.CompletedIndexes != "" && !indexed(&j.Spec) {
			completed.Invalid(s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
		}
	}
	overlappingIndexes(failed, j, old)
	switch {
	case s.FailedIndexes == nil || equality.Semantic(s.FailedIndexes, old.Status.FailedIndexes):
	case j.Spec.BackoffLimitPerIndex == nil:
		failed.Invalid(*s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	case n != nil:
		if _, err := countIndexes(*s.FailedIndexes, *n); err != nil {
			failed.Invalidf(s.FailedIndexes, "error parsing failedIndexes: %v", err)
		}
	}
}

// overlappingIndexes checks that no index is both completed and failed.
//
//upstream:pkg/apis/batch/validation.validateFailedIndexesNotOverlapCompleted
func overlappingIndexes(at check.Field, j, old *batchv1.Job) {
	s := &j.Status
	changed := s.CompletedIndexes != old.Status.CompletedIndexes || !equality.Semantic(s.FailedIndexes, old.Status.FailedIndexes)
	if !changed || j.Spec.Completions == nil || s.FailedIndexes == nil {
		return
	}
	completed, failed := validIntervals(s.CompletedIndexes, *j.Spec.Completions), validIntervals(*s.FailedIndexes, *j.Spec.Completions)
	for len(completed) > 0 && len(failed) > 0 {
		c, f := completed[0], failed[0]
		switch {
		case c.first <= f.last && f.first <= c.last:
			at.Invalidf(*s.FailedIndexes, "failedIndexes and completedIndexes overlap at index: %d", max(c.first, f.first))
			return
		case c.first <= f.first:
			completed = completed[1:]
		default:
			failed = failed[1:]
		}
	}
}
