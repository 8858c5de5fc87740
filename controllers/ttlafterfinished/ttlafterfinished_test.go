package ttlafterfinished

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDeadline(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	finished := func(kind batchv1.JobConditionType, status corev1.ConditionStatus) []batchv1.JobCondition {
		return []batchv1.JobCondition{{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}}
	}
	ttl := func(seconds int32) *int32 { return &seconds }
	complete := finished(batchv1.JobComplete, corev1.ConditionTrue)
	for _, tt := range []struct {
		name       string
		ttl        *int32
		conditions []batchv1.JobCondition
		deleted    *metav1.Time
		left       time.Duration
		ok         bool
	}{
		{name: "no time to live", conditions: complete},
		{name: "not finished", ttl: ttl(0)},
		{name: "not complete", ttl: ttl(0), conditions: finished(batchv1.JobComplete, corev1.ConditionFalse)},
		{name: "about to fail", ttl: ttl(0), conditions: finished(batchv1.JobFailureTarget, corev1.ConditionTrue)},
		{name: "later", ttl: ttl(90), conditions: complete, left: 30 * time.Second, ok: true},
		{name: "now", ttl: ttl(60), conditions: complete, ok: true},
		{name: "failed long ago", ttl: ttl(0), conditions: finished(batchv1.JobFailed, corev1.ConditionTrue), left: -time.Minute, ok: true},
		{name: "already being deleted", ttl: ttl(0), conditions: complete, deleted: &metav1.Time{Time: now}},
	} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: tt.deleted},
			Spec: batchv1.JobSpec{TTLSecondsAfterFinished: tt.ttl}, Status: batchv1.JobStatus{Conditions: tt.conditions}}
		if at, ok := deadline(job); ok != tt.ok || ok && at.Sub(now) != tt.left {
			t.Errorf("%s: %s, %v", tt.name, at.Sub(now), ok)
		}
	}
}
