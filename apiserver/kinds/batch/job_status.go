package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/workload"
)

// validateJobStatus checks a status and its change. Most rules apply to changed fields only, so that a stored status that
// violates them can still be updated.
//
//upstream:pkg/apis/batch/validation.validateJobStatus
//upstream:pkg/apis/batch/validation.ValidateJobStatusUpdate
//upstream:pkg/registry/batch/job.getStatusValidationOptions
func validateJobStatus(j, old *batchv1.Job) field.ErrorList {
	s := &j.Status
	errs := workload.Counts(map[string]int32{"active": s.Active, "succeeded": s.Succeeded, "failed": s.Failed})
	errs = append(errs, fieldrules.OptionalNonNegative(s.Ready, &fieldrules.Status, "ready")...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.Terminating, &fieldrules.Status, "terminating")...)
	if s.UncountedTerminatedPods != nil {
		errs = append(errs, uncountedPods(s.UncountedTerminatedPods, fieldrules.Status.ChildField("uncountedTerminatedPods"))...)
	}
	errs = append(errs, jobConditions(j, old)...)
	errs = append(errs, jobTimes(j, old)...)
	errs = append(errs, jobCounters(j, old)...)
	return append(errs, jobIndexes(j, old)...)
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
func jobConditions(j, old *batchv1.Job) field.ErrorList {
	var errs field.ErrorList
	invalid := func(message string) {
		errs = append(errs, field.Invalid(fieldrules.Status.ChildField("conditions"), field.OmitValueType{}, message))
	}
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
	return errs
}

// jobTimes checks startTime and completionTime.
func jobTimes(j, old *batchv1.Job) field.ErrorList {
	var errs field.ErrorList
	s, was := &j.Status, &old.Status
	start, completion := fieldrules.Status.ChildField("startTime"), fieldrules.Status.ChildField("completionTime")
	starts, completes := !s.StartTime.Equal(was.StartTime), !s.CompletionTime.Equal(was.CompletionTime)
	complete := jobIs(j, batchv1.JobComplete)
	if completes || complete != jobIs(old, batchv1.JobComplete) {
		if s.CompletionTime != nil && !complete {
			errs = append(errs, field.Invalid(completion, s.CompletionTime,
				"cannot set completionTime when there is no Complete=True condition"))
		}
		if s.CompletionTime == nil && complete {
			errs = append(errs, field.Required(completion, "completionTime is required for Complete jobs"))
		}
	}
	if (starts || completes) && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		errs = append(errs, field.Invalid(completion, s.CompletionTime, "must be equal to or after `startTime`"))
	}
	if completes && s.CompletionTime != nil && was.CompletionTime != nil {
		errs = append(errs, field.Invalid(completion, s.CompletionTime, "field is immutable"))
	}
	suspended := j.Spec.Suspend != nil && *j.Spec.Suspend
	empty := suspended && j.Spec.Completions != nil && *j.Spec.Completions == 0
	if s.StartTime == nil && finished(j) && (starts || !finished(old)) && !empty {
		errs = append(errs, field.Required(start, "startTime is required for finished job"))
	}
	resumes := jobIs(old, batchv1.JobSuspended) && hasCondition(j, batchv1.JobSuspended, corev1.ConditionFalse)
	if starts && was.StartTime != nil && !suspended && !resumes {
		errs = append(errs, field.Invalid(start, s.StartTime, "field is immutable for unsuspended job once set"))
	}
	return errs
}

