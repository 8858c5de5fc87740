// Package batch describes the kinds of the batch API group.
package batch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
	"flyball.dev/apiserver/kinds/workload"
)

// Jobs describes the kind Job.
//
//upstream:pkg/registry/batch/job.jobStrategy
//upstream:pkg/registry/batch/job.jobStatusStrategy
//upstream:pkg/registry/batch/job.JobToSelectableFields
//upstream:pkg/registry/batch/job/storage.REST.Categories
func Jobs() kinds.Kind {
	return kinds.Of[*batchv1.Job]{
		Type: &batchv1.Job{}, List: &batchv1.JobList{},
		Plural: "jobs", Categories: []string{"all"},
		Orphans:        true,
		BeforeDelete:   warnOfOrphans,
		Name:           fieldrules.NameIsSubdomain,
		Default:        defaultJob,
		Prepare:        PrepareJob,
		ValidateCreate: func(j *batchv1.Job) field.ErrorList { return ValidateJob(j, nil) },
		ValidateUpdate: ValidateJob,
		Warnings: func(j, old *batchv1.Job) []string {
			return workload.Warnings(j, old, func() []string { return jobWarnings(&j.Spec, fieldrules.Spec.Field()) })
		},
		Status:         true,
		ValidateStatus: validateJobStatus,
		Generation:     true,
		Columns: slices.Concat([]metav1.TableColumnDefinition{
			columns.Column("Status", "string", "The state of the job."),
			columns.Column("Completions", "string", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]),
			columns.Column("Duration", "string", "The time the job has run, or took."),
		}, workload.WideContainers),
		Row: jobRow,
		Fields: func(j *batchv1.Job) fields.Set {
			return fields.Set{"status.successful": fieldrules.Decimal(j.Status.Succeeded)}
		},
	}
}

// warnOfOrphans warns about a deletion without a propagation policy: the default leaves the pods behind.
//
//upstream:pkg/registry/batch/job/storage.deleteOptionWarnings
//upstream:pkg/registry/batch/job/storage.REST.Delete
func warnOfOrphans(ctx context.Context, _ string, options *metav1.DeleteOptions) error {
	//lint:ignore SA1019 clients may still send OrphanDependents
	if options == nil || options.PropagationPolicy == nil && options.OrphanDependents == nil {
		warning.AddWarning(ctx, "", "child pods are preserved by default when jobs are deleted; "+
			"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning")
	}
	return nil
}

const defaultBackoffLimit int32 = 6

const maxManagedBy = 63

const requiresIndexed = "requires indexed completion mode"

//upstream:pkg/apis/batch/v1.SetDefaults_Job
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

//upstream:pkg/apis/batch/v1.SetDefaults_PodFailurePolicyOnPodConditionsPattern
func defaultFailurePolicy(p *batchv1.PodFailurePolicy) {
	for i := range p.Rules {
		for j := range p.Rules[i].OnPodConditions {
			fieldrules.DefaultValue(&p.Rules[i].OnPodConditions[j].Status, corev1.ConditionTrue)
		}
	}
}

// PrepareJob generates the selector of a new job, and adds the labels that it selects to the template.
//
//upstream:pkg/registry/batch/job.jobStrategy.PrepareForCreate
//upstream:pkg/registry/batch/job.jobStrategy.PrepareForUpdate
//upstream:pkg/registry/batch/job.generateSelector
func PrepareJob(_ context.Context, j, old *batchv1.Job) {
	if old != nil || manualSelector(&j.Spec) {
		return
	}
	uid := string(j.UID)
	own := generatedLabels(j)
	j.Spec.Template.Labels = labels.Merge(own, j.Spec.Template.Labels)
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{}}
	}
	if j.Spec.Selector.MatchLabels == nil {
		j.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, ok := j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !ok {
		j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = uid
	}
}

