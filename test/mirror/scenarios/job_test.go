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
	upstream "k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestJobs compares the status of Jobs with pods that end and fail, and the events, after minutes with back-off.
func TestJobs(t *testing.T) {
	comparison{
		name:      "job-controller",
		scenarios: 40,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			j, err := upstream.NewController(ctx, c, f.Core().V1().Pods(), f.Batch().V1().Jobs(), nil, nil)
			return func(ctx context.Context) { j.Run(ctx, 1) }, err
		},
		during:   containers,
		kinds:    []client.ObjectList{&batchv1.JobList{}},
		periodic: true, // Kubernetes waits a second for more changes
		onlyEnd:  true,
		generate: generateJobs,
		require: []string{"Job *BackoffLimitExceeded", "Job *.status.conditions*Complete", "Job *.status.conditions*SuccessPolicy", "Job *.status.conditions*PodFailurePolicy",
			"Job *.status.failedIndexes", "Job *MaxFailedIndexesExceeded", "Job *FailedIndexes", "Job *.status.conditions*Suspended", "Job *DeadlineExceeded"},
	}.compare(t)
}

func generateJobs(s *random.Source) []step {
	var steps []step
	var all []*batchv1.Job
	for i := range 1 + s.IntN(2) {
		j := newJob(s, fmt.Sprint("j", i))
		all = append(all, j)
		steps = append(steps, create(j))
	}
	for range s.IntN(4) {
		j := random.Pick(s, all...)
		n := int32(s.IntN(4))
		steps = append(steps, random.Pick(s,
			change(fmt.Sprint("parallelism ", n), j, func(j *batchv1.Job) { j.Spec.Parallelism = &n }),
			change("suspend or resume", j, func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(!*j.Spec.Suspend) }),
			change("suspend or resume", j, func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(!*j.Spec.Suspend) }),
		))
	}
	for i := range steps {
		steps[i].wait = random.Pick(s, 7*time.Second, 40*time.Second, 3*time.Minute, 20*time.Minute)
	}
	return append(steps, step{text: "the end", do: func(context.Context, client.Client) error { return nil }, wait: time.Hour})
}

func newJob(s *random.Source, name string) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: batchv1.JobSpec{
		Parallelism: ptr.To(int32(1 + s.IntN(3))), BackoffLimit: ptr.To(int32(s.IntN(4))), Suspend: ptr.To(s.Chance(15)),
		PodReplacementPolicy: ptr.To(random.Pick(s, batchv1.TerminatingOrFailed, batchv1.Failed))}}
	if s.Chance(80) {
		j.Spec.Completions = ptr.To(int32(1 + s.IntN(4)))
		if s.Chance(65) {
			indexed(s, j)
		}
	}
	if s.Chance(20) {
		j.Spec.ActiveDeadlineSeconds = ptr.To(random.Pick[int64](s, 17, 100, 1000))
	}
	template := &j.Spec.Template
	template.Annotations = map[string]string{lasts: random.Pick(s, "1s", "20s", "2m"), codes: random.Pick(s, "0", "0", "1,0", "1,1,0", "1", "0,1", "42,0")}
	template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	if s.Chance(30) {
		j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
		rule := batchv1.PodFailurePolicyRule{Action: random.Pick(s, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore),
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{random.Pick[int32](s, 1, 42)}}}
		if j.Spec.BackoffLimitPerIndex != nil && s.Chance(50) {
			rule.Action = batchv1.PodFailurePolicyActionFailIndex
		}
		if rule.Action == batchv1.PodFailurePolicyActionIgnore {
			template.Annotations[codes] = random.Pick(s, "1,0", "42,1,0") // and not for ever
		}
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{rule}}
	}
	return j
}

// indexed makes a Job indexed.
func indexed(s *random.Source, j *batchv1.Job) {
	j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	if s.Chance(50) {
		j.Spec.BackoffLimitPerIndex, j.Spec.BackoffLimit = ptr.To(int32(s.IntN(3))), nil
		if s.Chance(50) {
			j.Spec.MaxFailedIndexes = ptr.To(int32(s.IntN(2)))
		}
	}
	if s.Chance(40) {
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To[int32](1)}}}
		if s.Chance(50) {
			j.Spec.SuccessPolicy.Rules = []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0"), SucceededCount: ptr.To[int32](1)}, {SucceededIndexes: ptr.To("0-1")}}
			j.Spec.Completions = ptr.To(max(2, *j.Spec.Completions))
		}
	}
}
