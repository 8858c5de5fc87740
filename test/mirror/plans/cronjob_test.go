package plans

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/cronjob"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestCronJobs compares which Jobs a CronJob creates and deletes, and its status.
func TestCronJobs(t *testing.T) {
	comparison{
		name:    "cronjob",
		worlds:  1000,
		atLeast: map[string]int{"create jobs.batch": 20, "delete jobs.batch": 10, "update status of cronjobs.batch": 50},
		kinds:   []client.Object{&batchv1.CronJob{}, &batchv1.Job{}},
		add:     cronjob.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			j, err := upstream.NewControllerV2(ctx, f.Batch().V1().Jobs(), f.Batch().V1().CronJobs(), c)
			return func(ctx context.Context) { j.Run(ctx, 1) }, err
		},
		generate: generateCronJob,
	}.compare(t)
}

// generateCronJob returns a CronJob with a regular schedule. Of one that is not, Kubernetes does not always find the last
// time, since it estimates how many it has missed.
func generateCronJob(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	ns := namespace()
	cj := &batchv1.CronJob{ObjectMeta: object(s, ns, "x"), Spec: batchv1.CronJobSpec{
		Schedule:          random.Pick(s, "* * * * *", "*/5 * * * *", "@hourly", "@daily", "@every 90m", "@every 30s", "0 0 29 2 *", "0 22 L * *", "bad"),
		ConcurrencyPolicy: random.Pick(s, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent), Suspend: ptr.To(s.Chance(10)),
		SuccessfulJobsHistoryLimit: ptr.To(int32(s.IntN(3))), FailedJobsHistoryLimit: ptr.To(int32(s.IntN(3))),
		JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: batchv1.JobSpec{Template: newTemplate(s)}}}}
	if s.Chance(20) {
		cj.Spec.JobTemplate.Annotations = map[string]string{"note": "n"}
	}
	if s.Chance(40) {
		cj.Spec.TimeZone = ptr.To(random.Pick(s, "Etc/UTC", "America/New_York", "Asia/Kolkata", "Nowhere/Else"))
	}
	if s.Chance(35) {
		cj.Spec.StartingDeadlineSeconds = ptr.To(random.Pick[int64](s, 5, 60, 600, 7200, 100000))
	}
	if s.Chance(50) {
		cj.CreationTimestamp = metav1.NewTime(s.Now.Add(-time.Duration(s.IntN(400)) * time.Hour))
	}
	if s.Chance(60) {
		cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(s.Now.Add(-time.Duration(s.IntN(5000)) * random.Pick(s, time.Second, time.Minute))))
	}
	if s.Chance(40) {
		cj.Status.LastSuccessfulTime = ptr.To(metav1.NewTime(ago(s)))
	}
	deleted(s, cj)
	objects := []client.Object{cj}
	for i := range s.IntN(6) {
		job := newOwnedJob(s, cj, i)
		objects = append(objects, job)
		if s.Chance(50) {
			cj.Status.Active = append(cj.Status.Active, referenceTo(job))
		}
	}
	if s.Chance(10) {
		cj.Status.Active = append(cj.Status.Active, corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: ns, Name: "gone", UID: "gone"})
	}
	forbidden := apierrors.NewForbidden(corev1.Resource("jobs"), "", errors.New("exceeded quota"))
	return objects, cj, refusing(s, forbidden, "create jobs.batch")
}

func referenceTo(job *batchv1.Job) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID}
}

func newOwnedJob(s *random.Source, cj *batchv1.CronJob, i int) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: object(s, cj.Namespace, fmt.Sprint("x-", i)), Spec: cj.Spec.JobTemplate.Spec}
	job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cj, kindOf(cj))}
	if s.Chance(90) {
		job.Status.StartTime = ptr.To(metav1.NewTime(ago(s)))
	}
	finished := func(kind batchv1.JobConditionType) {
		job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
	}
	switch s.IntN(3) {
	case 0:
		finished(batchv1.JobComplete)
		job.Status.CompletionTime = ptr.To(metav1.NewTime(ago(s)))
	case 1:
		finished(batchv1.JobFailed)
	}
	return job
}
