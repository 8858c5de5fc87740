package batch

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
	"flyball.dev/apiserver/kinds/workload"
)

// maxCronJobName leaves room for the suffix in the name of a job.
const maxCronJobName = 63 - 11

// CronJobs describes the kind CronJob. With old, batch/v1beta1 is served too.
//
//upstream:pkg/registry/batch/cronjob.cronJobStrategy
//upstream:pkg/registry/batch/cronjob.cronJobStatusStrategy
//upstream:pkg/printers/internalversion.printCronJob
//upstream:pkg/registry/batch/cronjob/storage.REST.ShortNames
//upstream:pkg/registry/batch/cronjob/storage.REST.Categories
func CronJobs(old bool) kinds.Kind {
	k := kinds.Of[*batchv1.CronJob]{
		Type: &batchv1.CronJob{}, List: &batchv1.CronJobList{},
		Plural: "cronjobs", ShortNames: []string{"cj"}, Categories: []string{"all"},
		Name:    fieldrules.NameIsSubdomain,
		Default: defaultCronJob,
		ValidateCreate: func(c *batchv1.CronJob) field.ErrorList {
			errs := validateCronJob(c, nil)
			if len(c.Name) > maxCronJobName {
				errs = append(errs, field.Invalid(fieldrules.Metadata.ChildField("name"), c.Name,
					fmt.Sprintf("must be no more than %d characters", maxCronJobName)))
			}
			return errs
		},
		ValidateUpdate: func(c, old *batchv1.CronJob) field.ErrorList { return validateCronJob(c, &old.Spec) },
		Warnings:       cronJobWarnings,
		Status:         true,
		Generation:     true,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Schedule", "string", batchv1.CronJobSpec{}.SwaggerDoc()["schedule"]),
			columns.Column("Timezone", "string", batchv1.CronJobSpec{}.SwaggerDoc()["timeZone"]),
			columns.Column("Suspend", "boolean", batchv1.CronJobSpec{}.SwaggerDoc()["suspend"]),
			columns.Column("Active", "integer", batchv1.CronJobStatus{}.SwaggerDoc()["active"]),
			columns.Column("Last Schedule", "string", batchv1.CronJobStatus{}.SwaggerDoc()["lastScheduleTime"]),
			workload.WideContainers[0], workload.WideContainers[1], workload.WideContainers[2],
		},
		Row: func(c *batchv1.CronJob) []any {
			zone, last := columns.None, columns.None
			if c.Spec.TimeZone != nil {
				zone = *c.Spec.TimeZone
			}
			if c.Status.LastScheduleTime != nil {
				last = columns.Age(*c.Status.LastScheduleTime)
			}
			job := &c.Spec.JobTemplate.Spec
			suspended := "<unset>"
			if c.Spec.Suspend != nil {
				suspended = map[bool]string{true: "True", false: "False"}[*c.Spec.Suspend]
			}
			return append([]any{c.Spec.Schedule, zone, suspended,
				int64(len(c.Status.Active)), last}, workload.WideContainerCells(&job.Template, job.Selector)...)
		},
	}
	if old {
		k.AlsoServed = removed
	}
	return k
}

//upstream:pkg/apis/batch/v1.SetDefaults_CronJob
func defaultCronJob(c *batchv1.CronJob) {
	s := &c.Spec
	fieldrules.DefaultValue(&s.ConcurrencyPolicy, batchv1.AllowConcurrent)
	fieldrules.DefaultPointer(&s.Suspend, false)
	fieldrules.DefaultPointer(&s.SuccessfulJobsHistoryLimit, 3)
	fieldrules.DefaultPointer(&s.FailedJobsHistoryLimit, 1)
	podspec.SetDefaults(&s.JobTemplate.Spec.Template.Spec)
	if p := s.JobTemplate.Spec.PodFailurePolicy; p != nil {
		defaultFailurePolicy(p)
	}
}

