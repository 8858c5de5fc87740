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
	"flyball.dev/apiserver/kinds/check"
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
		Name:           fieldrules.NameIsSubdomain,
		Default:        defaultCronJob,
		ValidateCreate: func(c *batchv1.CronJob) field.ErrorList { return validateCronJob(c, nil) },
		ValidateUpdate: validateCronJob,
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

// validateCronJob checks a CronJob. The old one is nil on create.
//
//upstream:pkg/apis/batch/validation.ValidateCronJobCreate
//upstream:pkg/apis/batch/validation.validateCronJobSpec
//upstream:pkg/apis/batch/validation.validateConcurrencyPolicy
//upstream:pkg/apis/batch/validation.ValidateJobTemplateSpec
func validateCronJob(c, old *batchv1.CronJob) (errs field.ErrorList) {
	object := check.Object(&errs)
	spec, s := object.Child("spec"), &c.Spec
	was := &batchv1.CronJobSpec{}
	var template *corev1.PodTemplateSpec
	if old != nil {
		was, template = &old.Spec, &old.Spec.JobTemplate.Spec.Template
	}
	schedule(spec.Child("schedule"), s, strings.Contains(was.Schedule, "TZ"))
	if z := s.TimeZone; z != nil && (was.TimeZone == nil || *was.TimeZone != *z) {
		timeZone(spec.Child("timeZone"), z)
	}
	check.NonNegative(spec.Child("startingDeadlineSeconds"), s.StartingDeadlineSeconds)
	check.OneOf(spec.Child("concurrencyPolicy"), s.ConcurrencyPolicy,
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	check.NonNegative(spec.Child("successfulJobsHistoryLimit"), s.SuccessfulJobsHistoryLimit)
	check.NonNegative(spec.Child("failedJobsHistoryLimit"), s.FailedJobsHistoryLimit)
	job := spec.Child("jobTemplate").Child("spec")
	if selector := s.JobTemplate.Spec.Selector; selector != nil {
		job.Child("selector").Invalid(selector, "`selector` will be auto-generated")
	}
	if manualSelector(&s.JobTemplate.Spec) {
		job.Child("manualSelector").NotSupported(true, "nil", "false")
	}
	jobSpec(job, &s.JobTemplate.Spec, template)
	if old == nil && len(c.Name) > maxCronJobName {
		object.Child("metadata").Child("name").Invalidf(c.Name, "must be no more than %d characters", maxCronJobName)
	}
	return errs
}

// schedule checks a schedule. It may name a time zone if the old schedule does.
//
//upstream:pkg/apis/batch/validation.validateScheduleFormat
func schedule(at check.Field, s *batchv1.CronJobSpec, zoned bool) {
	if s.Schedule == "" {
		at.Required("")
		return
	}
	if err := parseSchedule(s.Schedule); err != nil {
		at.Invalid(s.Schedule, err.Error())
	}
	switch {
	case !strings.Contains(s.Schedule, "TZ"):
	case !zoned:
		at.Invalid(s.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	case s.TimeZone != nil:
		at.Invalid(s.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
	}
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
func timeZone(at check.Field, name *string) {
	if *name == "" {
		at.Invalid(name, "timeZone must be nil or non-empty string")
		return
	}
	for part := range strings.SplitSeq(*name, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !timeZonePart.MatchString(part) {
			at.Invalid(name, "unknown time zone "+*name)
			return
		}
	}
	if strings.EqualFold(*name, "Local") {
		at.Invalid(name, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	}
	if _, err := time.LoadLocation(*name); err != nil {
		at.Invalid(name, err.Error())
	}
}
