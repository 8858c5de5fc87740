package plans

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/ttlafterfinished"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestTTLAfterFinished compares which Jobs are deleted.
func TestTTLAfterFinished(t *testing.T) {
	comparison{
		name:    "ttlafterfinished",
		worlds:  1000,
		atLeast: map[string]int{"delete jobs.batch": 10},
		kinds:   []client.Object{&batchv1.Job{}},
		add:     ttlafterfinished.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			t := upstream.New(ctx, f.Batch().V1().Jobs(), c)
			return func(ctx context.Context) { t.Run(ctx, 1) }, nil
		},
		generate: generateFinishedJob,
	}.compare(t)
}

func generateFinishedJob(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	j := &batchv1.Job{ObjectMeta: object(s, namespace(), "x")}
	if s.Chance(85) {
		j.Spec.TTLSecondsAfterFinished = ptr.To(random.Pick[int32](s, 0, 0, 30, 100, 3600))
	}
	for range 1 + s.IntN(2) {
		c := batchv1.JobCondition{Type: random.Pick(s, batchv1.JobComplete, batchv1.JobFailed, batchv1.JobSuspended, batchv1.JobFailureTarget),
			Status: random.Pick(s, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown)}
		if s.Chance(90) {
			c.LastTransitionTime = metav1.NewTime(ago(s))
		}
		j.Status.Conditions = append(j.Status.Conditions, c)
	}
	deleted(s, j)
	return []client.Object{j}, j, nil
}
