package cronjob

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/fake"
	"flyball.dev/ctrl/reconcile"
)

// indexer adds indexes to a fake client.
type indexer struct{ *fake.ClientBuilder }

// IndexField implements [client.FieldIndexer].
func (i indexer) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(obj, field, values)
	return nil
}

// TestYear runs a daily CronJob for a year in a time zone with daylight saving time. Each of its
// Jobs is complete before the next one.
func TestYear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone := "Europe/Berlin"
		berlin, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		cj := aCronJob(t, "30 2 * * *", func(cj *batchv1.CronJob) { cj.Spec.TimeZone = &zone })
		cj.CreationTimestamp = metav1.Now()
		builder := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
			WithStatusSubresource(&batchv1.CronJob{}, &batchv1.Job{}).
			WithObjects(cj)
		if err := claim.Index(t.Context(), indexer{builder}, &batchv1.Job{}); err != nil {
			t.Fatal(err)
		}
		c := builder.Build()
		r := &reconciler{client: c, live: c, recorder: record.NewFakeRecorder(100_000)}
		key := client.ObjectKeyFromObject(cj)
		seen, end := map[string]bool{}, time.Now().AddDate(1, 0, 0)
		for time.Now().Before(end) {
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			if err != nil || result.RequeueAfter <= 0 {
				t.Fatalf("%+v, %v", result, err)
			}
			list := &batchv1.JobList{}
			if err := c.List(t.Context(), list, client.InNamespace("default")); err != nil {
				t.Fatal(err)
			}
			if len(list.Items) > 3 {
				t.Fatalf("%d Jobs are kept", len(list.Items))
			}
			for i := range list.Items {
				job := &list.Items[i]
				if scheduled := job.Annotations[batchv1.CronJobScheduledTimestampAnnotation]; !seen[scheduled] {
					seen[scheduled] = true
					if now := time.Now().In(berlin); now.Format("15:04:05") != "02:30:00" || now.Format(time.RFC3339) != scheduled {
						t.Fatalf("the Job for %s was created at %s", scheduled, now)
					}
					now := metav1.Now()
					job.Status.StartTime, job.Status.CompletionTime = &now, &now
					job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
					if err := c.Status().Update(t.Context(), job); err != nil {
						t.Fatal(err)
					}
				}
			}
			time.Sleep(result.RequeueAfter) // virtual
		}
		// 2000 is a leap year. It is never half past two on the day on which the clock is advanced, and
		// twice on the day on which it is set back.
		for scheduled, want := range map[string]bool{"2000-03-26T02:30:00+01:00": false, "2000-03-26T02:30:00+02:00": false,
			"2000-10-29T02:30:00+02:00": true, "2000-10-29T02:30:00+01:00": true} {
			if seen[scheduled] != want {
				t.Errorf("%s: %v", scheduled, seen[scheduled])
			}
		}
		if len(seen) != 366 {
			t.Errorf("it ran %d times", len(seen))
		}
		if err := c.Get(t.Context(), key, cj); err != nil || len(cj.Status.Active) > 1 ||
			fmt.Sprint(cj.Status.LastScheduleTime.In(berlin).Format("01-02")) != "12-31" {
			t.Errorf("status %+v, %v", cj.Status, err)
		}
	})
}
