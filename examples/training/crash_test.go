package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/crash"
	"flyball.dev/examples/internal/example"
	trainingv1 "flyball.dev/examples/training/api/v1"
	"flyball.dev/examples/training/internal/controller"
)

// TestCrash crashes the operator before and after each write of a training in which a worker fails.
// It ends as without a crash: complete after one restart.
func TestCrash(t *testing.T) { crashEverywhere(t, 10, train) }

// TestCrashLoop does the same with a worker that has always failed before the operator sees it. It
// gets no more attempts than without a crash.
func TestCrashLoop(t *testing.T) { crashEverywhere(t, 5, failAlways) }

// crashEverywhere runs a training with each restart policy and a crash at each point, until run
// reports that there was none. There must be at least so many writes.
func crashEverywhere(t *testing.T, writes int,
	run func(*testing.T, *example.World, trainingv1.RestartPolicy, crash.Point) bool) {
	for _, policy := range []trainingv1.RestartPolicy{trainingv1.ReplaceFailed, trainingv1.RestartAll} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plane, err := controlplane.Start(context.Background(), controlplane.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer plane.Stop()
				w, err := example.NewWorld(t.Context(), training, plane.Config())
				if err != nil {
					t.Fatal(err)
				}
				for write := 0; ; write++ {
					before := run(t, w, policy, crash.Point{Write: write})
					after := run(t, w, policy, crash.Point{Write: write, After: true})
					if write > 0 && !before && !after {
						if write <= writes {
							t.Errorf("there were only %d writes", write-1)
						}
						return // there is no such write
					}
				}
			})
		})
	}
}

// newReconciler returns a reconciler with a client that crashes.
func newReconciler(c *crash.Client, live client.Reader) *controller.TrainingJobReconciler {
	return &controller.TrainingJobReconciler{Client: c, Live: live, Scheme: c.Scheme(),
		Recorder: &events.FakeRecorder{}, Clock: clock.RealClock{}}
}

// failAlways runs a training with a worker that always fails, and reports whether the crash has
// happened.
func failAlways(t *testing.T, w *example.World, policy trainingv1.RestartPolicy, p crash.Point) bool {
	t.Helper()
	job := &trainingv1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("f-%d-%t", p.Write, p.After)},
		Spec: trainingv1.TrainingJobSpec{
			Image: "example.com/train:1", Workers: 1, RestartPolicy: policy, BackoffLimit: 1,
			WorkerAnnotations: map[string]string{"flyball.dev/outcome": "Failed"},
		},
	}
	if err := w.Client.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	c := crash.NewClient(w.Client, p)
	reconcileUntil(t, newReconciler(c, w.Client), job, trainingv1.ConditionFailed, 1)
	created := slices.DeleteFunc(slices.Clone(c.Writes), func(s string) bool {
		return s != "create *v1.Pod "+job.Name+"-worker-0"
	})
	if len(created) != 2 {
		t.Errorf("crash %v: the writes were %q", p, c.Writes)
	}
	return c.Crashed
}

// train runs a training with a crash, and reports whether that has happened.
func train(t *testing.T, w *example.World, policy trainingv1.RestartPolicy, p crash.Point) bool {
	t.Helper()
	job := &trainingv1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("t-%d-%t", p.Write, p.After)},
		Spec: trainingv1.TrainingJobSpec{
			Image: "example.com/train:1", Workers: 2, ParameterServers: 1, RestartPolicy: policy, BackoffLimit: 1,
		},
	}
	if err := w.Client.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	c := crash.NewClient(w.Client, p)
	r := newReconciler(c, w.Client)
	reconcileUntil(t, r, job, trainingv1.ConditionRunning, 0)
	end(t, w, job.Name+"-worker-0", "Failed")
	reconcileUntil(t, r, job, trainingv1.ConditionRunning, 1)
	end(t, w, job.Name+"-worker-0", "Succeeded")
	end(t, w, job.Name+"-worker-1", "Succeeded")
	reconcileUntil(t, r, job, trainingv1.ConditionComplete, 1)
	pods := &corev1.PodList{}
	if err := w.Client.List(t.Context(), pods, client.InNamespace("default"),
		client.MatchingLabels{controller.JobLabel: job.Name}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodSucceeded {
			t.Errorf("crash %v: the Pod %s is %s", p, pod.Name, pod.Status.Phase)
		}
	}
	if job.Status.Succeeded != 2 || len(pods.Items) != 2 {
		t.Errorf("crash %v: %d Pods, and the status %+v", p, len(pods.Items), job.Status)
	}
	return c.Crashed
}

// reconcileUntil reconciles a TrainingJob again and again, with a second in between, and checks that a
// condition is true then, after so many restarts.
func reconcileUntil(t *testing.T, r *controller.TrainingJobReconciler, job *trainingv1.TrainingJob, condition string,
	restarts int32) {
	t.Helper()
	for range 8 {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)})
		if err != nil && !errors.Is(err, crash.Err) {
			t.Fatal(err)
		}
		r.Client.(*crash.Client).Restart()
		time.Sleep(time.Second)
		synctest.Wait()
	}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(job.Status.Conditions, condition) || job.Status.Restarts != restarts {
		t.Fatalf("%s: %s is not true after %d restarts: %+v", job.Name, condition, restarts, job.Status)
	}
}

// end makes the container of a Pod end with an outcome.
func end(t *testing.T, w *example.World, name, outcome string) {
	t.Helper()
	pod := &corev1.Pod{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, pod); err != nil {
		t.Fatal(err)
	}
	before := client.MergeFrom(pod.DeepCopy())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "flyball.dev/outcome", outcome)
	if err := w.Client.Patch(t.Context(), pod, before); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	synctest.Wait()
}
