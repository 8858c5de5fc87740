package replicaset

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Unix(1_000_000, 0)

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func readyFor(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-d))}}
	}
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }
func failed(p *corev1.Pod)      { p.Status.Phase = corev1.PodFailed }
func pending(p *corev1.Pod)     { p.Status.Phase = corev1.PodPending }
func unscheduled(p *corev1.Pod) { p.Spec.NodeName = ""; pending(p) }

func set(replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 3},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		}},
	}
}

func TestReplicaDiff(t *testing.T) {
	for _, tt := range []struct {
		name    string
		desired int32
		has     []*corev1.Pod
		create  int
		delete  []string
	}{
		{name: "no pods", desired: 3, create: 3},
		{name: "enough", desired: 1, has: []*corev1.Pod{pod("a")}},
		{name: "terminated and terminating pods do not count", desired: 2, has: []*corev1.Pod{pod("a"), pod("b", terminating), pod("c", failed)}, create: 1},
		{name: "at most burstReplicas", desired: 10_000, create: burstReplicas},
		{name: "one too many: an unscheduled pod is deleted first", desired: 2,
			has:    []*corev1.Pod{pod("ready", readyFor(time.Hour)), pod("unscheduled", unscheduled), pod("pending", pending)},
			delete: []string{"unscheduled"}},
		{name: "the order of deletion", desired: 0,
			has: []*corev1.Pod{
				pod("old", readyFor(time.Hour)), pod("new", readyFor(time.Minute)), pod("unready"), pod("pending", pending),
				pod("cheap", readyFor(time.Hour), func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "-5"} }),
				pod("restarted", readyFor(time.Hour), func(p *corev1.Pod) {
					p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 4}}
				}),
			},
			delete: []string{"pending", "unready", "cheap", "new", "restarted", "old"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := replicaDiff(set(tt.desired), tt.has, nil, now)
			var names []string
			for _, d := range p.delete {
				names = append(names, d.Name)
			}
			if p.create != tt.create || !slices.Equal(names, tt.delete) {
				t.Errorf("create %d, delete %v; want %d, %v", p.create, names, tt.create, tt.delete)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	rs := set(5)
	rs.Spec.MinReadySeconds = 60
	status, after := statusOf(rs, []*corev1.Pod{
		pod("old", readyFor(time.Hour)), pod("new", readyFor(20*time.Second)), pod("unready"), pod("terminating", terminating), pod("failed", failed),
		pod("other", func(p *corev1.Pod) { p.Labels = nil }),
	}, nil, now)
	want := appsv1.ReplicaSetStatus{
		ObservedGeneration: 3, Replicas: 4, FullyLabeledReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 1, TerminatingReplicas: new(int32),
	}
	*want.TerminatingReplicas = 1
	if d := cmp.Diff(want, status); d != "" {
		t.Error(d)
	}
	if after != 40*time.Second {
		t.Errorf("the next pod is available after %s", after)
	}

	status, _ = statusOf(rs, nil, &failure{"FailedCreate", errors.New("no room")}, now)
	if c := status.Conditions; len(c) != 1 || c[0].Reason != "FailedCreate" || c[0].Message != "no room" {
		t.Errorf("conditions %v", c)
	}
	rs.Status = status
	for _, reason := range []string{"FailedCreate", "FailedDelete"} {
		if again, _ := statusOf(rs, nil, &failure{reason, errors.New("still no room for another pod")}, now.Add(time.Hour)); !cmp.Equal(status, again) {
			t.Errorf("after another failure %s", cmp.Diff(status, again))
		}
	}
	if status, _ = statusOf(rs, nil, nil, now); len(status.Conditions) != 0 {
		t.Errorf("the failure stays: %v", status.Conditions)
	}
}
