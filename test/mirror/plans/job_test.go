package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/job"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestJobs compares which pods a Job adopts, creates, deletes and counts, and its status.
func TestJobs(t *testing.T) {
	comparison{
		name:   "job",
		worlds: 1000,
		atLeast: map[string]int{"create pods": 10, "delete pods": 15, "update pods": 30,
			"update status of jobs.batch": 60},
		kinds: []client.Object{&batchv1.Job{}, &corev1.Pod{}},
		add:   job.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			j, err := upstream.NewController(ctx, c, f.Core().V1().Pods(), f.Batch().V1().Jobs(), nil, nil)
			return func(ctx context.Context) { j.Run(ctx, 1) }, err
		},
		orphans:  jobPods,
		order:    orderJob,
		generate: generateJob,
	}.compare(t)
}

// jobPods returns the pods that the selector of a Job matches, if the Job has finished in this world. Both controllers look
// for orphans among them.
func jobPods(w *world, object client.Object) []client.Object {
	o, err := w.get(keyOf(object))
	if err != nil || !finished(o.(*batchv1.Job)) || finished(object.(*batchv1.Job)) {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(o.(*batchv1.Job).Spec.Selector)
	if err != nil {
		panic(err)
	}
	return slices.DeleteFunc(w.list(corev1.Resource("pods")), func(pod client.Object) bool {
		return pod.GetNamespace() != object.GetNamespace() || !selector.Matches(labels.Set(pod.GetLabels()))
	})
}

// orderJob removes the start time of a Job that has finished while it was suspended. Ours sets the time, since the API
// server requires it. Kubernetes's controller does not, and the API server refuses the update.
func orderJob(w *world) {
	for _, o := range w.list(batchv1.Resource("jobs")) {
		if j := o.(*batchv1.Job); finished(j) && *j.Spec.Suspend {
			j.Status.StartTime = nil
		}
	}
}

func finished(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

func generateJob(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	ns := namespace()
	j := &batchv1.Job{ObjectMeta: object(s, ns, "x"), Spec: batchv1.JobSpec{
		Parallelism: ptr.To(int32(s.IntN(6))), BackoffLimit: ptr.To(random.Pick[int32](s, 6, 6, 6, 0, 1, 2)), Selector: newSelector(s), Template: newTemplate(s),
		CompletionMode: ptr.To(batchv1.NonIndexedCompletion), Suspend: ptr.To(s.Chance(12)),
		PodReplacementPolicy: ptr.To(random.Pick(s, batchv1.TerminatingOrFailed, batchv1.TerminatingOrFailed, batchv1.Failed))}}
	delete(j.Spec.Template.Labels, "more")
	j.Spec.Template.Finalizers = nil
	j.Spec.Template.Spec.RestartPolicy = random.Pick(s, corev1.RestartPolicyNever, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)
	if s.Chance(75) {
		j.Spec.Completions = ptr.To(int32(s.IntN(7)))
		if s.Chance(60) {
			newIndexes(s, j)
		}
	}
	if s.Chance(20) {
		j.Spec.ActiveDeadlineSeconds = ptr.To(random.Pick[int64](s, 20, 1000))
	}
	if s.Chance(10) {
		j.Spec.ManagedBy = ptr.To(random.Pick(s, batchv1.JobControllerName, "example.com/other"))
	}
	if j.Spec.Template.Spec.RestartPolicy == corev1.RestartPolicyNever && s.Chance(40) {
		newFailurePolicy(s, j)
	}
	deleted(s, j)
	objects := []client.Object{j}
	succeeded, failed := []types.UID{"gone"}, []types.UID{"gone"}
	for i := range s.IntN(9) {
		pod := newJobPod(s, j, i)
		objects = append(objects, pod)
		if pod.Status.Phase == corev1.PodSucceeded {
			succeeded = append(succeeded, pod.UID)
		} else {
			failed = append(failed, pod.UID)
		}
	}
	if policy := j.Spec.PodFailurePolicy; policy != nil && len(failed) > 2 { // of several pods that fail the Job, Kubernetes names any
		for i := range policy.Rules {
			if policy.Rules[i].Action == batchv1.PodFailurePolicyActionFailJob {
				policy.Rules[i].Action = batchv1.PodFailurePolicyActionCount
			}
		}
	}
	newJobStatus(s, j, succeeded, failed)
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota"))
	if s.Chance(30) {
		forbidden.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	}
	// Of a pod that it could not delete, Kubernetes says nevertheless that it is not ready any more.
	return objects, j, refusing(s, forbidden, "create pods")
}

func newIndexes(s *random.Source, j *batchv1.Job) {
	j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	if s.Chance(40) {
		j.Spec.BackoffLimitPerIndex = ptr.To(int32(s.IntN(3)))
		j.Spec.BackoffLimit = ptr.To[int32](1 << 30)
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		if s.Chance(50) {
			j.Spec.MaxFailedIndexes = ptr.To(int32(s.IntN(3)))
		}
	}
	if s.Chance(30) && *j.Spec.Completions > 0 {
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{}
		for range 1 + s.IntN(3) {
			j.Spec.SuccessPolicy.Rules = append(j.Spec.SuccessPolicy.Rules, newSuccessRule(s, int(*j.Spec.Completions)))
		}
	}
}

// newSuccessRule returns a rule with indexes, with a count of the indexes of a Job, or with a count of the indexes of the rule.
func newSuccessRule(s *random.Source, completions int) batchv1.SuccessPolicyRule {
	if s.Chance(30) {
		return batchv1.SuccessPolicyRule{SucceededCount: ptr.To(1 + int32(s.IntN(completions)))}
	}
	type set struct {
		text                 string
		count, atCompletions int
	}
	list := []set{{"0", 1, 1}, {"0-1", 2, 2}, {"0,2", 2, 3}, {"1,3-5", 4, 6}}
	indexes := random.Pick(s, slices.DeleteFunc(list, func(i set) bool { return i.atCompletions > completions })...)
	rule := batchv1.SuccessPolicyRule{SucceededIndexes: &indexes.text}
	if s.Chance(50) {
		rule.SucceededCount = ptr.To(1 + int32(s.IntN(indexes.count)))
	}
	return rule
}

func newFailurePolicy(s *random.Source, j *batchv1.Job) {
	j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{}
	for range 1 + s.IntN(3) {
		rule := batchv1.PodFailurePolicyRule{Action: random.Pick(s, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailJob,
			batchv1.PodFailurePolicyActionIgnore)}
		if j.Spec.BackoffLimitPerIndex != nil && s.Chance(30) {
			rule.Action = batchv1.PodFailurePolicyActionFailIndex
		}
		if s.Chance(60) {
			rule.OnExitCodes = &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: random.Pick(s, batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn),
				Values: random.Pick(s, []int32{1}, []int32{2}, []int32{1, 2})}
			if s.Chance(40) {
				rule.OnExitCodes.ContainerName = ptr.To(random.Pick(s, "c", "s"))
			}
		} else {
			rule.OnPodConditions = []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: random.Pick(s, corev1.ConditionTrue, corev1.ConditionFalse)}}
		}
		j.Spec.PodFailurePolicy.Rules = append(j.Spec.PodFailurePolicy.Rules, rule)
	}
}

