package controllers_test

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
	"flyball.dev/ctrl/client"
)

var work = client.ObjectKey{Namespace: "default", Name: "work"}

// aJob returns a Job with some completions, and the annotations of its pods.
func aJob(completions int32, annotations map[string]string, change ...func(*batchv1.JobSpec)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name},
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

func failing(code string) map[string]string { return map[string]string{pods.ExitCodeAnnotation: code} }

func lasting(d string) map[string]string { return map[string]string{pods.DurationAnnotation: d} }

func ofIndexes(s *batchv1.JobSpec) {
	mode := batchv1.IndexedCompletion
	s.CompletionMode = &mode
}

func (e env) job() *batchv1.Job {
	e.Helper()
	j := &batchv1.Job{}
	e.must(e.Get(e.Context(), work, j))
	return j
}

// changeJob patches the Job and waits until the controllers are idle.
func (e env) changeJob(change func(*batchv1.Job)) {
	e.Helper()
	j := e.job()
	before := client.MergeFrom(j.DeepCopy())
	change(j)
	e.must(e.Patch(e.Context(), j, before))
	e.waitIdle()
}

// conditions returns the types and reasons of the true conditions of the Job.
func (e env) conditions() string {
	e.Helper()
	var list []string
	for _, c := range e.job().Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			list = append(list, string(c.Type)+" "+c.Reason)
		}
	}
	return strings.Join(list, ", ")
}

// wantJob compares the true conditions of the Job, and its counters.
func (e env) wantJob(conditions string, active, succeeded, failed int32) {
	e.Helper()
	if got := e.conditions(); got != conditions {
		e.Errorf("the conditions are %q, want %q", got, conditions)
	}
	s := e.job().Status
	if s.Active != active || s.Succeeded != succeeded || s.Failed != failed {
		e.Errorf("active %d, succeeded %d, failed %d; want %d, %d, %d", s.Active, s.Succeeded, s.Failed, active, succeeded, failed)
	}
	if u := s.UncountedTerminatedPods; u == nil || len(u.Succeeded)+len(u.Failed) > 0 {
		e.Errorf("uncounted pods: %v", u)
	}
}

// jobPods returns the pods of the Job, in the order of their creation.
func (e env) jobPods() []corev1.Pod {
	e.Helper()
	list := &corev1.PodList{}
	e.must(e.List(e.Context(), list, client.InNamespace(work.Namespace), client.MatchingLabels{batchv1.JobNameLabel: work.Name}))
	slices.SortStableFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items
}

func TestJobCompletes(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(aJob(3, nil))
		e.waitIdle()
		e.wantJob("SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 3, 0)
		s := e.job().Status
		if s.CompletionTime == nil || s.StartTime == nil || *s.Ready != 0 || *s.Terminating != 0 {
			t.Errorf("status %+v", s)
		}
		list := e.jobPods()
		for _, p := range list {
			if p.Status.Phase != corev1.PodSucceeded || len(p.Finalizers) > 0 || !metav1.IsControlledBy(&p, e.job()) ||
				p.Labels["job-name"] != "work" || p.Labels[batchv1.ControllerUidLabel] != string(e.job().UID) {
				t.Errorf("%s: %s, %+v", p.Name, p.Status.Phase, p.ObjectMeta)
			}
		}
		if len(list) != 3 {
			t.Errorf("%d pods", len(list))
		}
		events := e.events("Job", "work")
		slices.Sort(events)
		if len(events) != 4 || events[0] != "Normal Completed job-controller: Job completed" ||
			!strings.HasPrefix(events[1], "Normal SuccessfulCreate job-controller: Created pod: work-") {
			t.Errorf("events %q", events)
		}
		e.must(e.Delete(e.Context(), e.job(), client.PropagationPolicy(background)))
		e.waitIdle()
		if n := len(e.jobPods()); n != 0 {
			t.Errorf("%d pods are left", n)
		}
	})
}

