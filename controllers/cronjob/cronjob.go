// Package cronjob creates the Jobs of CronJobs at the times of their schedules.
//
// The plan is a pure function of the CronJob, its Jobs and the time. The time determines the name of a Job, so no Job
// is created twice. If the controller stops before it updates the status, it finds the time in an annotation of the Job.
package cronjob

import (
	"context"
	"errors"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/requeue"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	ctrlevent "flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// kind is the kind of the owners.
var kind = batchv1.SchemeGroupVersion.WithKind("CronJob")

// AddToManager adds the controller.
//
//upstream:pkg/controller/cronjob.NewControllerV2
func AddToManager(mgr manager.Manager) error {
	if err := claim.Index(context.Background(), mgr.GetFieldIndexer(), &batchv1.Job{}); err != nil {
		return err
	}
	recorder := events.RecorderFor(mgr, "cronjob-controller")
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: recorder}
	return builder.ControllerManagedBy(mgr).
		Named("cronjob").
		Watches(&batchv1.CronJob{}, r.events()).
		Watches(&batchv1.Job{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &batchv1.CronJob{},
			handler.OnlyControllerOwner())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
}

// queue is the queue of the controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// events enqueues created and updated CronJobs, and records the time of changes of their schedules.
//
//upstream:pkg/controller/cronjob.ControllerV2.updateCronJob
func (r *reconciler) events() handler.EventHandler {
	add := func(o client.Object, q queue) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e ctrlevent.CreateEvent, q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e ctrlevent.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*batchv1.CronJob), e.ObjectNew.(*batchv1.CronJob)
			if before.Spec.Schedule != after.Spec.Schedule || !ptr.Equal(before.Spec.TimeZone, after.Spec.TimeZone) {
				r.changed.Store(after.UID, time.Now())
			}
			add(after, q)
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.DeleteEvent, _ queue) { r.changed.Delete(e.Object.GetUID()) },
	}
}

// reconciler reconciles CronJobs.
type reconciler struct {
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder

	// changed has, by the UID of a CronJob, the time at which its schedule was changed. Earlier times of the new
	// schedule do not count as missed. A restart loses this.
	changed sync.Map
}

// Reconcile deletes the Jobs of one CronJob beyond the history limits, creates the Job that is due, and updates the
// status.
//
//upstream:pkg/controller/cronjob.ControllerV2.sync
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cj := &batchv1.CronJob{}
	if err := r.client.Get(ctx, req.NamespacedName, cj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	jobs, err := r.jobs(ctx, cj)
	if err != nil {
		return reconcile.Result{}, err
	}
	changed, _ := r.changed.Load(cj.UID)
	since, _ := changed.(time.Time)
	p := planFor(cj, jobs, since, time.Now())
	err = r.apply(ctx, cj, p)
	for _, e := range p.events {
		r.recorder.Event(cj, e.kind, e.reason, e.message)
	}
	if !equality.Semantic.DeepEqual(p.status, cj.Status) {
		cj.Status = p.status
		err = errors.Join(err, client.IgnoreNotFound(r.client.Status().Update(ctx, cj)))
	}
	return requeue.After(p.after, err)
}

// jobs returns the Jobs that a CronJob owns, and the Jobs in its status that exist. Jobs that are not in the cache are
// read live.
//
//upstream:pkg/controller/cronjob.ControllerV2.getCronJobJobsByIndexer
func (r *reconciler) jobs(ctx context.Context, cj *batchv1.CronJob) ([]*batchv1.Job, error) {
	list := &batchv1.JobList{}
	if err := r.client.List(ctx, list, claim.ControlledBy(cj.Namespace, cj.UID)); err != nil {
		return nil, err
	}
	var jobs []*batchv1.Job
	cached := batchv1.CronJobStatus{}
	for i := range list.Items {
		jobs = append(jobs, &list.Items[i])
		cached.Active = append(cached.Active, reference(&list.Items[i]))
	}
	for _, ref := range cj.Status.Active {
		if isActive(&cached, ref.UID) {
			continue
		}
		job := &batchv1.Job{}
		err := r.live.Get(ctx, client.ObjectKey{Namespace: cj.Namespace, Name: ref.Name}, job)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil && job.UID == ref.UID {
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}

// apply deletes and creates the Jobs of a plan, and adds the created Job to its status. A replaced Job that cannot be
// deleted stays active.
//
//upstream:pkg/controller/cronjob.ControllerV2.syncCronJob
func (r *reconciler) apply(ctx context.Context, cj *batchv1.CronJob, p *plan) error {
	var errs []error
	for _, job := range p.cleanup {
		errs = append(errs, r.delete(ctx, cj, job))
	}
	replacing := false
	for _, job := range p.replaced {
		if err := r.delete(ctx, cj, job); err != nil {
			p.status.Active = append(p.status.Active, reference(job))
			errs, replacing = append(errs, err), true
		}
	}
	if p.create == nil || replacing {
		return errors.Join(errs...)
	}
	err := r.client.Create(ctx, p.create)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errors.Join(errs...) // nothing can be created in the namespace
	case apierrors.IsAlreadyExists(err):
		job := &batchv1.Job{}
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(p.create), job); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if !metav1.IsControlledBy(job, cj) {
			return errors.Join(errs...) // somebody else has taken the name
		}
		p.observe(cj, job)
		return errors.Join(errs...)
	case err != nil:
		r.recorder.Eventf(cj, corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
		return errors.Join(append(errs, err)...)
	}
	r.recorder.Eventf(cj, corev1.EventTypeNormal, "SuccessfulCreate", "Created job %v", p.create.Name)
	p.status.Active = append(p.status.Active, reference(p.create))
	p.status.LastScheduleTime = &metav1.Time{Time: p.scheduled}
	return errors.Join(errs...)
}

// delete deletes a Job and, in the background, its pods.
//
//upstream:pkg/controller/cronjob.deleteJob
func (r *reconciler) delete(ctx context.Context, cj *batchv1.CronJob, job *batchv1.Job) error {
	err := client.IgnoreNotFound(r.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &job.UID}))
	if err != nil {
		r.recorder.Eventf(cj, corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
		return err
	}
	r.recorder.Eventf(cj, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v", job.Name)
	return nil
}