//upstream:pkg/registry/batch/cronjob.cronJobStrategy.WarningsOnCreate
//upstream:pkg/registry/batch/cronjob.cronJobStrategy.WarningsOnUpdate
func cronJobWarnings(c, old *batchv1.CronJob) []string {
	warnings := workload.Warnings(c, old, func() []string {
		return jobWarnings(&c.Spec.JobTemplate.Spec, fieldrules.Spec.ChildField("jobTemplate").Child("spec"))
	})
	if old != nil && strings.Contains(c.Spec.Schedule, "TZ") {
		warnings = append(warnings, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, "+
			"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	}
	return warnings
}

//upstream:pkg/apis/batch/validation.ValidateCronJobCreate
//upstream:pkg/apis/batch/validation.validateCronJobSpec
//upstream:pkg/apis/batch/validation.validateScheduleFormat
//upstream:pkg/apis/batch/validation.validateConcurrencyPolicy
//upstream:pkg/apis/batch/validation.ValidateJobTemplateSpec
func validateCronJob(c *batchv1.CronJob, old *batchv1.CronJobSpec) field.ErrorList {
	s := &c.Spec
	var errs field.ErrorList
	if s.Schedule == "" {
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("schedule"), ""))
	} else {
		errs = append(errs, schedule(s, old != nil && strings.Contains(old.Schedule, "TZ"))...)
	}
	if z := s.TimeZone; z != nil && (old == nil || old.TimeZone == nil || *old.TimeZone != *z) {
		errs = append(errs, timeZone(z)...)
	}
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.JobTemplate.Spec.Template
	}
	errs = append(errs, fieldrules.OptionalNonNegative(s.StartingDeadlineSeconds, &fieldrules.Spec,
		"startingDeadlineSeconds")...)
	errs = append(errs, fieldrules.OneOf(s.ConcurrencyPolicy, &fieldrules.Spec, "concurrencyPolicy",
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.SuccessfulJobsHistoryLimit, &fieldrules.Spec,
		"successfulJobsHistoryLimit")...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.FailedJobsHistoryLimit, &fieldrules.Spec,
		"failedJobsHistoryLimit")...)
	template := fieldrules.Spec.Child("jobTemplate")
	at := template.Child("spec")
	if selector := s.JobTemplate.Spec.Selector; selector != nil {
		errs = append(errs, field.Invalid(at.ChildField("selector"), selector, "`selector` will be auto-generated"))
	}
	if s.JobTemplate.Spec.ManualSelector != nil && *s.JobTemplate.Spec.ManualSelector {
		errs = append(errs, field.NotSupported(at.ChildField("manualSelector"), true, []string{"nil", "false"}))
	}
	return append(errs, jobSpec(&s.JobTemplate.Spec, was, &at)...)
}

// schedule checks a schedule. It may name a time zone if the old schedule does.
//
//upstream:pkg/apis/batch/validation.validateScheduleFormat
func schedule(s *batchv1.CronJobSpec, zoned bool) field.ErrorList {
	var errs field.ErrorList
	at := fieldrules.Spec.ChildField("schedule")
	if err := parseSchedule(s.Schedule); err != nil {
		errs = append(errs, field.Invalid(at, s.Schedule, err.Error()))
	}
	switch {
	case !strings.Contains(s.Schedule, "TZ"):
	case !zoned:
		errs = append(errs, field.Invalid(at, s.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case s.TimeZone != nil:
		errs = append(errs, field.Invalid(at, s.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

// parseSchedule returns the error of a schedule. The library panics on some.
//
//upstream:pkg/util/parsers.ParseCronScheduleWithPanicRecovery
func parseSchedule(text string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("invalid schedule format: %v", p)
		}
	}()
	_, err = cron.ParseStandard(text)
	return err
}

// timeZonePart matches an element of the name of a time zone.
var timeZonePart = regexp.MustCompile(`^[A-Za-z\.\-_0-9+]{1,14}$`)

// timeZone checks the name of a time zone.
//
//upstream:pkg/apis/batch/validation.validateTimeZone
func timeZone(name *string) field.ErrorList {
	at := fieldrules.Spec.ChildField("timeZone")
	if *name == "" {
		return field.ErrorList{field.Invalid(at, name, "timeZone must be nil or non-empty string")}
	}
	for part := range strings.SplitSeq(*name, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !timeZonePart.MatchString(part) {
			return field.ErrorList{field.Invalid(at, name, "unknown time zone "+*name)}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(*name, "Local") {
		errs = append(errs, field.Invalid(at, name, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(*name); err != nil {
		errs = append(errs, field.Invalid(at, name, err.Error()))
	}
	return errs
}
