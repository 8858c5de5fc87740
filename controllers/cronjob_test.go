package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

var nightly = client.ObjectKey{Namespace: "default", Name: "nightly"}

// aCronJob returns a CronJob with a schedule in UTC, and the annotations of its pods.
func aCronJob(schedule string, annotations map[string]string, change ...func(*batchv1.CronJobSpec)) *batchv1.CronJob {
	utc := "Etc/UTC"
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: nightly.Namespace, Name: nightly.Name},
		Spec: batchv1.CronJobSpec{Schedule: schedule, TimeZone: &utc, JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "nightly"}},
			Spec:       aJob(1, annotations).Spec,
		}},
	}
	for _, c := range change {
		c(&cj.Spec)
	}
	return cj
}

func (e env) cronJob() *batchv1.CronJob {
	e.Helper()
	cj := &batchv1.CronJob{}
	e.must(e.Get(e.Context(), nightly, cj))
	return cj
}

func (e env) changeCronJob(change func(*batchv1.CronJobSpec)) {
	e.Helper()
	cj := e.cronJob()
	before := client.MergeFrom(cj.DeepCopy())
	change(&cj.Spec)
	e.must(e.Patch(e.Context(), cj, before))
	e.waitIdle()
}

// jobs returns the Jobs, in the order of their names.
func (e env) jobs() []batchv1.Job {
	e.Helper()
	list := &batchv1.JobList{}
	e.must(e.List(e.Context(), list, client.InNamespace(nightly.Namespace)))
	slices.SortFunc(list.Items, func(a, b batchv1.Job) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// wantJobs compares the times of the Jobs, as hours and minutes, and how many are active.
func (e env) wantJobs(active int, times ...string) {
	e.Helper()
	var got []string
	for _, j := range e.jobs() {
		at, err := time.Parse(time.RFC3339, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
		if err != nil || j.Name != fmt.Sprintf("nightly-%d", at.Unix()/60) || j.Labels["app"] != "nightly" {
			e.Errorf("%+v", j.ObjectMeta)
		}
		got = append(got, at.Format("15:04"))
	}
	if !slices.Equal(got, times) {
		e.Errorf("the Jobs are of %q, want %q", got, times)
	}
	if n := len(e.cronJob().Status.Active); n != active {
		e.Errorf("%d are active, want %d", n, active)
	}
}

// at sleeps until the given time, in hours and minutes of the day, and until the controllers are
// idle. A bubble starts at midnight.
func (e env) at(clock string) {
	e.Helper()
	t, err := time.Parse("15:04", clock)
	e.must(err)
	now := time.Now().UTC()
	until := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 30, 0, time.UTC)
	time.Sleep(until.Sub(now)) // virtual
	synctest.Wait()
}

func TestCronJob(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(aCronJob("*/20 * * * *", nil))
		e.at("00:19")
		e.wantJobs(0)
		e.at("00:20")
		e.wantJobs(0, "00:20")
		s := e.cronJob().Status
		if s.LastScheduleTime.UTC().Format("15:04:05") != "00:20:00" || s.LastSuccessfulTime == nil {
			t.Errorf("status %+v", s)
		}
		e.at("02:01")
		e.wantJobs(0, "01:20", "01:40", "02:00") // the history limit
		e.changeCronJob(func(s *batchv1.CronJobSpec) { suspend := true; s.Suspend = &suspend })
		e.at("03:10")
		e.wantJobs(0, "01:20", "01:40", "02:00")
		e.changeCronJob(func(s *batchv1.CronJobSpec) { suspend := false; s.Suspend = &suspend })
		e.wantJobs(0, "01:40", "02:00", "03:00") // the last one that was missed
		e.changeCronJob(func(s *batchv1.CronJobSpec) { s.Schedule = "5,45 * * * *" })
		e.wantJobs(0, "01:40", "02:00", "03:00") // 03:05 was not missed
		e.at("03:45")
		e.wantJobs(0, "02:00", "03:00", "03:45") // nor was it later
		events := strings.Join(e.events("CronJob", "nightly"), "\n")
		for _, want := range []string{"SuccessfulCreate cronjob-controller: Created job nightly-", "SawCompletedJob", "SuccessfulDelete"} {
			if !strings.Contains(events, "Normal "+want) {
				t.Errorf("no event %s in\n%s", want, events)
			}
		}
		e.must(e.Delete(e.Context(), e.cronJob(), client.PropagationPolicy(background)))
		e.waitIdle()
		if n := len(e.jobs()); n != 0 {
			t.Errorf("%d Jobs are left", n)
		}
	})
}

func TestConcurrencyPolicies(t *testing.T) {
	for policy, want := range map[batchv1.ConcurrencyPolicy]struct {
		active int
		times  []string
	}{
		batchv1.AllowConcurrent:   {3, []string{"00:10", "00:20", "00:30"}},
		batchv1.ForbidConcurrent:  {1, []string{"00:10"}},
		batchv1.ReplaceConcurrent: {1, []string{"00:30"}},
	} {
		t.Run(string(policy), func(t *testing.T) {
			inVirtualTime(t, controllers.Options{}, func(e env) {
				e.create(aCronJob("*/10 * * * *", lasting("34m"), func(s *batchv1.CronJobSpec) { s.ConcurrencyPolicy = policy }))
				e.at("00:30")
				e.wantJobs(want.active, want.times...)
			})
		})
	}
}

func TestFailedJobsOfACronJob(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		none := int32(0)
		e.create(aCronJob("@hourly", failing("1"), func(s *batchv1.CronJobSpec) { s.JobTemplate.Spec.BackoffLimit = &none }))
		e.at("03:00")
		e.wantJobs(0, "03:00") // the history limit of those that have failed is one
		if s := e.cronJob().Status; s.LastSuccessfulTime != nil {
			t.Errorf("status %+v", s)
		}
	})
}

func TestManualJobOfACronJob(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(aCronJob("0 12 * * *", nil))
		cj, yes := e.cronJob(), true
		e.create(&batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: nightly.Namespace, Name: "manual", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "batch/v1", Kind: "CronJob", Name: cj.Name, UID: cj.UID, Controller: &yes}}},
			Spec: cj.Spec.JobTemplate.Spec,
		})
		e.waitIdle()
		if s := e.cronJob().Status; s.LastSuccessfulTime == nil || s.LastScheduleTime != nil || len(s.Active) > 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestCronJobStopsAfterCreate fails every first update of the status after a Job was created, and
// restarts nothing: the time is served once, and the Job is active.
func TestCronJobStopsAfterCreate(t *testing.T) {
	creates, failed := 0, 0
	withController(t, "cronjob-controller", func(env) interceptor.Funcs {
		return interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if _, ok := o.(*batchv1.Job); ok {
					creates++
				}
				return c.Create(ctx, o, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object,
				opts ...client.SubResourceUpdateOption) error {
				if creates > failed {
					failed++
					return context.DeadlineExceeded
				}
				return c.SubResource(name).Update(ctx, o, opts...)
			},
		}
	}, func(e env) {
		e.create(aCronJob("@hourly", nil))
		e.at("02:00")
		e.wantJobs(2, "01:00", "02:00")
		if s := e.cronJob().Status; creates != 2 || failed != 2 || s.LastScheduleTime.UTC().Hour() != 2 {
			t.Errorf("%d creates, %d failed updates, status %+v", creates, failed, s)
		}
	})
}
