package job_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// podModel records the outcomes of a Job's pods while they had the finalizer.
type podModel struct {
	succeeded, failed map[types.UID]bool
	indexes           map[string]bool // that have succeeded
}

// step lets some of the pods succeed, fail or be deleted.
func (m *podModel) step(e controllerstest.Env, random *rand.Rand) {
	e.Helper()
	for _, p := range e.JobPods() {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || len(p.Finalizers) == 0 {
			continue
		}
		if p.DeletionTimestamp != nil {
			continue // it was deleted before
		}
		var err error
		record := func() { m.failed[p.UID] = true }
		switch random.IntN(12) {
		case 0, 1:
			p.Status.Phase = corev1.PodFailed
			err = e.Status().Update(e.Context(), &p)
		case 2, 3, 4:
			p.Status.Phase = corev1.PodSucceeded
			err = e.Status().Update(e.Context(), &p)
			record = func() {
				m.succeeded[p.UID], m.indexes[p.Annotations[batchv1.JobCompletionIndexAnnotation]] = true, true
			}
		case 5:
			err = e.Delete(e.Context(), &p, client.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion})
		default:
			continue
		}
		if err == nil { // the pod had not changed, so it had the finalizer
			record()
		}
	}
}

// TestJobCountsEachPodOnce runs a controller with failing writes and frequent restarts, while pods end at random. The
// status must count each pod once.
func TestJobCountsEachPodOnce(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
				random := rand.New(rand.NewPCG(seed, 1))
				m := &podModel{map[types.UID]bool{}, map[types.UID]bool{}, map[string]bool{}}
				limit, parallelism := int32(1000), int32(4)
				job := controllerstest.Job(12, nil, func(s *batchv1.JobSpec) { s.BackoffLimit, s.Parallelism = &limit, &parallelism })
				if seed%2 == 1 {
					controllerstest.OfIndexes(&job.Spec)
				}
				e.CreateAll(job)
				e.RunWithFaults("job-controller", seed, func() { m.step(e, random) },
					func() bool { return strings.Contains(e.JobConditions(), "Complete") })
				s := e.Job().Status
				if indexed := seed%2 == 1; indexed && (s.CompletedIndexes != "0-11" || len(m.indexes) != 12) {
					t.Errorf("completed %q, but %v have succeeded", s.CompletedIndexes, m.indexes)
				} else if !indexed && int(s.Succeeded) != len(m.succeeded) {
					t.Errorf("counted %d, but %d have succeeded", s.Succeeded, len(m.succeeded))
				}
				if int(s.Failed) != len(m.failed) || s.Active != 0 || len(s.UncountedTerminatedPods.Succeeded)+len(s.UncountedTerminatedPods.Failed) > 0 {
					t.Errorf("%d pods have failed; status %+v", len(m.failed), s)
				}
				for _, p := range e.JobPods() {
					if len(p.Finalizers) > 0 || p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
						t.Errorf("%s is left: %s, %v", p.Name, p.Status.Phase, p.Finalizers)
					}
				}
				t.Logf("%d succeeded, %d failed", len(m.succeeded), len(m.failed))
			})
		})
	}
}
