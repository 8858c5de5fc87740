package cronjob

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// at returns a time of the day 2026-03-10 in UTC, or of another one.
func at(t *testing.T, clock string) time.Time {
	t.Helper()
	if len(clock) == len("15:04") {
		clock = "2026-03-10 " + clock
	}
	parsed, err := time.Parse("2006-01-02 15:04", clock)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// aCronJob returns a CronJob in UTC that was created at midnight.
func aCronJob(t *testing.T, schedule string, change ...func(*batchv1.CronJob)) *batchv1.CronJob {
	utc, history, failures := "Etc/UTC", int32(2), int32(1)
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nightly", UID: "cj", CreationTimestamp: metav1.NewTime(at(t, "00:00"))},
		Spec: batchv1.CronJobSpec{Schedule: schedule, TimeZone: &utc, ConcurrencyPolicy: batchv1.AllowConcurrent,
			SuccessfulJobsHistoryLimit: &history, FailedJobsHistoryLimit: &failures},
	}
	for _, c := range change {
		c(cj)
	}
	return cj
}

// jobsOf parses a list of Jobs such as "10:00 11:00:Complete manual": their times, or a name, and
// the condition of the finished ones.
func jobsOf(t *testing.T, cj *batchv1.CronJob, list string) (all []*batchv1.Job) {
	for text := range strings.FieldsSeq(list) {
		name, condition := text, ""
		if i := strings.LastIndex(text, ":"); i > 2 {
			name, condition = text[:i], text[i+1:]
		}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cj, kind)}}}
		if strings.Contains(name, ":") {
			scheduled := at(t, name)
			job = newJob(cj, scheduled, time.UTC)
			job.Status.StartTime = &metav1.Time{Time: scheduled}
		}
		job.UID = types.UID(name)
		if condition != "" {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobConditionType(condition), Status: corev1.ConditionTrue}}
			if condition == string(batchv1.JobComplete) {
				job.Status.CompletionTime = job.Status.StartTime
			}
		}
		all = append(all, job)
	}
	return all
}

func active(uids ...string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		for _, uid := range uids {
			cj.Status.Active = append(cj.Status.Active, corev1.ObjectReference{UID: types.UID(uid), Name: uid})
		}
	}
}

func lastScheduled(t *testing.T, clock string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = &metav1.Time{Time: at(t, clock)} }
}

func policy(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = p }
}

func deadline(seconds int64) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = &seconds }
}

// describe returns a plan as text.
func describe(p *plan) string {
	var parts []string
	if p.create != nil {
		parts = append(parts, "create "+p.scheduled.UTC().Format("15:04"))
	}
	for name, list := range map[string][]*batchv1.Job{"expired": p.cleanup, "replaced": p.replaced} {
		for _, j := range list {
			parts = append(parts, name+" "+string(j.UID))
		}
	}
	for _, ref := range p.status.Active {
		parts = append(parts, "active "+string(ref.UID))
	}
	for _, e := range p.events {
		parts = append(parts, e.reason)
	}
	slices.SortStableFunc(parts, func(a, b string) int { return strings.Compare(a, b) })
	return fmt.Sprintf("%s; %s", strings.Join(parts, ", "), p.after)
}

