package deployment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConditions(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	progressing := func(status corev1.ConditionStatus, reason string, age time.Duration) []appsv1.DeploymentCondition {
		at := metav1.NewTime(start.Add(-age))
		return []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason, LastUpdateTime: at, LastTransitionTime: at}}
	}
	for _, tt := range []struct {
		name    string
		change  func(*appsv1.Deployment)
		was     []appsv1.DeploymentCondition
		sets    []*appsv1.ReplicaSet
		created bool
		// Available, then Progressing
		want [2]string
	}{
		{name: "new", sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0)}, created: true,
			want: [2]string{"False MinimumReplicasUnavailable", "True NewReplicaSetCreated"}},
		{name: "progressing", was: progressing("True", "NewReplicaSetCreated", time.Hour), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 2)},
			want: [2]string{"False MinimumReplicasUnavailable", "True ReplicaSetUpdated"}},
		{name: "complete", was: progressing("True", "ReplicaSetUpdated", time.Hour), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4)},
			want: [2]string{"True MinimumReplicasAvailable", "True NewReplicaSetAvailable"}},
		{name: "complete, then a pod is lost", was: progressing("True", "NewReplicaSetAvailable", time.Hour), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 3)},
			want: [2]string{"True MinimumReplicasAvailable", "True NewReplicaSetAvailable"}},
		{name: "a new ReplicaSet is found", sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0)},
			want: [2]string{"False MinimumReplicasUnavailable", "True FoundNewReplicaSet"}},
		{name: "no ReplicaSet", want: [2]string{"False MinimumReplicasUnavailable", ""}},
		{name: "no progress for a minute", was: progressing("True", "ReplicaSetUpdated", time.Minute), sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0)},
			want: [2]string{"False MinimumReplicasUnavailable", "True ReplicaSetUpdated"}},
		{name: "no progress for an hour", was: progressing("True", "ReplicaSetUpdated", time.Hour), sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0)},
			want: [2]string{"False MinimumReplicasUnavailable", "False ProgressDeadlineExceeded"}},
		{name: "no deadline", change: func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = nil },
			was: progressing("True", "ReplicaSetUpdated", time.Hour), sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0)},
			want: [2]string{"False MinimumReplicasUnavailable", ""}},
		{name: "paused", change: paused, was: progressing("True", "ReplicaSetUpdated", time.Hour), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4)},
			want: [2]string{"True MinimumReplicasAvailable", "Unknown DeploymentPaused"}},
		{name: "paused after the deadline", change: paused, was: progressing("False", "ProgressDeadlineExceeded", time.Minute), sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0)},
			want: [2]string{"False MinimumReplicasUnavailable", "False ProgressDeadlineExceeded"}},
		{name: "resumed", was: progressing("Unknown", "DeploymentPaused", time.Hour), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 2)},
			want: [2]string{"False MinimumReplicasUnavailable", "True ReplicaSetUpdated"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := deploymentOf(4, "a")
			if tt.change != nil {
				tt.change(d)
			}
			d.Status.Conditions = tt.was
			last := step{rollout: !d.Spec.Paused}
			if tt.created {
				last.create = tt.sets[0]
			}
			var got [2]string
			newRS, _ := findNewAndOld(d, tt.sets)
			if news := pausedOrResumed(d, start); news != nil {
				d.Status.Conditions = news
			}
			d.Status.Conditions = announced(d, newRS, last, start)
			for _, c := range conditionsOf(d, tt.sets, statusOf(d, tt.sets), last.rollout, start) {
				text := string(c.Status) + " " + c.Reason
				if c.Type == appsv1.DeploymentAvailable {
					got[0] = text
				} else {
					got[1] = text
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestReplicaFailure: the condition has the times of the ReplicaSet's.
func TestReplicaFailure(t *testing.T) {
	at := metav1.NewTime(time.Unix(7, 0))
	rs := setOf("a", 1, 0, 0)
	rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: "True", Reason: "FailedCreate",
		LastTransitionTime: at}}
	d, sets := deploymentOf(4, "a"), []*appsv1.ReplicaSet{rs}
	c := &conditions{list: conditionsOf(d, sets, statusOf(d, sets), true, time.Unix(1_000_000, 0))}
	want := &appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: "True", Reason: "FailedCreate",
		LastUpdateTime: at, LastTransitionTime: at}
	if d := cmp.Diff(want, c.get(appsv1.DeploymentReplicaFailure)); d != "" {
		t.Error(d)
	}
}

// TestTerminatingReplicas: the number is unknown if a ReplicaSet that was reconciled does not report it.
func TestTerminatingReplicas(t *testing.T) {
	silent := setOf("a", 1, 3, 2)
	silent.Status.ObservedGeneration = 1
	if got := terminatingReplicas([]*appsv1.ReplicaSet{silent, setOf("b", 2, 2, 1)}); got != nil {
		t.Errorf("%d", *got)
	}
}

func TestStatusCounts(t *testing.T) {
	d := deploymentOf(4, "b", func(d *appsv1.Deployment) { d.Generation = 7 })
	got := statusOf(d, []*appsv1.ReplicaSet{setOf("a", 1, 3, 2), setOf("b", 2, 2, 1)})
	want := appsv1.DeploymentStatus{
		ObservedGeneration: 7, Replicas: 5, UpdatedReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 3,
		UnavailableReplicas: 2, TerminatingReplicas: new(int32(0)),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
