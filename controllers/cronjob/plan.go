package cronjob

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/jobstate"
)

// nextScheduleDelta is added to the delay until the next Job, so that a slow clock does not wake the controller early.
//
//upstream:pkg/controller/cronjob.nextScheduleDelta
const nextScheduleDelta = 100 * time.Millisecond

// plan is the next change of a CronJob.
type plan struct {
	// status is the status before the other changes.
	status batchv1.CronJobStatus
	events []event
	// cleanup are the finished Jobs beyond the history limits, and replaced are the Jobs that the new Job replaces.
	// All of them are deleted.
	cleanup, replaced []*batchv1.Job
	// create is the Job to start, or nil. It was due at the time scheduled.
	create    *batchv1.Job
	scheduled time.Time
	// after is the time until the next Job, or zero.
	after time.Duration
}

// event is an event about a CronJob.
type event struct{ kind, reason, message string }

func (p *plan) event(kind, reason, format string, args ...any) {
	p.events = append(p.events, event{kind, reason, fmt.Sprintf(format, args...)})
}

// planFor returns the plan for a CronJob. jobs are the Jobs that it owns or that are active in its status. An active
// Job that is not in jobs does not exist. changed is the time at which the schedule was changed, or zero. planFor does
// not change the arguments.
//
//upstream:pkg/controller/cronjob.ControllerV2.syncCronJob
//upstream:pkg/controller/cronjob.ControllerV2.cleanupFinishedJobs
func planFor(cj *batchv1.CronJob, jobs []*batchv1.Job, changed, now time.Time) *plan {
	p := &plan{status: *cj.Status.DeepCopy()}
	owned := slices.DeleteFunc(slices.Clone(jobs), func(j *batchv1.Job) bool { return !metav1.IsControlledBy(j, cj) })
	p.cleanup = append(beyondLimit(owned, batchv1.JobComplete, cj.Spec.SuccessfulJobsHistoryLimit),
		beyondLimit(owned, batchv1.JobFailed, cj.Spec.FailedJobsHistoryLimit)...)
	for _, job := range p.cleanup {
		p.status.Active = slices.DeleteFunc(p.status.Active, func(r corev1.ObjectReference) bool { return r.UID == job.UID })
	}
	for _, job := range jobs {
		p.observe(cj, job)
	}
	p.status.Active = slices.DeleteFunc(p.status.Active, func(ref corev1.ObjectReference) bool {
		exists := slices.ContainsFunc(jobs, func(j *batchv1.Job) bool { return j.UID == ref.UID })
		if !exists {
			p.event(corev1.EventTypeNormal, "MissingJob", "Active job went missing: %v", ref.Name)
		}
		return !exists
	})
	if cj.DeletionTimestamp == nil && p.zoneKnown(cj) && (cj.Spec.Suspend == nil || !*cj.Spec.Suspend) {
		p.start(cj, jobs, changed, now)
	}
	return p
}

// observe updates the status for one Job. If the status lacks a Job of the schedule, the controller has stopped, or
// failed to update the status, after it created the Job.
//
//upstream:pkg/controller/cronjob.ControllerV2.syncCronJob
func (p *plan) observe(cj *batchv1.CronJob, job *batchv1.Job) {
	scheduled, own := scheduledTime(cj, job)
	if own && (p.status.LastScheduleTime == nil || scheduled.After(p.status.LastScheduleTime.Time)) {
		p.status.LastScheduleTime = &metav1.Time{Time: scheduled}
	}
	active := isActive(&p.status, job.UID)
	finished := jobstate.Finished(job)
	switch {
	case finished == nil && !active && own:
		p.status.Active = append(p.status.Active, reference(job))
	case finished == nil && !active:
		p.event(corev1.EventTypeWarning, "UnexpectedJob",
			"Saw a job that the controller did not create or forgot: %s", job.Name)
	case finished != nil && active:
		p.status.Active = slices.DeleteFunc(p.status.Active, func(r corev1.ObjectReference) bool { return r.UID == job.UID })
		p.event(corev1.EventTypeNormal, "SawCompletedJob", "Saw completed job: %s, condition: %v", job.Name, finished.Type)
	}
	if finished != nil && finished.Type == batchv1.JobComplete && job.Status.CompletionTime != nil &&
		(p.status.LastSuccessfulTime == nil || p.status.LastSuccessfulTime.Before(job.Status.CompletionTime)) {
		p.status.LastSuccessfulTime = job.Status.CompletionTime
	}
}

// start adds the Job that is due, if any, and the time until the next one.
//
//upstream:pkg/controller/cronjob.ControllerV2.syncCronJob
func (p *plan) start(cj *batchv1.CronJob, jobs []*batchv1.Job, changed, now time.Time) {
	s, ok := p.schedule(cj)
	if !ok {
		return
	}
	due := p.due(cj, s, changed, now)
	if due.IsZero() {
		return
	}
	switch active := len(p.status.Active) > 0; {
	case active && cj.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent:
		p.event(corev1.EventTypeNormal, "JobAlreadyActive",
			"Not starting job because prior execution is running and concurrency policy is Forbid")
		return
	case active && cj.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent:
		for _, job := range jobs {
			if isActive(&p.status, job.UID) {
				p.replaced = append(p.replaced, job)
			}
		}
		p.status.Active = nil
	}
	p.create, p.scheduled = newJob(cj, due, s.zone), due
}