// jobWarnings returns the warnings for the spec of a job, or of the jobs of a CronJob.
//
//upstream:pkg/api/job.WarningsForJobSpec
func jobWarnings(s *batchv1.JobSpec, path *field.Path) []string {
	var warnings []string
	if indexed(s) && s.Completions != nil && *s.Completions > manyCompletions &&
		s.Parallelism != nil && *s.Parallelism > maxManyParallelism {
		warnings = append(warnings, path.String()+": In Indexed Jobs with a number of completions higher than 10^5 and a "+
			"parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return append(warnings, podspec.Warnings(&s.Template.ObjectMeta, &s.Template.Spec, path.Child("template"))...)
}

// ValidateJob checks a job. The old job is nil on create.
//
//upstream:pkg/apis/batch/validation.ValidateJobCreate
//upstream:pkg/apis/batch/validation.ValidateJobUpdate
func ValidateJob(j, old *batchv1.Job) (errs field.ErrorList) {
	object := check.Object(&errs)
	spec := object.Child("spec")
	if old == nil {
		jobSpec(spec, &j.Spec, nil)
	} else {
		jobSpec(spec, &j.Spec, &old.Spec.Template)
	}
	lastPodName(object.Child("metadata").Child("name"), j)
	jobSelector(spec, j, old)
	if old == nil {
		generatedSelector(spec, j)
	} else {
		jobUpdate(spec, j, old)
	}
	return errs
}

// lastPodName checks that the hostname of the pod with the highest index is a DNS label.
//
//upstream:pkg/apis/batch/validation.validateNameAllowsCompletions
func lastPodName(at check.Field, j *batchv1.Job) {
	if !indexed(&j.Spec) || j.Spec.Completions == nil || *j.Spec.Completions <= 0 {
		return
	}
	last := fmt.Sprintf("%s-%d", j.Name, *j.Spec.Completions-1)
	if len(validation.IsDNS1123Label(last)) > 0 {
		at.Invalid(j.Name, "will not able to create pod with invalid DNS label: "+last)
	}
}

// jobSelector checks that the selector is valid and selects the pods.
//
//upstream:pkg/apis/batch/validation.ValidateJobSpec
func jobSelector(spec check.Field, j, old *batchv1.Job) {
	at, s := spec.Child("selector"), j.Spec.Selector
	var options metav1validation.LabelSelectorValidationOptions
	if old != nil {
		options.AllowInvalidLabelValueInSelector = metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector)
	}
	if s == nil {
		at.Required("")
	} else {
		at.Report(metav1validation.ValidateLabelSelector(s, options, at.Path.Field())...)
	}
	if selector, err := metav1.LabelSelectorAsSelector(s); err == nil && !selector.Matches(labels.Set(j.Spec.Template.Labels)) {
		spec.Child("template").Child("metadata").Child("labels").Invalid(j.Spec.Template.Labels, "`selector` does not match template `labels`")
	}
}

// generatedSelector checks that the selector and the labels of the template are the generated ones, unless the
// selector is manual.
//
//upstream:pkg/apis/batch/validation.validateGeneratedSelector
func generatedSelector(spec check.Field, j *batchv1.Job) {
	if j.Spec.Selector == nil || manualSelector(&j.Spec) {
		return
	}
	own, has := generatedLabels(j), j.Spec.Template.Labels
	// A job from before Kubernetes 1.27 may lack the labels with a prefix.
	_, named := has[batchv1.JobNameLabel]
	_, controlled := has[batchv1.ControllerUidLabel]
	set := spec.Child("template").Child("metadata").Child("labels")
	for _, key := range fieldrules.SortedKeys(own) {
		at, must := set.Key(key), own[key]
		value, ok := has[key]
		switch {
		case !ok && strings.Contains(key, "/") && !(named && controlled):
		case !ok:
			at.Required("must be '" + must + "'")
		case value != must:
			at.Invalid(has, "must be '"+must+"'")
		}
	}
	if s, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !s.Matches(labels.Set(own)) {
		spec.Child("selector").Invalid(*j.Spec.Selector, "`selector` not auto-generated")
	}
}

func manualSelector(s *batchv1.JobSpec) bool { return s.ManualSelector != nil && *s.ManualSelector }

// generatedLabels returns the labels of the pods of a job without a manual selector.
func generatedLabels(j *batchv1.Job) map[string]string {
	uid := string(j.UID)
	return map[string]string{"controller-uid": uid, batchv1.ControllerUidLabel: uid, "job-name": j.Name,
		batchv1.JobNameLabel: j.Name}
}

// jobSpec checks the spec of a Job, or of the jobs of a CronJob. The old template is nil on create.
//
//upstream:pkg/apis/batch/validation.validateJobSpec
//upstream:pkg/apis/batch/validation.validatePodReplacementPolicy
func jobSpec(at check.Field, s *batchv1.JobSpec, old *corev1.PodTemplateSpec) {
	check.NonNegative(at.Child("parallelism"), s.Parallelism)
	check.NonNegative(at.Child("completions"), s.Completions)
	check.NonNegative(at.Child("activeDeadlineSeconds"), s.ActiveDeadlineSeconds)
	check.NonNegative(at.Child("backoffLimit"), s.BackoffLimit)
	check.NonNegative(at.Child("backoffLimitPerIndex"), s.BackoffLimitPerIndex)
	check.NonNegative(at.Child("maxFailedIndexes"), s.MaxFailedIndexes)
	check.NonNegative(at.Child("ttlSecondsAfterFinished"), s.TTLSecondsAfterFinished)
	check.OptionalOneOf(at.Child("completionMode"), s.CompletionMode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	if indexed(s) && s.Completions == nil {
		at.Child("completions").Required("when completion mode is Indexed")
	}
	if nonIndexed(s) && s.BackoffLimitPerIndex != nil {
		at.Child("backoffLimitPerIndex").Invalid(*s.BackoffLimitPerIndex, requiresIndexed)
	}
	indexedLimits(at, s)
	if s.PodFailurePolicy != nil {
		failurePolicy(at.Child("podFailurePolicy"), s)
	}
	switch policy := at.Child("successPolicy"); {
	case s.SuccessPolicy == nil:
	case !indexed(s):
		policy.Invalid(fieldrules.Internal(*s.SuccessPolicy), requiresIndexed)
	case s.Completions != nil || len(s.SuccessPolicy.Rules) == 0: // kube-apiserver crashes on rules without completions
		successPolicy(policy, s)
	}
	replacements := []batchv1.PodReplacementPolicy{batchv1.Failed}
	if s.PodFailurePolicy == nil {
		replacements = append(replacements, batchv1.TerminatingOrFailed)
	}
	check.OptionalOneOf(at.Child("podReplacementPolicy"), s.PodReplacementPolicy, replacements...)
	if s.ManagedBy != nil {
		managedBy(at.Child("managedBy"), *s.ManagedBy)
	}
	template := at.Child("template")
	podspec.ValidateTemplate(template, &s.Template, old)
	jobRestartPolicy(template.Child("spec").Child("restartPolicy"), s)
}

func managedBy(at check.Field, name string) {
	at.Report(validation.IsDomainPrefixedPath(at.Path.Field(), name)...)
	if len(name) > maxManagedBy {
		at.TooLong(maxManagedBy)
	}
}

func indexed(s *batchv1.JobSpec) bool {
	return s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
}

func nonIndexed(s *batchv1.JobSpec) bool {
	return s.CompletionMode == nil || *s.CompletionMode == batchv1.NonIndexedCompletion
}

func jobRestartPolicy(at check.Field, s *batchv1.JobSpec) {
	switch p := s.Template.Spec.RestartPolicy; {
	case p == corev1.RestartPolicyAlways || p == "":
		at.Required(`valid values: "OnFailure", "Never"`)
	case p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever:
		at.NotSupported(p, "OnFailure", "Never")
	case s.PodFailurePolicy != nil && p != corev1.RestartPolicyNever:
		at.Invalid(p, `only "Never" is supported when podFailurePolicy is specified`)
	}
}

// jobUpdate checks the immutable fields. The scheduling and the resources of the template are mutable while the job is suspended and has
// no pods.
//
//upstream:pkg/apis/batch/validation.ValidateJobSpecUpdate
//upstream:pkg/apis/batch/validation.validatePodTemplateUpdate
func jobUpdate(spec check.Field, j, old *batchv1.Job) {
	now, was := &j.Spec, &old.Spec
	jobCompletions(spec.Child("completions"), now, was)
	check.Immutable(spec.Child("selector"), now.Selector, was.Selector)
	check.Immutable(spec.Child("completionMode"), now.CompletionMode, was.CompletionMode)
	check.ImmutableStruct(spec.Child("podFailurePolicy"), now.PodFailurePolicy, was.PodFailurePolicy)
	check.Immutable(spec.Child("backoffLimitPerIndex"), now.BackoffLimitPerIndex, was.BackoffLimitPerIndex)
	check.Immutable(spec.Child("managedBy"), now.ManagedBy, was.ManagedBy)
	check.ImmutableStruct(spec.Child("successPolicy"), now.SuccessPolicy, was.SuccessPolicy)
	template := spec.Child("template")
	if !podsMutable(old) {
		check.ImmutableStruct(template, &now.Template, &was.Template)
	} else if t := unscheduled(&now.Template, &was.Template); !equality.Semantic(&t.Spec, &was.Template.Spec) {
		check.ImmutableStruct(template.Child("spec"), &now.Template.Spec, &was.Template.Spec)
	}
}

// jobCompletions checks that only an indexed job changes its completions, together with its parallelism.
//
//upstream:pkg/apis/batch/validation.validateCompletions
func jobCompletions(at check.Field, now, was *batchv1.JobSpec) {
	switch {
	case !indexed(now):
		check.Immutable(at, now.Completions, was.Completions)
	case now.Completions == nil || equality.Semantic(now.Completions, was.Completions) || *now.Completions == *now.Parallelism:
	default:
		at.Invalid(*now.Completions, "can only be modified in tandem with spec.parallelism")
	}
}

// podsMutable reports whether a job is suspended and has no pods, so that the resources and the scheduling of
// its pods are mutable.
//
//upstream:pkg/registry/batch/job.validationOptionsForJob
//upstream:pkg/registry/batch/job.shouldAllowMutablePodTemplate
func podsMutable(j *batchv1.Job) bool {
	return j.Spec.Suspend != nil && *j.Spec.Suspend && j.Status.Active == 0 &&
		(j.Status.StartTime == nil || jobIs(j, batchv1.JobSuspended))
}

// unscheduled returns the new template with the mutable fields of the old one.
//
//upstream:pkg/apis/batch/validation.validatePodTemplateUpdate
func unscheduled(now, was *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	t := *now.DeepCopy()
	t.Spec.NodeSelector, t.Spec.Tolerations = was.Spec.NodeSelector, was.Spec.Tolerations
	t.Spec.SchedulingGates = was.Spec.SchedulingGates
	t.Spec.Affinity = withNodeAffinity(t.Spec.Affinity, was.Spec.Affinity)
	resetResources(t.Spec.Containers, was.Spec.Containers)
	resetResources(t.Spec.InitContainers, was.Spec.InitContainers)
	t.Labels, t.Annotations = was.Labels, was.Annotations
	return t
}

// withNodeAffinity returns the new affinity with the node affinity of the old one.
func withNodeAffinity(now, was *corev1.Affinity) *corev1.Affinity {
	var affinity corev1.Affinity
	if now != nil {
		affinity = *now
	}
	affinity.NodeAffinity = nil
	if was != nil {
		affinity.NodeAffinity = was.NodeAffinity
	}
	if affinity == (corev1.Affinity{}) {
		return nil
	}
	return &affinity
}

// resetResources sets the old resources in containers that are neither new nor renamed.
//
//upstream:pkg/apis/batch/validation.validatePodResourceUpdatesOnly
func resetResources(now, was []corev1.Container) {
	for i := range now {
		if len(now) == len(was) && now[i].Name == was[i].Name {
			now[i].Resources = was[i].Resources
		}
	}
}

//upstream:pkg/printers/internalversion.printJob
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