func TestJobBacksOff(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		limit := int32(3)
		e.create(aJob(1, failing("3"), func(s *batchv1.JobSpec) { s.BackoffLimit = &limit }))
		start := time.Now()
		time.Sleep(time.Hour) // virtual
		e.waitIdle()
		e.wantJob("FailureTarget BackoffLimitExceeded, Failed BackoffLimitExceeded", 0, 0, 4)
		var at []time.Duration
		for _, p := range e.jobPods() {
			if s := p.Status; s.Phase != corev1.PodFailed || s.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
				t.Errorf("%s: %+v", p.Name, s)
			}
			at = append(at, p.CreationTimestamp.Sub(start).Round(time.Second))
		}
		if want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("pods were created after %v, want %v", at, want)
		}
		events := e.events("Job", "work")
		if !slices.Contains(events, "Warning BackoffLimitExceeded job-controller: Job has reached the specified backoff limit") {
			t.Errorf("events %q", events)
		}
	})
}

func TestJobRestartsContainers(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		limit := int32(3)
		e.create(aJob(1, failing("1"), func(s *batchv1.JobSpec) {
			s.BackoffLimit = &limit
			s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}))
		e.waitIdle()
		p := e.jobPods()[0]
		if s := p.Status.ContainerStatuses[0]; s.RestartCount != 2 || s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" {
			t.Errorf("after two restarts: %+v", s)
		}
		time.Sleep(time.Hour) // virtual
		e.waitIdle()
		e.wantJob("FailureTarget BackoffLimitExceeded, Failed BackoffLimitExceeded", 0, 0, 1)
	})
}

func TestJobDeadline(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		deadline := int64(30)
		e.create(aJob(2, lasting("1h"), func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = &deadline }))
		e.waitIdle()
		e.wantJob("", 2, 0, 0)
		if s := e.job().Status; *s.Ready != 2 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(30 * time.Second) // virtual
		e.waitIdle()
		e.wantJob("FailureTarget DeadlineExceeded, Failed DeadlineExceeded", 0, 0, 2)
		if n := len(e.jobPods()); n != 0 {
			t.Errorf("%d pods are left", n)
		}
	})
}

func TestSuspendedJob(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		suspend, deadline := true, int64(60)
		e.create(aJob(2, lasting("20s"), func(s *batchv1.JobSpec) { s.Suspend, s.ActiveDeadlineSeconds = &suspend, &deadline }))
		time.Sleep(time.Hour) // virtual
		e.waitIdle()
		e.wantJob("Suspended JobSuspended", 0, 0, 0)
		if e.job().Status.StartTime != nil {
			t.Error("the Job has started")
		}
		setSuspend := func(v bool) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Spec.Suspend = &v } }
		e.changeJob(setSuspend(false))
		e.wantJob("", 2, 0, 0)
		e.changeJob(setSuspend(true))
		e.wantJob("Suspended JobSuspended", 0, 0, 0)
		if n := len(e.jobPods()); n != 0 {
			t.Errorf("%d pods are left", n)
		}
		e.changeJob(setSuspend(false))
		time.Sleep(20 * time.Second) // virtual
		e.wantJob("SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 2, 0)
		events := strings.Join(e.events("Job", "work"), "\n")
		for _, want := range []string{"Normal Suspended job-controller: Job suspended", "Normal Resumed job-controller: Job resumed"} {
			if !strings.Contains(events, want) {
				t.Errorf("no event %q in\n%s", want, events)
			}
		}
	})
}

