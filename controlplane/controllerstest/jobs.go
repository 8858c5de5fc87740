package controllerstest

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
)

// Nightly is the key of the CronJob.
var Nightly = client.ObjectKey{Namespace: "default", Name: "nightly"}

// CronJob returns the CronJob [Nightly] with a schedule in UTC, and the annotations of its pods.
func CronJob(schedule string, annotations map[string]string, change ...func(*batchv1.CronJobSpec)) *batchv1.CronJob {
	utc := "Etc/UTC"
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: Nightly.Namespace, Name: Nightly.Name},
		Spec: batchv1.CronJobSpec{Schedule: schedule, TimeZone: &utc, JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "nightly"}},
			Spec:       Job(1, annotations).Spec,
		}},
	}
	for _, c := range change {
		c(&cj.Spec)
	}
	return cj
}

// Jobs returns the Jobs, in the order of their names.
func (e Env) Jobs() []batchv1.Job {
	e.Helper()
	list := &batchv1.JobList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(Nightly.Namespace)))
	slices.SortFunc(list.Items, func(a, b batchv1.Job) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// Work is the key of the Job.
var Work = client.ObjectKey{Namespace: "default", Name: "work"}

// Job returns the Job [Work] with a number of completions, and the annotations of its pods.
func Job(completions int32, annotations map[string]string, change ...func(*batchv1.JobSpec)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: Work.Namespace, Name: Work.Name},
		Spec: batchv1.JobSpec{Completions: &completions, Parallelism: &completions, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "work", Image: "worker"}}},
		}},
	}
	for _, c := range change {
		c(&j.Spec)
	}
	return j
}

// Failing returns the annotations of pods that end with an exit code.
func Failing(code string) map[string]string { return map[string]string{pods.ExitCodeAnnotation: code} }

// Lasting returns the annotations of pods that succeed after a duration.
func Lasting(d string) map[string]string { return map[string]string{pods.DurationAnnotation: d} }

// OfIndexes makes a Job indexed.
func OfIndexes(s *batchv1.JobSpec) {
	mode := batchv1.IndexedCompletion
	s.CompletionMode = &mode
}

// Job gets the Job [Work].
func (e Env) Job() *batchv1.Job {
	e.Helper()
	j := &batchv1.Job{}
	e.Must(e.Get(e.Context(), Work, j))
	return j
}

// ChangeJob patches the Job and waits until the controllers are idle.
func (e Env) ChangeJob(change func(*batchv1.Job)) {
	e.Helper()
	j := e.Job()
	before := client.MergeFrom(j.DeepCopy())
	change(j)
	e.Must(e.Patch(e.Context(), j, before))
	e.WaitIdle()
}

// JobConditions returns the types and reasons of the true conditions of the Job.
func (e Env) JobConditions() string {
	e.Helper()
	var list []string
	for _, c := range e.Job().Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			list = append(list, string(c.Type)+" "+c.Reason)
		}
	}
	return strings.Join(list, ", ")
}

// WantJob compares the true conditions of the Job, and its counters.
func (e Env) WantJob(conditions string, active, succeeded, failed int32) {
	e.Helper()
	if got := e.JobConditions(); got != conditions {
		e.Errorf("the conditions are %q, want %q", got, conditions)
	}
	s := e.Job().Status
	if s.Active != active || s.Succeeded != succeeded || s.Failed != failed {
		e.Errorf("active %d, succeeded %d, failed %d; want %d, %d, %d", s.Active, s.Succeeded, s.Failed, active, succeeded, failed)
	}
	if u := s.UncountedTerminatedPods; u == nil || len(u.Succeeded)+len(u.Failed) > 0 {
		e.Errorf("uncounted pods: %v", u)
	}
}

// JobPods returns the pods of the Job, in the order of their creation.
func (e Env) JobPods() []corev1.Pod {
	e.Helper()
	list := &corev1.PodList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(Work.Namespace), client.MatchingLabels{batchv1.JobNameLabel: Work.Name}))
	slices.SortStableFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items
}
