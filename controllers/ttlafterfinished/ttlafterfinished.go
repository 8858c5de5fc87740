// Package ttlafterfinished deletes Jobs that have finished when their time to live is over.
package ttlafterfinished

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/cleaner"
	"flyball.dev/controllers/internal/jobstate"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/manager"
)

// AddToManager adds the controller. It deletes a Job with its pods first.
//
//upstream:pkg/controller/ttlafterfinished.New
func AddToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("ttl-after-finished").
		For(&batchv1.Job{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(cleaner.New(mgr.GetClient(), deadline, client.PropagationPolicy(metav1.DeletePropagationForeground)))
}

// deadline returns the time at which the time to live of a Job is over, if the Job has finished at a known time and has one.
//
//upstream:pkg/controller/ttlafterfinished.Controller.processJob
//upstream:pkg/controller/ttlafterfinished.jobFinishTime
//upstream:pkg/controller/ttlafterfinished.timeLeft
//upstream:pkg/controller/ttlafterfinished.needsCleanup
func deadline(job *batchv1.Job) (at time.Time, ok bool) {
	ttl, finished := job.Spec.TTLSecondsAfterFinished, jobstate.Finished(job)
	if job.DeletionTimestamp != nil || ttl == nil || finished == nil || finished.LastTransitionTime.IsZero() {
		return time.Time{}, false
	}
	return finished.LastTransitionTime.Add(time.Duration(*ttl) * time.Second), true
}