func TestIndexedJob(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		limit, parallelism := int32(1), int32(2)
		e.create(aJob(5, lasting("1m"), ofIndexes, func(s *batchv1.JobSpec) {
			s.BackoffLimitPerIndex, s.Parallelism = &limit, &parallelism
		}))
		e.waitIdle()
		fail := func(index string) {
			for _, p := range e.jobPods() {
				if p.Annotations[batchv1.JobCompletionIndexAnnotation] == index && p.Status.Phase == corev1.PodRunning {
					before := client.MergeFrom(p.DeepCopy())
					p.Annotations[pods.OutcomeAnnotation], p.Annotations[pods.DurationAnnotation] = pods.Failed, "0s"
					e.must(e.Patch(e.Context(), &p, before))
				}
			}
			e.waitIdle()
		}
		fail("1")
		time.Sleep(5 * time.Second) // virtual; the backoff
		fail("1")
		time.Sleep(time.Hour) // virtual
		e.wantJob("FailureTarget FailedIndexes, Failed FailedIndexes", 0, 4, 2)
		s := e.job().Status
		if s.CompletedIndexes != "0,2-4" || s.FailedIndexes == nil || *s.FailedIndexes != "1" {
			t.Errorf("completed %q, failed %v", s.CompletedIndexes, s.FailedIndexes)
		}
		for _, p := range e.jobPods() {
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
		{"FailJob", aJob(1, failing("42"), failures(on(batchv1.PodFailurePolicyActionFailJob, 42))),
			"FailureTarget PodFailurePolicy, Failed PodFailurePolicy", 0, 1},
		{"FailIndex", aJob(1, failing("42"), failures(on(batchv1.PodFailurePolicyActionFailIndex, 42)), ofIndexes,
			func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex = &one }), "FailureTarget FailedIndexes, Failed FailedIndexes", 0, 1},
		{"success policy", aJob(3, nil, ofIndexes, func(s *batchv1.JobSpec) {
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: &one}}}
			s.Parallelism = &one
		}), "SuccessCriteriaMet SuccessPolicy, Complete SuccessPolicy", 1, 0},
		{"work queue", aJob(0, nil, func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = nil, &one }),
			"SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 1, 0},
		{"no completions", aJob(0, nil), "SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, controllers.Options{}, func(e env) {
				e.create(tt.job)
				e.waitIdle()
				e.wantJob(tt.conditions, 0, tt.succeeded, tt.failed)
			})
		})
	}
}

func TestJobIgnoresDisruptions(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		limit := int32(0)
		e.create(aJob(1, lasting("30s"), func(s *batchv1.JobSpec) {
			s.BackoffLimit = &limit
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:      batchv1.PodFailurePolicyActionIgnore,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{143}},
			}}}
		}))
		e.waitIdle()
		e.must(e.Delete(e.Context(), &e.jobPods()[0]))
		time.Sleep(time.Minute) // virtual
		e.waitIdle()
		e.wantJob("SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 1, 0)
	})
}

// TestJobPodsAreDeleted deletes a pod and then the Job itself.
func TestJobPodsAreDeleted(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(aJob(1, lasting("1h")))
		e.waitIdle()
		first := e.jobPods()[0]
		e.must(e.Delete(e.Context(), &first))
		time.Sleep(5 * time.Second) // virtual
		e.wantJob("", 0, 0, 1)      // the replacement waits
		e.waitIdle()
		e.wantJob("", 1, 0, 1)
		for _, policy := range []metav1.DeletionPropagation{background, metav1.DeletePropagationForeground} {
			e.must(e.Delete(e.Context(), e.job(), client.PropagationPolicy(policy)))
			e.waitIdle()
			if n := len(e.jobPods()); n != 0 {
				t.Errorf("%d pods are left", n)
			}
			if err := e.Get(e.Context(), work, &batchv1.Job{}); !apierrors.IsNotFound(err) {
				t.Errorf("the Job exists: %v", err)
			}
			e.create(aJob(2, lasting("1h")))
			e.waitIdle()
		}
		e.must(e.Delete(e.Context(), e.job(), client.PropagationPolicy(orphan)))
		e.waitIdle()
		for _, p := range e.jobPods() {
			if len(p.Finalizers) > 0 || len(p.OwnerReferences) > 0 {
				t.Errorf("an orphan: %+v", p.ObjectMeta)
			}
		}
		if n := len(e.jobPods()); n != 2 {
			t.Errorf("%d orphans", n)
		}
	})
}

func TestJobManagedByAnother(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		name := "example.com/queue"
		e.create(aJob(1, nil, func(s *batchv1.JobSpec) { s.ManagedBy = &name }))
		e.waitIdle()
		if s := e.job().Status; s.StartTime != nil || len(e.jobPods()) > 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestTTLAfterFinished(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		ttl := int32(100)
		e.create(aJob(1, nil, func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = &ttl }))
		time.Sleep(80 * time.Second) // virtual
		e.changeJob(func(j *batchv1.Job) { longer := int32(200); j.Spec.TTLSecondsAfterFinished = &longer })
		time.Sleep(80 * time.Second)
		e.waitIdle()
		e.job() // exists
		time.Sleep(time.Minute)
		e.waitIdle()
		if err := e.Get(e.Context(), work, &batchv1.Job{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Job exists: %v", err)
		}
		if n := len(e.jobPods()); n != 0 {
			t.Errorf("%d pods are left", n)
		}
	})
}
