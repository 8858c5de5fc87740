// Package batch describes the kinds of the batch API group.
package batch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
	"flyball.dev/apiserver/kinds/workload"
)

// Jobs describes the kind Job.
func Jobs() kinds.Kind {
	return kinds.Of[*batchv1.Job]{
		Type: &batchv1.Job{}, List: &batchv1.JobList{},
		Plural: "jobs", Categories: []string{"all"},
		Orphans:        true,
		BeforeDelete:   warnOfOrphans,
		Name:           fieldrules.NameIsSubdomain,
		Default:        defaultJob,
		Prepare:        PrepareJob,
		Validate:       ValidateJob,
		ValidateUpdate: validateJobUpdate,
		Status:         true,
		ValidateStatus: validateJobStatus,
		Generation:     true,
		Columns: slices.Concat([]metav1.TableColumnDefinition{
			columns.Column("Status", "string", "Whether the job runs, is done, or is suspended."),
			columns.Column("Completions", "string", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]),
			columns.Column("Duration", "string", "How long the job has run, or took."),
		}, workload.WideContainers),
		Row: jobRow,
		Fields: func(j *batchv1.Job) fields.Set {
			return fields.Set{"status.successful": fieldrules.Decimal(j.Status.Succeeded)}
		},
	}
}

// warnOfOrphans warns users who delete a job without a propagation policy that its pods stay.
func warnOfOrphans(ctx context.Context, _ string, options *metav1.DeleteOptions) error {
	//lint:ignore SA1019 clients may still send OrphanDependents
	if options == nil || options.PropagationPolicy == nil && options.OrphanDependents == nil {
		warning.AddWarning(ctx, "", "child pods are preserved by default when jobs are deleted; "+
			"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning")
	}
	return nil
}

const defaultBackoffLimit int32 = 6

func defaultJob(j *batchv1.Job) {
	s := &j.Spec
	if s.Completions == nil && s.Parallelism == nil {
		fieldrules.DefaultPointer(&s.Completions, 1)
	}
	fieldrules.DefaultPointer(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		fieldrules.DefaultPointer(&s.BackoffLimit, math.MaxInt32)
	}
	fieldrules.DefaultPointer(&s.BackoffLimit, defaultBackoffLimit)
	fieldrules.DefaultPointer(&s.CompletionMode, batchv1.NonIndexedCompletion)
	fieldrules.DefaultPointer(&s.Suspend, false)
	fieldrules.DefaultPointer(&s.ManualSelector, false)
	if s.PodFailurePolicy != nil {
		fieldrules.DefaultPointer(&s.PodReplacementPolicy, batchv1.Failed)
		defaultFailurePolicy(s.PodFailurePolicy)
	}
	fieldrules.DefaultPointer(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	if len(j.Labels) == 0 && len(s.Template.Labels) > 0 {
		j.Labels = s.Template.Labels
	}
	podspec.SetDefaults(&s.Template.Spec)
}

func defaultFailurePolicy(p *batchv1.PodFailurePolicy) {
	for i := range p.Rules {
		for j := range p.Rules[i].OnPodConditions {
			fieldrules.DefaultValue(&p.Rules[i].OnPodConditions[j].Status, corev1.ConditionTrue)
		}
	}
}

// PrepareJob sets a unique selector of a new job, and the labels that it selects in its template.
func PrepareJob(_ context.Context, j, old *batchv1.Job) {
	if old != nil || j.Spec.ManualSelector != nil && *j.Spec.ManualSelector {
		return
	}
	uid := string(j.UID)
	own := map[string]string{"controller-uid": uid, batchv1.ControllerUidLabel: uid, "job-name": j.Name,
		batchv1.JobNameLabel: j.Name}
	j.Spec.Template.Labels = labels.Merge(j.Spec.Template.Labels, own)
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{}}
	}
	if j.Spec.Selector.MatchLabels == nil {
		j.Spec.Selector.MatchLabels = map[string]string{}
	}
	j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = uid
}

