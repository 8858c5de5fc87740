package job_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// activeIndexes returns the indexes of the active pods of the Job.
func activeIndexes(e controllerstest.Env) []string {
	e.Helper()
	var list []string
	for _, p := range e.JobPods() {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			list = append(list, p.Labels[batchv1.JobCompletionIndexAnnotation])
		}
	}
	slices.Sort(list)
	return list
}

// TestElasticIndexedJob changes the completions and the parallelism together.
func TestElasticIndexedJob(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Job(5, controllerstest.Lasting("1h"), controllerstest.OfIndexes))
		e.WaitIdle()
		for _, n := range []int32{2, 7, 3} {
			e.ChangeJob(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = &n, &n })
			var want []string
			for i := range n {
				want = append(want, fmt.Sprint(i))
			}
			if got := activeIndexes(e); !slices.Equal(got, want) {
				t.Errorf("the indexes %v are active, want %v", got, want)
			}
			e.WantJob("", n, 0, 0)
		}
		time.Sleep(2 * time.Hour) // virtual
		e.WaitIdle()
		e.WantJob("SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 3, 0)
		if s := e.Job().Status.CompletedIndexes; s != "0-2" {
			t.Errorf("completed %q", s)
		}
	})
}

// TestJobAdoptsPods: a Job with a selector of its own counts a pod that was there before.
func TestJobAdoptsPods(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Work.Namespace, Name: "before",
			Labels: map[string]string{"queue": "a", batchv1.JobNameLabel: controllerstest.Work.Name}, Annotations: controllerstest.Lasting("1h")},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "work", Image: "worker"}}}}
		e.CreateAll(pod)
		e.WaitIdle()
		manual := true
		e.CreateAll(controllerstest.Job(2, controllerstest.Lasting("1m"), func(s *batchv1.JobSpec) {
			s.ManualSelector, s.Selector = &manual, &metav1.LabelSelector{MatchLabels: map[string]string{"queue": "a"}}
			s.Template.Labels = map[string]string{"queue": "a", batchv1.JobNameLabel: controllerstest.Work.Name}
		}))
		e.WaitIdle()
		e.WantJob("", 2, 0, 0)
		if n := len(e.JobPods()); n != 2 {
			t.Errorf("%d pods", n)
		}
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(pod), pod))
		if !metav1.IsControlledBy(pod, e.Job()) || !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
			t.Errorf("the pod was not adopted: %+v", pod.ObjectMeta)
		}
		e.Must(e.Delete(e.Context(), pod))
		time.Sleep(5 * time.Minute) // virtual
		e.WaitIdle()
		e.WantJob("SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 2, 1)
	})
}

// TestJobReplacesUnscheduledPods: with the policy Failed, a pod that is deleted before it had a node
// is replaced nevertheless.
func TestJobReplacesUnscheduledPods(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		policy := batchv1.Failed
		e.CreateAll(controllerstest.Job(1, nil, func(s *batchv1.JobSpec) {
			s.PodReplacementPolicy = &policy
			s.Template.Spec.NodeSelector = map[string]string{"zone": "nowhere"}
		}))
		e.WaitIdle()
		e.WantJob("", 1, 0, 0)
		first := e.JobPods()[0]
		e.Must(e.Delete(e.Context(), &first))
		time.Sleep(2 * time.Minute) // virtual
		e.WaitIdle()
		if list := e.JobPods(); len(list) != 1 || list[0].UID == first.UID {
			t.Errorf("%d pods, the first %s, deleted %v, %v", len(list), list[0].Status.Phase, list[0].DeletionTimestamp, list[0].Finalizers)
		}
		e.WantJob("", 1, 0, 1)
	})
}
