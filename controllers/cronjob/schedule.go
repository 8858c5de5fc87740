package cronjob

import (
	"errors"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
)

// schedule is when a CronJob starts a Job.
type schedule struct {
	cron.Schedule
	zone *time.Location
}

// parseSchedule returns the schedule of a CronJob. A schedule without a time zone is in the local
// one.
//
//upstream:pkg/controller/cronjob.formatSchedule
func parseSchedule(cj *batchv1.CronJob) (schedule, error) {
	if strings.Contains(cj.Spec.Schedule, "TZ") {
		return schedule{}, errors.New("the time zone must be in timeZone")
	}
	zone := time.Local
	if cj.Spec.TimeZone != nil {
		var err error
		if zone, err = time.LoadLocation(*cj.Spec.TimeZone); err != nil {
			return schedule{}, err
		}
	}
	parsed, err := cron.ParseStandard(cj.Spec.Schedule)
	if err != nil {
		return schedule{}, err
	}
	if fields, ok := parsed.(*cron.SpecSchedule); ok {
		fields.Location = zone
	}
	return schedule{parsed, zone}, nil
}

// errNever is the error for a schedule such as the 31st of February.
var errNever = errors.New("it never occurs")

// last returns the last time of the schedule that is after since and not after now, or the zero
// time if there is none.
//
//upstream:pkg/controller/cronjob.mostRecentScheduleTime
func (s schedule) last(since, now time.Time) (time.Time, error) {
	first := s.Next(since)
	if first.IsZero() {
		return time.Time{}, errNever
	}
	if first.After(now) {
		return time.Time{}, nil
	}
	if every, ok := s.Schedule.(cron.ConstantDelaySchedule); ok {
		return first.Add(now.Sub(first) / every.Delay * every.Delay), nil
	}
	// The next time after low is not after now, and that after high is.
	low, high := since, now
	for high.Sub(low) > time.Second {
		middle := low.Add(high.Sub(low) / 2)
		if t := s.Next(middle); t.IsZero() || t.After(now) {
			high = middle
		} else {
			low = middle
		}
	}
	return s.Next(low), nil
}

// manyMissed is the number of missed times from which on a warning is recorded.
const manyMissed = 100

// tooManyMissed reports whether the schedule has more than manyMissed times after since and not
// after now.
//
//upstream:pkg/controller/cronjob.mostRecentScheduleTime
func (s schedule) tooManyMissed(since, now time.Time) bool {
	t := since
	for range manyMissed + 1 {
		if t = s.Next(t); t.IsZero() || t.After(now) {
			return false
		}
	}
	return true
}