// jobCounters checks that the counters of pods agree, and that the counters of finished pods do not decrease.
func jobCounters(j, old *batchv1.Job) field.ErrorList {
	var errs field.ErrorList
	s, was := &j.Status, &old.Status
	at := func(name string) *field.Path { return fieldrules.Status.ChildField(name) }
	ends := finished(j) != finished(old)
	differs := func(a, b any) bool { return !equality.Semantic(a, b) }
	if s.Active > 0 && finished(j) && (ends || s.Active != was.Active) {
		errs = append(errs, field.Invalid(at("active"), s.Active, "active>0 is invalid for finished job"))
	}
	if s.Terminating != nil && *s.Terminating > 0 && finished(j) && (ends || differs(s.Terminating, was.Terminating)) {
		errs = append(errs, field.Invalid(at("terminating"), *s.Terminating, "terminating>0 is invalid for finished job"))
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Failed)+len(u.Succeeded) > 0 && finished(j) &&
		(ends || differs(u, was.UncountedTerminatedPods)) {
		errs = append(errs, field.Invalid(at("uncountedTerminatedPods"), fieldrules.Internal(u), "must be empty for finished job"))
	}
	if s.Ready != nil && *s.Ready > s.Active && (differs(s.Ready, was.Ready) || s.Active != was.Active) {
		errs = append(errs, field.Invalid(at("ready"), *s.Ready, "cannot set more ready pods than active"))
	}
	if s.Failed < was.Failed {
		errs = append(errs, field.Invalid(at("failed"), s.Failed, "cannot decrease the failed counter"))
	}
	// The completions of an elastic indexed job may be scaled down.
	elastic := indexed(&j.Spec) && !differs(j.Spec.Completions, j.Spec.Parallelism)
	if s.Succeeded < was.Succeeded && !elastic {
		errs = append(errs, field.Invalid(at("succeeded"), s.Succeeded, "cannot decrease the succeeded counter"))
	}
	return errs
}

// jobIndexes checks completedIndexes and failedIndexes.
func jobIndexes(j, old *batchv1.Job) field.ErrorList {
	var errs field.ErrorList
	s := &j.Status
	completed, failed := fieldrules.Status.ChildField("completedIndexes"), fieldrules.Status.ChildField("failedIndexes")
	if s.CompletedIndexes != old.Status.CompletedIndexes {
		if j.Spec.Completions != nil {
			if _, err := countIndexes(s.CompletedIndexes, *j.Spec.Completions); err != nil {
				errs = append(errs, field.Invalid(completed, s.CompletedIndexes, "error parsing completedIndexes: "+err.Error()))
			}
		}
		if s.CompletedIndexes != "" && !indexed(&j.Spec) {
			errs = append(errs, field.Invalid(completed, s.CompletedIndexes,
				"cannot set non-empty completedIndexes when non-indexed completion mode"))
		}
	}
	errs = append(errs, overlappingIndexes(j, old)...)
	if s.FailedIndexes == nil || equality.Semantic(s.FailedIndexes, old.Status.FailedIndexes) {
		return errs
	}
	if j.Spec.BackoffLimitPerIndex == nil {
		return append(errs, field.Invalid(failed, *s.FailedIndexes,
			"cannot set non-null failedIndexes when backoffLimitPerIndex is null"))
	}
	if j.Spec.Completions != nil {
		if _, err := countIndexes(*s.FailedIndexes, *j.Spec.Completions); err != nil {
			errs = append(errs, field.Invalid(failed, s.FailedIndexes, "error parsing failedIndexes: "+err.Error()))
		}
	}
	return errs
}

// overlappingIndexes checks that no index is both completed and failed.
//
//upstream:pkg/apis/batch/validation.validateFailedIndexesNotOverlapCompleted
func overlappingIndexes(j, old *batchv1.Job) field.ErrorList {
	s := &j.Status
	changed := s.CompletedIndexes != old.Status.CompletedIndexes || !equality.Semantic(s.FailedIndexes, old.Status.FailedIndexes)
	if !changed || j.Spec.Completions == nil || s.FailedIndexes == nil {
		return nil
	}
	completed, failed := validIntervals(s.CompletedIndexes, *j.Spec.Completions), validIntervals(*s.FailedIndexes, *j.Spec.Completions)
	for len(completed) > 0 && len(failed) > 0 {
		c, f := completed[0], failed[0]
		switch {
		case c.first <= f.last && f.first <= c.last:
			return field.ErrorList{field.Invalid(fieldrules.Status.ChildField("failedIndexes"), *s.FailedIndexes,
				fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", max(c.first, f.first)))}
		case c.first <= f.first:
			completed = completed[1:]
		default:
			failed = failed[1:]
		}
	}
	return nil
}