// ValidateJob returns the errors of a job, on create and on update.
func ValidateJob(j *batchv1.Job) field.ErrorList {
	errs := jobSpec(&j.Spec, &fieldrules.Spec)
	s := j.Spec.Selector
	if s == nil {
		return append(errs, field.Required(fieldrules.Spec.ChildField("selector"), ""))
	}
	errs = append(errs, fieldrules.LabelSelector(s, &fieldrules.Spec, "selector")...)
	if selector, err := metav1.LabelSelectorAsSelector(s); err == nil &&
		!selector.Matches(labels.Set(j.Spec.Template.Labels)) {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("template").Child("metadata", "labels"),
			j.Spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	return errs
}

// jobSpec checks the specs of jobs and of the job templates of cron jobs.
func jobSpec(s *batchv1.JobSpec, fldPath *fieldrules.Path) field.ErrorList {
	errs := fieldrules.OptionalNonNegative(s.Parallelism, fldPath, "parallelism")
	errs = append(errs, fieldrules.OptionalNonNegative(s.Completions, fldPath, "completions")...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.ActiveDeadlineSeconds, fldPath, "activeDeadlineSeconds")...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.BackoffLimit, fldPath, "backoffLimit")...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.BackoffLimitPerIndex, fldPath, "backoffLimitPerIndex")...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.MaxFailedIndexes, fldPath, "maxFailedIndexes")...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.TTLSecondsAfterFinished, fldPath, "ttlSecondsAfterFinished")...)
	indexed := s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
	errs = append(errs, fieldrules.OptionalOneOf(s.CompletionMode, fldPath, "completionMode",
		batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)...)
	if indexed && s.Completions == nil {
		errs = append(errs, field.Required(fldPath.ChildField("completions"),
			fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion)))
	}
	if !indexed && s.BackoffLimitPerIndex != nil {
		errs = append(errs, field.Invalid(fldPath.ChildField("backoffLimitPerIndex"), *s.BackoffLimitPerIndex,
			"requires indexed completion mode"))
	}
	errs = append(errs, indexedLimits(s, fldPath)...)
	if s.PodFailurePolicy != nil {
		errs = append(errs, failurePolicy(s, fldPath.ChildField("podFailurePolicy"))...)
	}
	if s.SuccessPolicy != nil {
		if indexed && s.Completions != nil {
			errs = append(errs, successPolicy(s, fldPath.ChildField("successPolicy"))...)
		} else if !indexed {
			errs = append(errs, field.Invalid(fldPath.ChildField("successPolicy"), fieldrules.Internal(*s.SuccessPolicy),
				"requires indexed completion mode"))
		}
	}
	replacements := []batchv1.PodReplacementPolicy{batchv1.Failed}
	if s.PodFailurePolicy == nil {
		replacements = append(replacements, batchv1.TerminatingOrFailed)
	}
	errs = append(errs, fieldrules.OptionalOneOf(s.PodReplacementPolicy, fldPath, "podReplacementPolicy",
		replacements...)...)
	if s.ManagedBy != nil {
		errs = append(errs, fieldrules.QualifiedName(*s.ManagedBy, fldPath, "managedBy")...)
	}
	at := fldPath.Child("template")
	errs = append(errs, podspec.ValidateTemplate(&s.Template, &at)...)
	if p := s.Template.Spec.RestartPolicy; p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever {
		errs = append(errs, field.Required(at.ChildField("spec").Child("restartPolicy"),
			fmt.Sprintf("valid values: %q, %q", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)))
	} else if s.PodFailurePolicy != nil && p != corev1.RestartPolicyNever {
		errs = append(errs, field.Invalid(at.ChildField("spec").Child("restartPolicy"), p,
			fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever)))
	}
	return errs
}

