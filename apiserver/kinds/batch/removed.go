package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/apiserver/kinds"
)

// removed are the versions that Kubernetes has removed.
var removed = []kinds.Alias[*batchv1.CronJob]{{
	Type: &batchv1beta1.CronJob{},
	Default: func(obj runtime.Object) {
		old, c := obj.(*batchv1beta1.CronJob), &batchv1.CronJob{}
		cronJobToV1(old, c)
		defaultCronJob(c)
		gvk := old.GroupVersionKind()
		cronJobToV1beta1(c, old)
		old.SetGroupVersionKind(gvk)
	},
}}

// AddRemoved adds CronJob in batch/v1beta1 to a scheme, and its conversions.
func AddRemoved(s *runtime.Scheme) error {
	s.AddKnownTypes(batchv1beta1.SchemeGroupVersion, &batchv1beta1.CronJob{}, &batchv1beta1.CronJobList{})
	metav1.AddToGroupVersion(s, batchv1beta1.SchemeGroupVersion)
	return kinds.AddConversions(s, kinds.Infallible(cronJobToV1), kinds.Infallible(cronJobToV1beta1),
		func(l *batchv1beta1.CronJobList) (*metav1.ListMeta, *[]batchv1beta1.CronJob) {
			return &l.ListMeta, &l.Items
		},
		func(l *batchv1.CronJobList) (*metav1.ListMeta, *[]batchv1.CronJob) { return &l.ListMeta, &l.Items })
}

// cronJobToV1 converts a CronJob. The result shares memory with it.
func cronJobToV1(in *batchv1beta1.CronJob, out *batchv1.CronJob) {
	s := &in.Spec
	*out = batchv1.CronJob{
		ObjectMeta: in.ObjectMeta,
		Spec: batchv1.CronJobSpec{
			Schedule: s.Schedule, TimeZone: s.TimeZone, StartingDeadlineSeconds: s.StartingDeadlineSeconds,
			ConcurrencyPolicy: batchv1.ConcurrencyPolicy(s.ConcurrencyPolicy), Suspend: s.Suspend,
			JobTemplate:                batchv1.JobTemplateSpec(s.JobTemplate),
			SuccessfulJobsHistoryLimit: s.SuccessfulJobsHistoryLimit, FailedJobsHistoryLimit: s.FailedJobsHistoryLimit,
		},
		Status: batchv1.CronJobStatus(in.Status),
	}
}

// cronJobToV1beta1 converts a CronJob. The result shares memory with it.
func cronJobToV1beta1(in *batchv1.CronJob, out *batchv1beta1.CronJob) {
	s := &in.Spec
	*out = batchv1beta1.CronJob{
		ObjectMeta: in.ObjectMeta,
		Spec: batchv1beta1.CronJobSpec{
			Schedule: s.Schedule, TimeZone: s.TimeZone, StartingDeadlineSeconds: s.StartingDeadlineSeconds,
			ConcurrencyPolicy: batchv1beta1.ConcurrencyPolicy(s.ConcurrencyPolicy), Suspend: s.Suspend,
			JobTemplate:                batchv1beta1.JobTemplateSpec(s.JobTemplate),
			SuccessfulJobsHistoryLimit: s.SuccessfulJobsHistoryLimit, FailedJobsHistoryLimit: s.FailedJobsHistoryLimit,
		},
		Status: batchv1beta1.CronJobStatus(in.Status),
	}
}
