package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestCronJobs compares which Jobs CronJobs create and delete over hours, at which times, and their status.
func TestCronJobs(t *testing.T) {
	comparison{
		name:      "cronjob-controller",
		scenarios: 30,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			j, err := upstream.NewControllerV2(ctx, f.Batch().V1().Jobs(), f.Batch().V1().CronJobs(), c)
			return func(ctx context.Context) { j.Run(ctx, 1) }, err
		},
		during:   jobs,
		kinds:    []client.ObjectList{&batchv1.CronJobList{}, &batchv1.JobList{}},
		generate: generateCronJobs,
		require: []string{"Event *SuccessfulCreate", "Event *SawCompletedJob", "Event *JobAlreadyActive", "Event *SuccessfulDelete", "CronJob *.status.lastSuccessfulTime",
			"CronJob *.status.active", "Event *UnexpectedJob"},
	}.compare(t)
}

// lasts is the annotation of a Job with the time that it takes. A Job with the annotation fails has no success.
const lasts, fails = "example.com/lasts", "example.com/fails"

// jobs ends Jobs when their time is over. It looks at them each 11 seconds, and never at the time of a schedule.
func jobs(ctx context.Context, c client.Client) error {
	ticker := time.NewTicker(11070 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		list := &batchv1.JobList{}
		if err := c.List(ctx, list); err != nil {
			return err
		}
		for i := range list.Items {
			if err := endJob(ctx, c, &list.Items[i]); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
}

// endJob ends a Job, if its time is over.
func endJob(ctx context.Context, c client.Client, job *batchv1.Job) error {
	d, err := time.ParseDuration(job.Annotations[lasts])
	if err != nil || len(job.Status.Conditions) > 0 || time.Since(job.CreationTimestamp.Time) < d {
		return nil
	}
	now := metav1.Now()
	condition := func(kind batchv1.JobConditionType) {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	job.Status.StartTime = &job.CreationTimestamp
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	if job.Annotations[fails] != "" {
		condition(batchv1.JobFailureTarget)
		condition(batchv1.JobFailed)
	} else {
		job.Status.CompletionTime, job.Status.Succeeded = &now, 1
		condition(batchv1.JobSuccessCriteriaMet)
		condition(batchv1.JobComplete)
	}
	return c.Status().Update(ctx, job)
}

func generateCronJobs(s *random.Source) []step {
	var steps []step
	var all []*batchv1.CronJob
	for i := range 1 + s.IntN(2) {
		cj := newCronJob(s, fmt.Sprint("c", i))
		all = append(all, cj)
		steps = append(steps, create(cj))
	}
	for range 2 + s.IntN(6) {
		cj := random.Pick(s, all...)
		other := newCronJob(s, cj.Name)
		steps = append(steps, random.Pick(s,
			change("schedule "+other.Spec.Schedule, cj, func(cj *batchv1.CronJob) { cj.Spec.Schedule = other.Spec.Schedule }),
			change(fmt.Sprint("time zone ", ptr.Deref(other.Spec.TimeZone, "")), cj, func(cj *batchv1.CronJob) { cj.Spec.TimeZone = other.Spec.TimeZone }),
			change(fmt.Sprint("policy ", other.Spec.ConcurrencyPolicy), cj, func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = other.Spec.ConcurrencyPolicy }),
			change("another deadline", cj, func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = other.Spec.StartingDeadlineSeconds }),
			change("other limits", cj, func(cj *batchv1.CronJob) {
				cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = other.Spec.SuccessfulJobsHistoryLimit, other.Spec.FailedJobsHistoryLimit
			}),
			change("suspend or resume", cj, func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(!*cj.Spec.Suspend) }),
			change("suspend or resume", cj, func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(!*cj.Spec.Suspend) }),
			step{text: "delete a Job", do: deleteJob},
			manual(cj),
			remove(cj), create(cj),
		))
	}
	for i := range steps { // no schedule at the time of a step
		if steps[i].wait == 0 {
			steps[i].wait = random.Pick(s, 1300*time.Millisecond, 47*time.Second, 19*time.Minute, time.Hour+17*time.Second) + 3*time.Second
		}
	}
	return steps
}

func newCronJob(s *random.Source, name string) *batchv1.CronJob {
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: batchv1.CronJobSpec{
		Schedule:          random.Pick(s, "*/2 * * * *", "*/15 * * * *", "@hourly", "30 1,2,3 * * *", "@every 25m", "0 0 29 2 *", "15 0-4 * * *"),
		ConcurrencyPolicy: random.Pick(s, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent), Suspend: ptr.To(s.Chance(15)),
		SuccessfulJobsHistoryLimit: ptr.To(int32(s.IntN(3))), FailedJobsHistoryLimit: ptr.To(int32(s.IntN(3)))}}
	cj.Spec.JobTemplate.Annotations = map[string]string{lasts: random.Pick(s, "5s", "3m", "50m", "6h")}
	if s.Chance(25) {
		cj.Spec.JobTemplate.Annotations[fails] = "yes"
	}
	cj.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	if s.Chance(60) {
		cj.Spec.TimeZone = ptr.To(random.Pick(s, "Etc/UTC", "America/New_York", "America/New_York", "Asia/Kolkata"))
	}
	if s.Chance(40) {
		cj.Spec.StartingDeadlineSeconds = ptr.To(random.Pick[int64](s, 10, 60, 600, 7200, 100000))
	}
	return cj
}

// deleteJob deletes the Job with the first name.
func deleteJob(ctx context.Context, c client.Client) error {
	list := &batchv1.JobList{}
	if err := c.List(ctx, list); err != nil || len(list.Items) == 0 {
		return err
	}
	return c.Delete(ctx, &list.Items[0], client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// manual returns the step that creates a Job of a CronJob by hand.
func manual(cj *batchv1.CronJob) step {
	return step{text: "a Job by hand of " + cj.Name, do: func(ctx context.Context, c client.Client) error {
		owner := &batchv1.CronJob{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(cj), owner); err != nil {
			return err
		}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: cj.Namespace, Name: "manual-" + cj.Name, Annotations: map[string]string{lasts: "3m", "cronjob.kubernetes.io/instantiate": "manual"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, batchv1.SchemeGroupVersion.WithKind("CronJob"))}}, Spec: *owner.Spec.JobTemplate.Spec.DeepCopy()}
		return c.Create(ctx, job)
	}}
}
