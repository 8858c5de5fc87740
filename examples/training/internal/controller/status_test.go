package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trainingv1 "flyball.dev/examples/training/api/v1"
)

// pod returns a Pod, with a UID that has its name, and with changes.
func pod(name string, phase corev1.PodPhase, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	p.Status.Phase = phase
	for _, change := range changes {
		change(p)
	}
	return p
}

// uid gives a Pod another UID.
func uid(uid types.UID) func(*corev1.Pod) { return func(p *corev1.Pod) { p.UID = uid } }

// terminating makes a Pod terminate with a grace period in seconds.
func terminating(grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.NewTime(time.Unix(0, 0))), &grace
	}
}

// record returns the record of a Pod that [pod] returns.
func record(name string, phase trainingv1.PodPhase) trainingv1.PodStatus {
	return trainingv1.PodStatus{Name: name, UID: types.UID(name), Phase: phase}
}

// The members of the TrainingJob of the tests.
const ps, w0, w1 = "t-ps-0", "t-worker-0", "t-worker-1"

// TestStep checks the next status and the plan that follows from it.
func TestStep(t *testing.T) {
	const pending, running, succeeded, failed = corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed
	all := []trainingv1.PodStatus{record(ps, trainingv1.PodRunning), record(w0, trainingv1.PodRunning),
		record(w1, trainingv1.PodRunning)}
	for _, tt := range []struct {
		name     string
		policy   trainingv1.RestartPolicy
		restarts int32
		recorded []trainingv1.PodStatus
		pods     []*corev1.Pod
		lost     string // the Pod that is lost

		phases       []trainingv1.PodPhase // of the recorded Pods
		wantRestarts int32
		remove       []string // with "!" if by force
		create       []string
		condition    string // the one that is true
	}{
		{name: "nothing exists", create: []string{ps, w0, w1}},
		{name: "one was created, and is not recorded", pods: []*corev1.Pod{pod(ps, pending)},
			phases: []trainingv1.PodPhase{"Pending"}, create: []string{w0, w1}},
		{name: "all run", recorded: all, pods: []*corev1.Pod{pod(ps, running), pod(w0, running), pod(w1, running)},
			phases: []trainingv1.PodPhase{"Running", "Running", "Running"}, condition: "Running"},
		{name: "a worker has failed", recorded: all, pods: []*corev1.Pod{pod(ps, running), pod(w0, failed), pod(w1, running)},
			phases: []trainingv1.PodPhase{"Running", "Replaced", "Running"}, wantRestarts: 1, remove: []string{w0}},
		{name: "it is counted, and still there", restarts: 1,
			recorded: []trainingv1.PodStatus{all[0], record(w0, trainingv1.PodReplaced), all[2]},
			pods:     []*corev1.Pod{pod(ps, running), pod(w0, failed), pod(w1, running)},
			phases:   []trainingv1.PodPhase{"Running", "Replaced", "Running"}, wantRestarts: 1, remove: []string{w0}},
		{name: "it is being deleted", restarts: 1,
			recorded: []trainingv1.PodStatus{all[0], record(w0, trainingv1.PodReplaced), all[2]},
			pods:     []*corev1.Pod{pod(ps, running), pod(w0, failed, terminating(30)), pod(w1, running)},
			phases:   []trainingv1.PodPhase{"Running", "Replaced", "Running"}, wantRestarts: 1},
		{name: "it is gone", restarts: 1,
			recorded: []trainingv1.PodStatus{all[0], record(w0, trainingv1.PodReplaced), all[2]},
			pods:     []*corev1.Pod{pod(ps, running), pod(w1, running)},
			phases:   []trainingv1.PodPhase{"Running", "Replaced", "Running"}, wantRestarts: 1, create: []string{w0}},
		{name: "its successor runs", restarts: 1,
			recorded: []trainingv1.PodStatus{all[0], record(w0, trainingv1.PodReplaced), all[2]},
			pods:     []*corev1.Pod{pod(ps, running), pod(w0, running, uid("new")), pod(w1, running)},
			phases:   []trainingv1.PodPhase{"Running", "Running", "Running"}, wantRestarts: 1, condition: "Running"},
		{name: "its successor fails at once", restarts: 1,
			recorded: []trainingv1.PodStatus{all[0], record(w0, trainingv1.PodReplaced), all[2]},
			pods:     []*corev1.Pod{pod(ps, running), pod(w0, failed, uid("new")), pod(w1, running)},
			phases:   []trainingv1.PodPhase{"Running", "Replaced", "Running"}, wantRestarts: 2, remove: []string{w0}},
		{name: "two fail at once", recorded: all, pods: []*corev1.Pod{pod(ps, failed), pod(w0, failed), pod(w1, running)},
			phases: []trainingv1.PodPhase{"Replaced", "Replaced", "Running"}, wantRestarts: 2, remove: []string{ps, w0}},
		{name: "two fail at once, one restart is left", restarts: 1, recorded: all,
			pods:   []*corev1.Pod{pod(ps, failed), pod(w0, failed), pod(w1, running)},
			phases: []trainingv1.PodPhase{"Failed", "Failed", "Running"}, wantRestarts: 1, remove: []string{w1}, condition: "Failed"},
		{name: "two fail at once, all are restarted", policy: trainingv1.RestartAll, restarts: 1, recorded: all,
			pods:   []*corev1.Pod{pod(ps, failed), pod(w0, failed), pod(w1, running)},
			phases: []trainingv1.PodPhase{"Replaced", "Replaced", "Replaced"}, wantRestarts: 2, remove: []string{ps, w0, w1}},
		{name: "all are restarted, one is still there", policy: trainingv1.RestartAll, restarts: 1,
			recorded: []trainingv1.PodStatus{record(ps, trainingv1.PodReplaced), record(w0, trainingv1.PodReplaced),
				record(w1, trainingv1.PodReplaced)},
			pods:   []*corev1.Pod{pod(w1, running, terminating(30))},
			phases: []trainingv1.PodPhase{"Replaced", "Replaced", "Replaced"}, wantRestarts: 1},
		{name: "a worker has succeeded, and all are restarted", policy: trainingv1.RestartAll,
			recorded: []trainingv1.PodStatus{all[0], record(w0, trainingv1.PodSucceeded), all[2]},
			pods:     []*corev1.Pod{pod(ps, running), pod(w0, succeeded), pod(w1, failed)},
			phases:   []trainingv1.PodPhase{"Replaced", "Replaced", "Replaced"}, wantRestarts: 1, remove: []string{ps, w0, w1}},
		{name: "a worker was deleted", recorded: all, pods: []*corev1.Pod{pod(ps, running), pod(w1, running)},
			phases: []trainingv1.PodPhase{"Running", "Replaced", "Running"}, wantRestarts: 1, create: []string{w0}},
		{name: "a worker was deleted, and somebody has created it again", recorded: all,
			pods:   []*corev1.Pod{pod(ps, running), pod(w0, running, uid("new")), pod(w1, running)},
			phases: []trainingv1.PodPhase{"Running", "Replaced", "Running"}, wantRestarts: 1},
		{name: "the node of a worker is lost", recorded: all, lost: w0,
			pods:   []*corev1.Pod{pod(ps, running), pod(w0, running), pod(w1, running)},
			phases: []trainingv1.PodPhase{"Running", "Replaced", "Running"}, wantRestarts: 1, remove: []string{w0 + "!"}},
		{name: "its deletion is not confirmed", restarts: 1, lost: w0,
			recorded: []trainingv1.PodStatus{all[0], record(w0, trainingv1.PodReplaced), all[2]},
			pods:     []*corev1.Pod{pod(ps, running), pod(w0, running, terminating(30)), pod(w1, running)},
			phases:   []trainingv1.PodPhase{"Running", "Replaced", "Running"}, wantRestarts: 1, remove: []string{w0 + "!"}},
		{name: "a finalizer holds it", restarts: 1, lost: w0,
			recorded: []trainingv1.PodStatus{all[0], record(w0, trainingv1.PodReplaced), all[2]},
			pods:     []*corev1.Pod{pod(ps, running), pod(w0, running, terminating(0)), pod(w1, running)},
			phases:   []trainingv1.PodPhase{"Running", "Replaced", "Running"}, wantRestarts: 1},
		{name: "a worker has succeeded, and its Pod is gone",
			recorded: []trainingv1.PodStatus{all[0], record(w0, trainingv1.PodSucceeded), all[2]},
			pods:     []*corev1.Pod{pod(ps, running), pod(w1, running)},
			phases:   []trainingv1.PodPhase{"Running", "Succeeded", "Running"}, condition: "Running"},
		{name: "the parameter server has ended", recorded: all,
			pods:   []*corev1.Pod{pod(ps, succeeded), pod(w0, running), pod(w1, running)},
			phases: []trainingv1.PodPhase{"Replaced", "Running", "Running"}, wantRestarts: 1, remove: []string{ps}},
		{name: "all workers have succeeded", recorded: all,
			pods:   []*corev1.Pod{pod(ps, running), pod(w0, succeeded), pod(w1, succeeded)},
			phases: []trainingv1.PodPhase{"Running", "Succeeded", "Succeeded"}, remove: []string{ps}, condition: "Complete"},
		{name: "all workers have succeeded, and the parameter server has failed", recorded: all, restarts: 2,
			pods:   []*corev1.Pod{pod(ps, failed), pod(w0, succeeded), pod(w1, succeeded)},
			phases: []trainingv1.PodPhase{"Replaced", "Succeeded", "Succeeded"}, wantRestarts: 2, condition: "Complete"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			job := &trainingv1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "t", Generation: 3}}
			job.Spec = trainingv1.TrainingJobSpec{Workers: 2, ParameterServers: 1, RestartPolicy: tt.policy, BackoffLimit: 2}
			job.Status = trainingv1.TrainingJobStatus{Restarts: tt.restarts, Pods: tt.recorded}
			o := &observation{job: job, pods: map[string]*corev1.Pod{}, lost: map[types.UID]string{}}
			for _, p := range tt.pods {
				o.pods[p.Name] = p
			}
			if tt.lost != "" {
				o.lost[types.UID(tt.lost)] = "its node is lost"
			}
			before := job.DeepCopy()
			status, _ := o.nextStatus()
			p := o.plan(status)

			var phases []trainingv1.PodPhase
			for _, p := range status.Pods {
				phases = append(phases, p.Phase)
			}
			var remove, create []string
			for _, d := range p.remove {
				if d.force {
					remove = append(remove, d.pod.Name+"!")
				} else {
					remove = append(remove, d.pod.Name)
				}
			}
			for _, m := range p.create {
				create = append(create, m.podName(job))
			}
			if !slices.Equal(phases, tt.phases) || status.Restarts != tt.wantRestarts || status.ObservedGeneration != 3 {
				t.Errorf("the status is %+v, want phases %v and %d restarts", status, tt.phases, tt.wantRestarts)
			}
			if !slices.Equal(remove, tt.remove) || !slices.Equal(create, tt.create) {
				t.Errorf("remove %v, create %v, want %v, %v", remove, create, tt.remove, tt.create)
			}
			for _, kind := range []string{trainingv1.ConditionRunning, trainingv1.ConditionComplete, trainingv1.ConditionFailed} {
				if meta.IsStatusConditionTrue(status.Conditions, kind) != (kind == tt.condition) {
					t.Errorf("the conditions are %+v, want %s", status.Conditions, tt.condition)
				}
			}
			if diff := cmp.Diff(before, job); diff != "" {
				t.Errorf("the TrainingJob was changed: %s", diff)
			}
		})
	}
}

// TestSummary checks that a sentence about all Pods of the greatest TrainingJob fits into an event.
func TestSummary(t *testing.T) {
	if got := summary([]string{"a", "b"}); got != "a, b" {
		t.Errorf("got %q", got)
	}
	all := slices.Repeat([]string{"the Pod " + strings.Repeat("a", 50) + "-worker-63 is being deleted"}, 72)
	if got := summary(all); len(got) > 512 || !strings.HasSuffix(got, " and 67 more") {
		t.Errorf("got %q", got)
	}
}