// zoneKnown reports whether the time zone of a CronJob exists, and adds an event if it does not.
//
//upstream:pkg/controller/cronjob.ControllerV2.syncCronJob
func (p *plan) zoneKnown(cj *batchv1.CronJob) bool {
	zone := cj.Spec.TimeZone
	if zone == nil {
		return true
	}
	_, err := time.LoadLocation(*zone)
	if err != nil {
		p.event(corev1.EventTypeWarning, "UnknownTimeZone", "invalid timeZone: %q: %s", *zone, err)
	}
	return err == nil
}

// schedule returns the schedule of a CronJob, or false and adds an event if it is invalid.
//
//upstream:pkg/controller/cronjob.formatSchedule
func (p *plan) schedule(cj *batchv1.CronJob) (s schedule, ok bool) {
	s, err := parseSchedule(cj)
	if err != nil {
		p.event(corev1.EventTypeWarning, "UnparseableSchedule", "unparseable schedule: %q : %s", cj.Spec.Schedule, err)
		return schedule{}, false
	}
	return s, true
}

// due returns the last time of the schedule without a Job, or the zero time if there is none, it is too late to start
// one, or the schedule has changed since. It sets the time until the next Job. The times of an "@every" schedule count from the last
// Job, and with a deadline from the deadline.
//
//upstream:pkg/controller/cronjob.nextScheduleTime
//upstream:pkg/controller/cronjob.mostRecentScheduleTime
func (p *plan) due(cj *batchv1.CronJob, s schedule, changed, now time.Time) time.Time {
	since := cj.CreationTimestamp.Time
	if p.status.LastScheduleTime != nil {
		since = p.status.LastScheduleTime.Time
	}
	last, err := s.last(since, now)
	if err != nil {
		p.event(corev1.EventTypeWarning, "InvalidSchedule", "invalid schedule: %s : %s", cj.Spec.Schedule, err)
		return time.Time{}
	}
	p.after = s.untilNext(since, last, now)
	earliest, due := since, last
	if deadline := cj.Spec.StartingDeadlineSeconds; deadline != nil {
		if t := now.Add(-time.Duration(*deadline) * time.Second); t.After(since) {
			earliest = t
			if due, err = s.last(earliest, now); err != nil {
				return time.Time{}
			}
		}
	}
	if due.IsZero() || !due.After(changed) {
		return time.Time{}
	}
	if changed.After(earliest) {
		earliest = changed
	}
	if s.tooManyMissed(earliest, now) {
		p.event(corev1.EventTypeWarning, "TooManyMissedTimes",
			"too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	return due
}

// untilNext returns the time until the next time of the schedule, or zero if there is none. due is the last time after
// since, or zero.
//
//upstream:pkg/controller/cronjob.nextScheduleTimeDuration
func (s schedule) untilNext(since, due, now time.Time) time.Duration {
	if due.IsZero() {
		due = since
	}
	next := s.Next(due)
	if next.IsZero() {
		return 0
	}
	return next.Add(nextScheduleDelta).Sub(now)
}

// isActive reports whether a Job is active in the status.
//
//upstream:pkg/controller/cronjob.inActiveList
func isActive(s *batchv1.CronJobStatus, uid types.UID) bool {
	return slices.ContainsFunc(s.Active, func(r corev1.ObjectReference) bool { return r.UID == uid })
}

// beyondLimit returns the oldest Jobs with the condition end, beyond a limit.
//
//upstream:pkg/controller/cronjob.ControllerV2.removeOldestJobs
func beyondLimit(jobs []*batchv1.Job, end batchv1.JobConditionType, limit *int32) []*batchv1.Job {
	if limit == nil {
		return nil
	}
	var finished []*batchv1.Job
	for _, job := range jobs {
		if c := jobstate.Finished(job); c != nil && c.Type == end && job.DeletionTimestamp == nil {
			finished = append(finished, job)
		}
	}
	slices.SortFunc(finished, func(a, b *batchv1.Job) int {
		return cmp.Or(compareTimes(a.Status.StartTime, b.Status.StartTime), cmp.Compare(a.Name, b.Name))
	})
	return finished[:max(0, len(finished)-int(*limit))]
}

// compareTimes orders times. nil is the latest.
//
//upstream:pkg/controller/cronjob.byJobStartTime
func compareTimes(a, b *metav1.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(b.Time)
}

// jobName returns the name of the Job for a time. The name is unique, so the Job cannot be created twice.
//
//upstream:pkg/controller/cronjob.getJobName
func jobName(cj *batchv1.CronJob, scheduled time.Time) string {
	return fmt.Sprintf("%s-%d", cj.Name, scheduled.Unix()/60)
}

// scheduledTime returns the time of a Job in the schedule. own reports whether the controller has created the Job.
func scheduledTime(cj *batchv1.CronJob, job *batchv1.Job) (at time.Time, own bool) {
	at, err := time.Parse(time.RFC3339, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	return at, err == nil && metav1.IsControlledBy(job, cj) && job.Name == jobName(cj, at)
}

// newJob returns the Job for a time. The time is annotated in the time zone of the schedule.
//
//upstream:pkg/controller/cronjob.getJobFromTemplate2
func newJob(cj *batchv1.CronJob, scheduled time.Time, zone *time.Location) *batchv1.Job {
	t := cj.Spec.JobTemplate.DeepCopy()
	annotations := maps.Clone(t.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = scheduled.In(zone).Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       cj.Namespace,
			Name:            jobName(cj, scheduled),
			Labels:          t.Labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cj, kind)},
		},
		Spec: t.Spec,
	}
}

// reference returns a reference to a Job, for the status.
//
//upstream:pkg/controller/cronjob.getRef
func reference(job *batchv1.Job) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: job.Namespace, Name: job.Name,
		UID: job.UID, ResourceVersion: job.ResourceVersion,
	}
}
