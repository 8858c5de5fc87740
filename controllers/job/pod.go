package job

import (
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podcontrol"
	"flyball.dev/controllers/internal/podstate"
)

// noIndex is the completion index of a pod that has none.
const noIndex = -1

// indexVariable is the environment variable with the completion index.
//
//upstream:pkg/controller/job.completionIndexEnvName
const indexVariable = "JOB_COMPLETION_INDEX"

// maxPrefix is the length of the longest prefix of a generated name that the server does not cut.
const maxPrefix = 63 - 5

// newPod returns a pod of a Job, with a completion index or noIndex. replaced is the failed pod of
// that index that it replaces, or nil. The server generates its name.
//
//upstream:pkg/controller/job.Controller.manageJob
func newPod(job *batchv1.Job, index int, replaced *corev1.Pod) *corev1.Pod {
	pod := podcontrol.FromTemplate(&job.Spec.Template, job, kind)
	if !tracked(pod) {
		pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if index != noIndex {
		setIndex(pod, job, index)
		if job.Spec.BackoffLimitPerIndex != nil {
			setFailureCounts(pod, job, replaced)
		}
	}
	return pod
}

// setIndex gives a new pod its completion index: in an annotation, a label, the environment, the
// hostname and the name.
//
//upstream:pkg/controller/job.addCompletionIndexEnvVariables
//upstream:pkg/controller/job.addCompletionIndexAnnotation
//upstream:pkg/controller/job.addCompletionIndexLabel
//upstream:pkg/controller/job.podGenerateNameWithIndex
func setIndex(pod *corev1.Pod, job *batchv1.Job, index int) {
	n := strconv.Itoa(index)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, batchv1.JobCompletionIndexAnnotation, n)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, batchv1.JobCompletionIndexAnnotation, n)
	pod.Spec.Hostname = job.Name + "-" + n
	suffix := "-" + n + "-"
	pod.GenerateName = job.Name[:min(len(job.Name), maxPrefix-len(suffix))] + suffix
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == indexVariable }) {
				continue
			}
			c.Env = append(c.Env, corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"},
			}})
		}
	}
}

// setFailureCounts annotates a new pod with the number of failures of its index so far.
//
//upstream:pkg/controller/job.getNewIndexFailureCounts
func setFailureCounts(pod *corev1.Pod, job *batchv1.Job, replaced *corev1.Pod) {
	counted, ignored := 0, 0
	if replaced != nil {
		counted, ignored = failureCount(replaced), ignoredFailureCount(replaced)
		if failureActionOf(job.Spec.PodFailurePolicy, replaced).counts() {
			counted++
		} else {
			ignored++
		}
	}
	pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(counted)
	if ignored > 0 {
		pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(ignored)
	}
}

// indexOf returns the completion index of a pod, or noIndex.
//
//upstream:pkg/controller/job.getCompletionIndex
func indexOf(pod *corev1.Pod) int {
	if n, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation]); err == nil && n >= 0 {
		return n
	}
	return noIndex
}

// failureCount and ignoredFailureCount return the number of failures of a pod's index before it.
//
//upstream:pkg/controller/job.getIndexFailureCount
func failureCount(pod *corev1.Pod) int {
	return annotatedCount(pod, batchv1.JobIndexFailureCountAnnotation)
}

//upstream:pkg/controller/job.parseIndexFailureIgnoreCountAnnotation
func ignoredFailureCount(pod *corev1.Pod) int {
	return annotatedCount(pod, batchv1.JobIndexIgnoredFailureCountAnnotation)
}

// annotatedCount returns the number in an annotation, or 0.
func annotatedCount(pod *corev1.Pod, annotation string) int {
	n, err := strconv.ParseInt(pod.Annotations[annotation], 10, 32)
	if err != nil {
		return 0
	}
	return max(0, int(n))
}

// tracked reports whether a pod has the finalizer: it is not yet counted for good.
//
//upstream:pkg/controller/job.hasJobTrackingFinalizer
func tracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// isPodFailed reports whether a pod of a Job counts as failed. A terminating pod counts immediately, unless the Job
// replaces pods only after their termination.
//
//upstream:pkg/controller/job.isPodFailed
func isPodFailed(job *batchv1.Job, pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || !onlyReplaceFailedPods(job) && podstate.Terminating(pod)
}

// onlyReplaceFailedPods reports whether a terminating pod is replaced only when it has terminated.
//
//upstream:pkg/controller/job.onlyReplaceFailedPods
func onlyReplaceFailedPods(job *batchv1.Job) bool {
	return job.Spec.PodReplacementPolicy != nil && *job.Spec.PodReplacementPolicy == batchv1.Failed
}

// indexed reports whether a Job has completion indexes.
//
//upstream:pkg/controller/job.isIndexedJob
func indexed(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
}

// suspended reports whether a Job is to have no pods.
//
//upstream:pkg/controller/job.jobSuspended
func suspended(job *batchv1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }
