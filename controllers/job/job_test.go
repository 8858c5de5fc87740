package job_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func TestJobCompletes(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Job(3, nil))
		e.WaitIdle()
		e.WantJob("SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 3, 0)
		s := e.Job().Status
		if s.CompletionTime == nil || s.StartTime == nil || *s.Ready != 0 || *s.Terminating != 0 {
			t.Errorf("status %+v", s)
		}
		list := e.JobPods()
		for _, p := range list {
			if p.Status.Phase != corev1.PodSucceeded || len(p.Finalizers) > 0 || !metav1.IsControlledBy(&p, e.Job()) ||
				p.Labels["job-name"] != "work" || p.Labels[batchv1.ControllerUidLabel] != string(e.Job().UID) {
				t.Errorf("%s: %s, %+v", p.Name, p.Status.Phase, p.ObjectMeta)
			}
		}
		if len(list) != 3 {
			t.Errorf("%d pods", len(list))
		}
		events := e.Events("Job", "work")
		slices.Sort(events)
		if len(events) != 4 || events[0] != "Normal Completed job-controller: Job completed" ||
			!strings.HasPrefix(events[1], "Normal SuccessfulCreate job-controller: Created pod: work-") {
			t.Errorf("events %q", events)
		}
		e.Must(e.Delete(e.Context(), e.Job(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		e.WaitIdle()
		if n := len(e.JobPods()); n != 0 {
			t.Errorf("%d pods are left", n)
		}
	})
}

func TestJobBacksOff(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		limit := int32(3)
		e.CreateAll(controllerstest.Job(1, controllerstest.Failing("3"), func(s *batchv1.JobSpec) { s.BackoffLimit = &limit }))
		start := time.Now()
		time.Sleep(time.Hour) // virtual
		e.WaitIdle()
		e.WantJob("FailureTarget BackoffLimitExceeded, Failed BackoffLimitExceeded", 0, 0, 4)
		var at []time.Duration
		for _, p := range e.JobPods() {
			if s := p.Status; s.Phase != corev1.PodFailed || s.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
				t.Errorf("%s: %+v", p.Name, s)
			}
			at = append(at, p.CreationTimestamp.Sub(start).Round(time.Second))
		}
		if want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("pods were created after %v, want %v", at, want)
		}
		events := e.Events("Job", "work")
		if !slices.Contains(events, "Warning BackoffLimitExceeded job-controller: Job has reached the specified backoff limit") {
			t.Errorf("events %q", events)
		}
	})
}

func TestJobRestartsContainers(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		limit := int32(3)
		e.CreateAll(controllerstest.Job(1, controllerstest.Failing("1"), func(s *batchv1.JobSpec) {
			s.BackoffLimit = &limit
			s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}))
		e.WaitIdle()
		p := e.JobPods()[0]
		if s := p.Status.ContainerStatuses[0]; s.RestartCount != 2 || s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" {
			t.Errorf("after two restarts: %+v", s)
		}
		time.Sleep(time.Hour) // virtual
		e.WaitIdle()
		e.WantJob("FailureTarget BackoffLimitExceeded, Failed BackoffLimitExceeded", 0, 0, 1)
	})
}

func TestJobDeadline(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		deadline := int64(30)
		e.CreateAll(controllerstest.Job(2, controllerstest.Lasting("1h"), func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = &deadline }))
		e.WaitIdle()
		e.WantJob("", 2, 0, 0)
		if s := e.Job().Status; *s.Ready != 2 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(30 * time.Second) // virtual
		e.WaitIdle()
		e.WantJob("FailureTarget DeadlineExceeded, Failed DeadlineExceeded", 0, 0, 2)
		if n := len(e.JobPods()); n != 0 {
			t.Errorf("%d pods are left", n)
		}
	})
}

func TestSuspendedJob(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		suspend, deadline := true, int64(60)
		e.CreateAll(controllerstest.Job(2, controllerstest.Lasting("20s"), func(s *batchv1.JobSpec) { s.Suspend, s.ActiveDeadlineSeconds = &suspend, &deadline }))
		time.Sleep(time.Hour) // virtual
		e.WaitIdle()
		e.WantJob("Suspended JobSuspended", 0, 0, 0)
		if e.Job().Status.StartTime != nil {
			t.Error("the Job has started")
		}
		setSuspend := func(v bool) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Spec.Suspend = &v } }
		e.ChangeJob(setSuspend(false))
		e.WantJob("", 2, 0, 0)
		e.ChangeJob(setSuspend(true))
		e.WantJob("Suspended JobSuspended", 0, 0, 0)
		if n := len(e.JobPods()); n != 0 {
			t.Errorf("%d pods are left", n)
		}
		e.ChangeJob(setSuspend(false))
		time.Sleep(20 * time.Second) // virtual
		e.WantJob("SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 2, 0)
		events := strings.Join(e.Events("Job", "work"), "\n")
		for _, want := range []string{"Normal Suspended job-controller: Job suspended", "Normal Resumed job-controller: Job resumed"} {
			if !strings.Contains(events, want) {
				t.Errorf("no event %q in\n%s", want, events)
			}
		}
	})
}

