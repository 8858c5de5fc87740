package ttlafterfinished_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
)

func TestTTLAfterFinished(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		ttl := int32(100)
		e.CreateAll(controllerstest.Job(1, nil, func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = &ttl }))
		time.Sleep(80 * time.Second) // virtual
		e.ChangeJob(func(j *batchv1.Job) { longer := int32(200); j.Spec.TTLSecondsAfterFinished = &longer })
		time.Sleep(80 * time.Second)
		e.WaitIdle()
		e.Job() // exists
		time.Sleep(time.Minute)
		e.WaitIdle()
		if err := e.Get(e.Context(), controllerstest.Work, &batchv1.Job{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Job exists: %v", err)
		}
		if n := len(e.JobPods()); n != 0 {
			t.Errorf("%d pods are left", n)
		}
	})
}