func validateJobUpdate(j, old *batchv1.Job) field.ErrorList {
	now, was := &j.Spec, &old.Spec
	var errs field.ErrorList
	if elastic := now.CompletionMode != nil && *now.CompletionMode == batchv1.IndexedCompletion &&
		now.Completions != nil && now.Parallelism != nil && *now.Completions == *now.Parallelism; !elastic {
		errs = append(errs, fieldrules.Immutable(now.Completions, was.Completions, &fieldrules.Spec, "completions")...)
	}
	errs = append(errs, fieldrules.Immutable(now.Selector, was.Selector, &fieldrules.Spec, "selector")...)
	errs = append(errs, fieldrules.Immutable(now.CompletionMode, was.CompletionMode, &fieldrules.Spec,
		"completionMode")...)
	errs = append(errs, fieldrules.Immutable(now.PodFailurePolicy, was.PodFailurePolicy, &fieldrules.Spec,
		"podFailurePolicy")...)
	errs = append(errs, fieldrules.Immutable(now.BackoffLimitPerIndex, was.BackoffLimitPerIndex, &fieldrules.Spec,
		"backoffLimitPerIndex")...)
	errs = append(errs, fieldrules.Immutable(now.ManagedBy, was.ManagedBy, &fieldrules.Spec, "managedBy")...)
	errs = append(errs, fieldrules.Immutable(now.SuccessPolicy, was.SuccessPolicy, &fieldrules.Spec, "successPolicy")...)
	template := now.Template
	if suspended := was.Suspend != nil && *was.Suspend && old.Status.StartTime == nil; suspended {
		template = unscheduled(&now.Template, &was.Template)
	}
	if !apiequality.Semantic.DeepEqual(template, was.Template) {
		errs = append(errs, fieldrules.Immutable(template, was.Template, &fieldrules.Spec, "template")...)
	}
	return errs
}

// unscheduled returns the template with the fields that are mutable before a job starts reset to
// the old ones.
func unscheduled(now, was *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	t := *now.DeepCopy()
	t.Spec.NodeSelector, t.Spec.Tolerations = was.Spec.NodeSelector, was.Spec.Tolerations
	t.Spec.SchedulingGates = was.Spec.SchedulingGates
	t.Spec.Affinity = was.Spec.Affinity
	t.Labels, t.Annotations = was.Labels, was.Annotations
	return t
}

func validateJobStatus(j, old *batchv1.Job) field.ErrorList {
	s := &j.Status
	errs := workload.Counts(map[string]int32{"active": s.Active, "succeeded": s.Succeeded, "failed": s.Failed})
	errs = append(errs, fieldrules.OptionalNonNegative(s.Ready, &fieldrules.Status, "ready")...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.Terminating, &fieldrules.Status, "terminating")...)
	if s.UncountedTerminatedPods != nil {
		errs = append(errs, uncountedPods(s.UncountedTerminatedPods, fieldrules.Status.ChildField("uncountedTerminatedPods"))...)
	}
	if jobIs(j, batchv1.JobComplete) && jobIs(j, batchv1.JobFailed) {
		errs = append(errs, field.Invalid(fieldrules.Status.ChildField("conditions"), field.OmitValueType{},
			"cannot set Complete=True and Failed=true conditions"))
	}
	for _, end := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if jobIs(old, end) && !jobIs(j, end) {
			errs = append(errs, field.Invalid(fieldrules.Status.ChildField("conditions"), field.OmitValueType{},
				fmt.Sprintf("cannot disable the terminal %s=True condition", end)))
		}
	}
	return errs
}

func jobIs(j *batchv1.Job, kind batchv1.JobConditionType) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// jobRow returns the cells of a job in a table.
func jobRow(j *batchv1.Job) []any {
	completions := fmt.Sprintf("%d/1", j.Status.Succeeded)
	switch {
	case j.Spec.Completions != nil:
		completions = fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
	case j.Spec.Parallelism != nil && *j.Spec.Parallelism > 1:
		completions = fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, *j.Spec.Parallelism)
	}
	took := ""
	if start := j.Status.StartTime; start != nil {
		end := time.Now()
		if j.Status.CompletionTime != nil {
			end = j.Status.CompletionTime.Time
		}
		took = duration.HumanDuration(end.Sub(start.Time))
	}
	status := "Running"
	switch {
	case jobIs(j, batchv1.JobComplete):
		status = "Complete"
	case jobIs(j, batchv1.JobFailed):
		status = "Failed"
	case j.DeletionTimestamp != nil:
		status = "Terminating"
	case jobIs(j, batchv1.JobSuspended):
		status = "Suspended"
	case jobIs(j, batchv1.JobFailureTarget):
		status = "FailureTarget"
	case jobIs(j, batchv1.JobSuccessCriteriaMet):
		status = "SuccessCriteriaMet"
	}
	return append([]any{status, completions, took}, workload.WideContainerCells(&j.Spec.Template, j.Spec.Selector)...)
}