func newJobPod(s *random.Source, j *batchv1.Job, i int) *corev1.Pod {
	meta := object(s, j.Namespace, fmt.Sprint("p", i))
	meta.Labels, meta.OwnerReferences = map[string]string{"app": "x"}, []metav1.OwnerReference{*metav1.NewControllerRef(j, kindOf(j))}
	if s.Chance(15) {
		meta.Labels, meta.OwnerReferences = labelled(s), ownedBy(s, j)
		// A pod that has another reference to the Job does not get its finalizer from Kubernetes at once.
		meta.OwnerReferences = slices.DeleteFunc(meta.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == j.UID && r.Controller == nil })
	}
	pod := newPod(s, meta)
	pod.Annotations = map[string]string{}
	if s.Chance(85) {
		pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	}
	if *j.Spec.CompletionMode == batchv1.IndexedCompletion && s.Chance(90) {
		index := random.Pick(s, fmt.Sprint(s.IntN(4)), fmt.Sprint(i), fmt.Sprint(i), "9", "-1", "z")
		pod.Annotations[batchv1.JobCompletionIndexAnnotation] = index
		pod.Labels[batchv1.JobCompletionIndexAnnotation] = index
	}
	if j.Spec.BackoffLimitPerIndex != nil && s.Chance(70) {
		pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = fmt.Sprint(s.IntN(3))
		if s.Chance(30) {
			pod.Annotations["batch.kubernetes.io/job-index-ignored-failure-count"] = fmt.Sprint(s.IntN(3))
		}
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		code := int32(0)
		if pod.Status.Phase == corev1.PodFailed {
			code = random.Pick[int32](s, 1, 2, 3)
		}
		if s.Chance(80) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: code, FinishedAt: metav1.NewTime(ago(s))}}}}
		}
		if s.Chance(25) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget,
				Status: random.Pick(s, corev1.ConditionTrue, corev1.ConditionFalse), LastTransitionTime: metav1.NewTime(ago(s))})
		}
	}
	return pod
}

func newJobStatus(s *random.Source, j *batchv1.Job, succeeded, failed []types.UID) {
	if s.Chance(30) {
		return
	}
	j.Status = batchv1.JobStatus{Active: int32(s.IntN(4)), Succeeded: int32(s.IntN(3)), Failed: int32(s.IntN(3)), UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{}}
	if s.Chance(80) || *j.Spec.Suspend {
		j.Status.StartTime = ptr.To(metav1.NewTime(ago(s)))
	}
	if s.Chance(40) {
		j.Status.UncountedTerminatedPods.Failed = []types.UID{random.Pick(s, failed...)}
	}
	if uid := random.Pick(s, succeeded...); *j.Spec.CompletionMode == batchv1.NonIndexedCompletion && s.Chance(30) && !slices.Contains(j.Status.UncountedTerminatedPods.Failed, uid) {
		j.Status.UncountedTerminatedPods.Succeeded = []types.UID{uid}
	}
	if *j.Spec.CompletionMode == batchv1.IndexedCompletion {
		j.Status.CompletedIndexes = random.Pick(s, "", "", "0", "1,3", "0-2", "1-9")
		if j.Spec.BackoffLimitPerIndex != nil {
			j.Status.FailedIndexes = ptr.To(random.Pick(s, "", "", "4", "5-6"))
		}
	}
	condition := func(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: status,
			Reason: reason, Message: message, LastProbeTime: metav1.NewTime(ago(s)), LastTransitionTime: metav1.NewTime(ago(s))})
	}
	switch s.IntN(14) {
	case 0:
		condition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, batchv1.JobReasonSuccessPolicy, "earlier")
	case 1, 2:
		condition(batchv1.JobFailureTarget, corev1.ConditionTrue, batchv1.JobReasonPodFailurePolicy, "earlier")
	case 3:
		condition(batchv1.JobFailed, corev1.ConditionTrue, batchv1.JobReasonBackoffLimitExceeded, "earlier")
	}
	switch s.IntN(14) {
	case 0, 1:
		condition(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended")
		j.Status.StartTime = nil
	case 2:
		condition(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed")
	}
}
