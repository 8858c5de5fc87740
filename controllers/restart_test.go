package controllers_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/internal/testlevel"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

// TestControlPlaneRestarts stops the control plane again and again while a Job, a CronJob and a rolling
// update of a StatefulSet are in progress: no pod is counted twice or not at all, and no time is served
// twice.
func TestControlPlaneRestarts(t *testing.T) {
	for seed := range testlevel.Rounds(2, 5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { restartPlane(t, uint64(seed)) }) })
	}
}

func restartPlane(t *testing.T, seed uint64) {
	random, store := rand.New(rand.NewPCG(seed, 0)), memory.New(memory.Options{})
	defer store.Close()
	o := controlplane.Options{Storage: storagetest.Kept{Store: store}, Controllers: controllers.Options{Pods: pods.Options{Delay: time.Second}}}
	controllerstest.WithPlane(t, o, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.StatefulSet(5, "nginx:1.29", controllerstest.WithClaims(appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
			appsv1.RetainPersistentVolumeClaimRetentionPolicyType)))
		e.WaitIdle()
		set := e.StatefulSet()
		set.Spec.Template.Spec.Containers[0].Image = "nginx:1.30"
		e.Must(e.Update(e.Context(), set))
		e.CreateAll(controllerstest.Job(30, controllerstest.Lasting("2s"), controllerstest.OfIndexes, func(s *batchv1.JobSpec) { s.Parallelism = new(int32(7)) }),
			controllerstest.CronJob("* * * * *", controllerstest.Lasting("5s")))
	})
	for range 12 {
		controllerstest.WithPlane(t, o, func(e controllerstest.Env) {
			time.Sleep(time.Duration(random.IntN(4)) * time.Second) // virtual
			if random.IntN(2) == 0 {
				synctest.Wait()
			}
		})
	}
	controllerstest.WithPlane(t, o, func(e controllerstest.Env) {
		time.Sleep(2 * time.Minute) // virtual
		e.WaitIdle()
		e.WantJob("SuccessCriteriaMet CompletionsReached, Complete CompletionsReached", 0, 30, 0)
		if n := len(e.JobPods()); n != 30 {
			t.Errorf("the Job has %d pods", n)
		}
		if s := e.StatefulSet().Status; s.UpdatedReplicas != 5 || s.AvailableReplicas != 5 || s.CurrentRevision != s.UpdateRevision {
			t.Errorf("status %+v", s)
		}
		e.WantClaims("data-web-0", "data-web-1", "data-web-2", "data-web-3", "data-web-4")
		times := map[string]bool{}
		for _, j := range e.Jobs() {
			if at := j.Annotations[batchv1.CronJobScheduledTimestampAnnotation]; at != "" {
				if times[at] {
					t.Errorf("the time %s was served twice", at)
				}
				times[at] = true
			}
		}
	})
}
