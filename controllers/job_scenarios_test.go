package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/client"
)

// activeIndexes returns the indexes of the active pods of the Job.
func (e env) activeIndexes() []string {
	e.Helper()
	var list []string
	for _, p := range e.jobPods() {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			list = append(list, p.Labels[batchv1.JobCompletionIndexAnnotation])
		}
	}
	slices.Sort(list)
	return list
}

// TestElasticIndexedJob changes the completions and the parallelism together.
func TestElasticIndexedJob(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(aJob(5, lasting("1h"), ofIndexes))
		e.waitIdle()
		for _, n := range []int32{2, 7, 3} {
			e.changeJob(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = &n, &n })
			var want []string
			for i := range n {
				want = append(want, fmt.Sprint(i))
			}
			if got := e.activeIndexes(); !slices.Equal(got, want) {
				t.Errorf("the indexes %v are active, want %v", got, want)
			}
			e.wantJob("", n, 0, 0)
		}
		time.Sleep(2 * time.Hour) // virtual
		e.waitIdle()
		e.wantJob("SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 3, 0)
		if s := e.job().Status.CompletedIndexes; s != "0-2" {
			t.Errorf("completed %q", s)
		}
	})
}

// TestJobAdoptsPods: a Job with a selector of its own counts a pod that was there before.
func TestJobAdoptsPods(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: "before",
			Labels: map[string]string{"queue": "a", batchv1.JobNameLabel: work.Name}, Annotations: lasting("1h")},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "work", Image: "worker"}}}}
		e.create(pod)
		e.waitIdle()
		manual := true
		e.create(aJob(2, lasting("1m"), func(s *batchv1.JobSpec) {
			s.ManualSelector, s.Selector = &manual, &metav1.LabelSelector{MatchLabels: map[string]string{"queue": "a"}}
			s.Template.Labels = map[string]string{"queue": "a", batchv1.JobNameLabel: work.Name}
		}))
		e.waitIdle()
		e.wantJob("", 2, 0, 0)
		if n := len(e.jobPods()); n != 2 {
			t.Errorf("%d pods", n)
		}
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(pod), pod))
		if !metav1.IsControlledBy(pod, e.job()) || !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
			t.Errorf("the pod was not adopted: %+v", pod.ObjectMeta)
		}
		e.must(e.Delete(e.Context(), pod))
		time.Sleep(5 * time.Minute) // virtual
		e.waitIdle()
		e.wantJob("SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 2, 1)
	})
}

// TestJobReplacesUnscheduledPods: with the policy Failed, a pod that is deleted before it had a node
// is replaced nevertheless.
func TestJobReplacesUnscheduledPods(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		policy := batchv1.Failed
		e.create(aJob(1, nil, func(s *batchv1.JobSpec) {
			s.PodReplacementPolicy = &policy
			s.Template.Spec.NodeSelector = map[string]string{"zone": "nowhere"}
		}))
		e.waitIdle()
		e.wantJob("", 1, 0, 0)
		first := e.jobPods()[0]
		e.must(e.Delete(e.Context(), &first))
		time.Sleep(2 * time.Minute) // virtual
		e.waitIdle()
		if list := e.jobPods(); len(list) != 1 || list[0].UID == first.UID {
			t.Errorf("%d pods, the first %s, deleted %v, %v", len(list), list[0].Status.Phase, list[0].DeletionTimestamp, list[0].Finalizers)
		}
		e.wantJob("", 1, 0, 1)
	})
}
