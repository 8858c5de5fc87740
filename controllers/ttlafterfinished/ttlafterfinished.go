// Package ttlafterfinished deletes Jobs that have finished when their time to live is over.
package ttlafterfinished

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/jobstate"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// AddToManager adds the controller.
//
//upstream:pkg/controller/ttlafterfinished.New
func AddToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("ttl-after-finished").
		For(&batchv1.Job{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(&reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader()})
}

// reconciler reconciles Jobs that have finished.
type reconciler struct {
	client client.Client
	live   client.Reader
}

// Reconcile deletes one Job, with its pods first, if its time to live is over. Since that may have
// been changed, the API server is asked for the Job before.
//
//upstream:pkg/controller/ttlafterfinished.Controller.processJob
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	job := &batchv1.Job{}
	for _, reader := range []client.Reader{r.client, r.live} {
		if err := reader.Get(ctx, req.NamespacedName, job); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if left, ok := timeLeft(job, time.Now()); !ok || left > 0 {
			return reconcile.Result{RequeueAfter: left}, nil
		}
	}
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Delete(ctx, job,
		client.PropagationPolicy(metav1.DeletePropagationForeground),
		client.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion}))
}

// timeLeft returns the time to live that a Job has left, if it has finished at a known time and has one.
//
//upstream:pkg/controller/ttlafterfinished.jobFinishTime
//upstream:pkg/controller/ttlafterfinished.timeLeft
//upstream:pkg/controller/ttlafterfinished.needsCleanup
func timeLeft(job *batchv1.Job, now time.Time) (left time.Duration, ok bool) {
	ttl, finished := job.Spec.TTLSecondsAfterFinished, jobstate.Finished(job)
	if job.DeletionTimestamp != nil || ttl == nil || finished == nil || finished.LastTransitionTime.IsZero() {
		return 0, false
	}
	return max(0, finished.LastTransitionTime.Add(time.Duration(*ttl)*time.Second).Sub(now)), true
}