func TestIndexedJob(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		limit, parallelism := int32(1), int32(2)
		e.CreateAll(controllerstest.Job(5, controllerstest.Lasting("1m"), controllerstest.OfIndexes, func(s *batchv1.JobSpec) {
			s.BackoffLimitPerIndex, s.Parallelism = &limit, &parallelism
		}))
		e.WaitIdle()
		fail := func(index string) {
			for _, p := range e.JobPods() {
				if p.Annotations[batchv1.JobCompletionIndexAnnotation] == index && p.Status.Phase == corev1.PodRunning {
					before := client.MergeFrom(p.DeepCopy())
					p.Annotations[pods.OutcomeAnnotation], p.Annotations[pods.DurationAnnotation] = pods.Failed, "0s"
					e.Must(e.Patch(e.Context(), &p, before))
				}
			}
			e.WaitIdle()
		}
		fail("1")
		time.Sleep(5 * time.Second) // virtual; the backoff
		fail("1")
		time.Sleep(time.Hour) // virtual
		e.WantJob("FailureTarget FailedIndexes, Failed FailedIndexes", 0, 4, 2)
		s := e.Job().Status
		if s.CompletedIndexes != "0,2-4" || s.FailedIndexes == nil || *s.FailedIndexes != "1" {
			t.Errorf("completed %q, failed %v", s.CompletedIndexes, s.FailedIndexes)
		}
		for _, p := range e.JobPods() {
			i := p.Annotations[batchv1.JobCompletionIndexAnnotation]
			env := p.Spec.Containers[0].Env
			if !strings.HasPrefix(p.Name, "work-"+i+"-") || p.Spec.Hostname != "work-"+i || p.Labels[batchv1.JobCompletionIndexAnnotation] != i ||
				len(env) != 1 || env[0].Name != "JOB_COMPLETION_INDEX" || len(p.Finalizers) > 0 {
				t.Errorf("index %s: %+v, %+v", i, p.ObjectMeta, p.Spec)
			}
		}
	})
}

func TestJobPolicies(t *testing.T) {
	failures := func(rules ...batchv1.PodFailurePolicyRule) func(*batchv1.JobSpec) {
		return func(s *batchv1.JobSpec) { s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules} }
	}
	on := func(action batchv1.PodFailurePolicyAction, code int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{code}}}
	}
	one := int32(1)
	for _, tt := range []struct {
		name              string
		job               *batchv1.Job
		conditions        string
		succeeded, failed int32
	}{
		{"FailJob", controllerstest.Job(1, controllerstest.Failing("42"), failures(on(batchv1.PodFailurePolicyActionFailJob, 42))),
			"FailureTarget PodFailurePolicy, Failed PodFailurePolicy", 0, 1},
		{"FailIndex", controllerstest.Job(1, controllerstest.Failing("42"), failures(on(batchv1.PodFailurePolicyActionFailIndex, 42)), controllerstest.OfIndexes,
			func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex = &one }), "FailureTarget FailedIndexes, Failed FailedIndexes", 0, 1},
		{"success policy", controllerstest.Job(3, nil, controllerstest.OfIndexes, func(s *batchv1.JobSpec) {
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: &one}}}
			s.Parallelism = &one
		}), "SuccessCriteriaMet SuccessPolicy, Complete SuccessPolicy", 1, 0},
		{"work queue", controllerstest.Job(0, nil, func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = nil, &one }),
			"SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 1, 0},
		{"no completions", controllerstest.Job(0, nil), "SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
				e.CreateAll(tt.job)
				e.WaitIdle()
				e.WantJob(tt.conditions, 0, tt.succeeded, tt.failed)
			})
		})
	}
}

func TestJobIgnoresDisruptions(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		limit := int32(0)
		e.CreateAll(controllerstest.Job(1, controllerstest.Lasting("30s"), func(s *batchv1.JobSpec) {
			s.BackoffLimit = &limit
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:      batchv1.PodFailurePolicyActionIgnore,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{143}},
			}}}
		}))
		e.WaitIdle()
		e.Must(e.Delete(e.Context(), &e.JobPods()[0]))
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		e.WantJob("SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 1, 0)
	})
}

// TestJobPodsAreDeleted deletes a pod and then the Job itself.
func TestJobPodsAreDeleted(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Job(1, controllerstest.Lasting("1h")))
		e.WaitIdle()
		first := e.JobPods()[0]
		e.Must(e.Delete(e.Context(), &first))
		time.Sleep(5 * time.Second) // virtual
		e.WantJob("", 0, 0, 1)      // the replacement waits
		e.WaitIdle()
		e.WantJob("", 1, 0, 1)
		for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
			e.Must(e.Delete(e.Context(), e.Job(), client.PropagationPolicy(policy)))
			e.WaitIdle()
			if n := len(e.JobPods()); n != 0 {
				t.Errorf("%d pods are left", n)
			}
			if err := e.Get(e.Context(), controllerstest.Work, &batchv1.Job{}); !apierrors.IsNotFound(err) {
				t.Errorf("the Job exists: %v", err)
			}
			e.CreateAll(controllerstest.Job(2, controllerstest.Lasting("1h")))
			e.WaitIdle()
		}
		e.Must(e.Delete(e.Context(), e.Job(), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		e.WaitIdle()
		for _, p := range e.JobPods() {
			if len(p.Finalizers) > 0 || len(p.OwnerReferences) > 0 {
				t.Errorf("an orphan: %+v", p.ObjectMeta)
			}
		}
		if n := len(e.JobPods()); n != 2 {
			t.Errorf("%d orphans", n)
		}
	})
}

func TestJobManagedByAnother(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		name := "example.com/queue"
		e.CreateAll(controllerstest.Job(1, nil, func(s *batchv1.JobSpec) { s.ManagedBy = &name }))
		e.WaitIdle()
		if s := e.Job().Status; s.StartTime != nil || len(e.JobPods()) > 0 {
			t.Errorf("status %+v", s)
		}
	})
}