func TestPlan(t *testing.T) {
	with := func(change ...func(*batchv1.CronJob)) *batchv1.CronJob { return aCronJob(t, "0 * * * *", change...) }
	suspended := func(cj *batchv1.CronJob) { yes := true; cj.Spec.Suspend = &yes }
	zone := func(name string) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.Spec.TimeZone = &name }
	}
	for _, tt := range []struct {
		name string
		cj   *batchv1.CronJob
		jobs string
		now  string
		want string
	}{
		{"not yet", with(), "", "00:30", "; 30m0.1s"},
		{"due", with(), "", "01:00", "create 01:00; 1h0m0.1s"},
		{"late", with(lastScheduled(t, "05:00")), "", "08:20", "create 08:00; 40m0.1s"},
		{"served", with(lastScheduled(t, "08:00")), "", "08:20", "; 40m0.1s"},
		{"served before the controller stopped", with(lastScheduled(t, "07:00")), "08:00", "08:20", "active 08:00; 40m0.1s"},
		{"served and finished meanwhile", with(lastScheduled(t, "07:00")), "08:00:Complete", "08:20", "; 40m0.1s"},
		{"has finished", with(lastScheduled(t, "08:00"), active("08:00")), "08:00:Failed", "08:20", "SawCompletedJob; 40m0.1s"},
		{"is missing", with(lastScheduled(t, "08:00"), active("08:00")), "", "08:20", "MissingJob; 40m0.1s"},
		{"manual", with(lastScheduled(t, "08:00")), "manual", "08:20", "UnexpectedJob; 40m0.1s"},
		{"suspended", with(suspended), "", "08:20", "; 0s"},
		{"allowed", with(lastScheduled(t, "07:00"), active("07:00")), "07:00", "08:00", "active 07:00, create 08:00; 1h0m0.1s"},
		{"forbidden", with(lastScheduled(t, "07:00"), active("07:00"), policy(batchv1.ForbidConcurrent)), "07:00", "08:00",
			"JobAlreadyActive, active 07:00; 1h0m0.1s"},
		{"no longer forbidden", with(lastScheduled(t, "07:00"), active("07:00"), policy(batchv1.ForbidConcurrent)), "07:00:Failed", "08:00",
			"SawCompletedJob, create 08:00; 1h0m0.1s"},
		{"replaced", with(lastScheduled(t, "07:00"), active("07:00"), policy(batchv1.ReplaceConcurrent)), "07:00", "08:00",
			"create 08:00, replaced 07:00; 1h0m0.1s"},
		{"too late", with(lastScheduled(t, "07:00"), deadline(600)), "", "08:20", "; 40m0.1s"},
		{"late, but in time", with(lastScheduled(t, "07:00"), deadline(1260)), "", "08:20", "create 08:00; 40m0.1s"},
		{"too many", aCronJob(t, "* * * * *"), "", "02:00", "TooManyMissedTimes, create 02:00; 1m0.1s"},
		{"many, but only a few in time", aCronJob(t, "* * * * *", deadline(600)), "", "02:00", "create 02:00; 1m0.1s"},
		{"history", with(lastScheduled(t, "08:00")),
			"05:00:Complete 01:00:Complete 04:00:Complete 02:00:Failed 03:00:Failed 08:00:Complete", "08:20",
			"expired 01:00, expired 02:00, expired 04:00; 40m0.1s"},
		{"an unknown time zone", with(zone("Nowhere")), "", "08:20", "UnknownTimeZone; 0s"},
		{"no schedule", aCronJob(t, "every now and then"), "", "08:20", "UnparseableSchedule; 0s"},
		{"never", aCronJob(t, "0 0 31 2 *"), "", "08:20", "InvalidSchedule; 0s"},
		{"in a time zone", aCronJob(t, "0 9 * * *", zone("Asia/Tokyo")), "", "01:00", "create 00:00; 23h0m0.1s"},
		{"an interval", aCronJob(t, "@every 90m"), "", "05:00", "create 04:30; 1h0m0.1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "in a time zone" {
				tt.cj.CreationTimestamp = metav1.NewTime(at(t, "2026-03-09 12:00"))
			}
			before := tt.cj.DeepCopy()
			if got := describe(planFor(tt.cj, jobsOf(t, tt.cj, tt.jobs), time.Time{}, at(t, tt.now))); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if tt.cj.String() != before.String() {
				t.Error("the CronJob was changed")
			}
		})
	}
}

// TestChangedSchedule: times before the change were not missed.
func TestChangedSchedule(t *testing.T) {
	cj := aCronJob(t, "0 12 * * *", lastScheduled(t, "00:00"))
	if got := describe(planFor(cj, nil, at(t, "15:00"), at(t, "15:01"))); got != "; 20h59m0.1s" {
		t.Error(got)
	}
}

// TestLastAgainstModel compares the last time of a schedule with an enumeration of all times.
func TestLastAgainstModel(t *testing.T) {
	start := at(t, "2026-03-26 07:10") // daylight saving time begins on the 29th
	for _, text := range []string{"* * * * *", "*/7 * * * *", "0,1 0 * * *", "30 2 * * *", "30 6-16/4 * * 1-5", "@weekly",
		"@every 25m", "15 3 1 * *"} {
		for _, zone := range []string{"Etc/UTC", "Europe/Berlin", "America/St_Johns"} {
			cj := aCronJob(t, text, func(cj *batchv1.CronJob) { cj.Spec.TimeZone = &zone })
			s, err := parseSchedule(cj)
			if err != nil {
				t.Fatal(err)
			}
			var want time.Time
			next, missed := s.Next(start), 0
			for now := start; now.Before(start.AddDate(0, 0, 9)); now = now.Add(71 * time.Minute) {
				for !next.After(now) {
					want, next, missed = next, s.Next(next), missed+1
				}
				got, err := s.last(start, now)
				if err != nil || !got.Equal(want) {
					t.Fatalf("%s in %s: the last one before %s is %s, %v; want %s", text, zone, now, got, err, want)
				}
				if s.tooManyMissed(start, now) != (missed > manyMissed) {
					t.Fatalf("%s in %s: %d were missed", text, zone, missed)
				}
			}
		}
	}
}

// TestHistoryIsOwned: a Job that was taken from the CronJob while it was active is not deleted with
// its history.
func TestHistoryIsOwned(t *testing.T) {
	none := int32(0)
	cj := aCronJob(t, "0 * * * *", lastScheduled(t, "08:00"), active("08:00"), func(cj *batchv1.CronJob) {
		cj.Spec.SuccessfulJobsHistoryLimit = &none
	})
	jobs := jobsOf(t, cj, "07:00:Complete 08:00:Complete")
	jobs[1].OwnerReferences = nil
	if got := describe(planFor(cj, jobs, time.Time{}, at(t, "08:20"))); got != "SawCompletedJob, expired 07:00; 40m0.1s" {
		t.Error(got)
	}
}
