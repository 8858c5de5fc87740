package cronjob_test

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
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

func getCronJob(e controllerstest.Env) *batchv1.CronJob {
	e.Helper()
	cj := &batchv1.CronJob{}
	e.Must(e.Get(e.Context(), controllerstest.Nightly, cj))
	return cj
}

func changeCronJob(e controllerstest.Env, change func(*batchv1.CronJobSpec)) {
	e.Helper()
	cj := getCronJob(e)
	before := client.MergeFrom(cj.DeepCopy())
	change(&cj.Spec)
	e.Must(e.Patch(e.Context(), cj, before))
	e.WaitIdle()
}

// wantJobs compares the times of the Jobs, as hours and minutes, and how many are active.
func wantJobs(e controllerstest.Env, active int, times ...string) {
	e.Helper()
	var got []string
	for _, j := range e.Jobs() {
		at, err := time.Parse(time.RFC3339, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
		if err != nil || j.Name != fmt.Sprintf("nightly-%d", at.Unix()/60) || j.Labels["app"] != "nightly" {
			e.Errorf("%+v", j.ObjectMeta)
		}
		got = append(got, at.Format("15:04"))
	}
	if !slices.Equal(got, times) {
		e.Errorf("the Jobs are of %q, want %q", got, times)
	}
	if n := len(getCronJob(e).Status.Active); n != active {
		e.Errorf("%d are active, want %d", n, active)
	}
}

// sleepUntil sleeps until the given time, in hours and minutes of the day, and until the controllers are
// idle. A bubble starts at midnight.
func sleepUntil(e controllerstest.Env, clock string) {
	e.Helper()
	t, err := time.Parse("15:04", clock)
	e.Must(err)
	now := time.Now().UTC()
	until := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 30, 0, time.UTC)
	time.Sleep(until.Sub(now)) // virtual
	synctest.Wait()
}

func TestCronJob(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.CronJob("*/20 * * * *", nil))
		sleepUntil(e, "00:19")
		wantJobs(e, 0)
		sleepUntil(e, "00:20")
		wantJobs(e, 0, "00:20")
		s := getCronJob(e).Status
		if s.LastScheduleTime.UTC().Format("15:04:05") != "00:20:00" || s.LastSuccessfulTime == nil {
			t.Errorf("status %+v", s)
		}
		sleepUntil(e, "02:01")
		wantJobs(e, 0, "01:20", "01:40", "02:00") // the history limit
		changeCronJob(e, func(s *batchv1.CronJobSpec) { suspend := true; s.Suspend = &suspend })
		sleepUntil(e, "03:10")
		wantJobs(e, 0, "01:20", "01:40", "02:00")
		changeCronJob(e, func(s *batchv1.CronJobSpec) { suspend := false; s.Suspend = &suspend })
		wantJobs(e, 0, "01:40", "02:00", "03:00") // the last one that was missed
		changeCronJob(e, func(s *batchv1.CronJobSpec) { s.Schedule = "5,45 * * * *" })
		wantJobs(e, 0, "01:40", "02:00", "03:00") // 03:05 was not missed
		sleepUntil(e, "03:45")
		wantJobs(e, 0, "02:00", "03:00", "03:45") // nor was it later
		events := strings.Join(e.Events("CronJob", "nightly"), "\n")
		for _, want := range []string{"SuccessfulCreate cronjob-controller: Created job nightly-", "SawCompletedJob", "SuccessfulDelete"} {
			if !strings.Contains(events, "Normal "+want) {
				t.Errorf("no event %s in\n%s", want, events)
			}
		}
		e.Must(e.Delete(e.Context(), getCronJob(e), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		e.WaitIdle()
		if n := len(e.Jobs()); n != 0 {
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
			controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
				e.CreateAll(controllerstest.CronJob("*/10 * * * *", controllerstest.Lasting("34m"), func(s *batchv1.CronJobSpec) { s.ConcurrencyPolicy = policy }))
				sleepUntil(e, "00:30")
				wantJobs(e, want.active, want.times...)
			})
		})
	}
}

func TestFailedJobsOfACronJob(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		none := int32(0)
		e.CreateAll(controllerstest.CronJob("@hourly", controllerstest.Failing("1"), func(s *batchv1.CronJobSpec) { s.JobTemplate.Spec.BackoffLimit = &none }))
		sleepUntil(e, "03:00")
		wantJobs(e, 0, "03:00") // the history limit of those that have failed is one
		if s := getCronJob(e).Status; s.LastSuccessfulTime != nil {
			t.Errorf("status %+v", s)
		}
	})
}

func TestManualJobOfACronJob(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.CronJob("0 12 * * *", nil))
		cj, yes := getCronJob(e), true
		e.CreateAll(&batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Nightly.Namespace, Name: "manual", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "batch/v1", Kind: "CronJob", Name: cj.Name, UID: cj.UID, Controller: &yes}}},
			Spec: cj.Spec.JobTemplate.Spec,
		})
		e.WaitIdle()
		if s := getCronJob(e).Status; s.LastSuccessfulTime == nil || s.LastScheduleTime != nil || len(s.Active) > 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestCronJobStopsAfterCreate fails every first update of the status after a Job was created, and
// restarts nothing: the time is served once, and the Job is active.
func TestCronJobStopsAfterCreate(t *testing.T) {
	creates, failed := 0, 0
	controllerstest.WithController(t, "cronjob-controller", func(controllerstest.Env) interceptor.Funcs {
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
	}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.CronJob("@hourly", nil))
		sleepUntil(e, "02:00")
		wantJobs(e, 2, "01:00", "02:00")
		if s := getCronJob(e).Status; creates != 2 || failed != 2 || s.LastScheduleTime.UTC().Hour() != 2 {
			t.Errorf("%d creates, %d failed updates, status %+v", creates, failed, s)
		}
	})
}
