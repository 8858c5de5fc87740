// Package controller has the controller of Migrations. One Job executes each Migration, once.
//
// What must not be forgotten is that a Migration has been executed, and how it has ended. These are
// the places that say so, in the order in which they are written:
//
//  1. The Job. Its name follows from the Migration and the attempt, so it can be created only once,
//     and its finalizer keeps it, whoever deletes it, until its result has been recorded.
//  2. The annotations of the Migration with the result. They are not in the status, because
//     status is what can be observed again, and a Job that is gone cannot.
//  3. The status, which follows from the annotations and the Job.
//
// Only then the finalizer of the Job is removed. Wherever the operator is interrupted, the next
// reconcile finds the first of these places that was not written, and goes on from there.
package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/log"
	migrationv1 "flyball.dev/examples/batch/api/v1"
)

// Finalizer keeps a Job until its result is recorded, and a Migration until its Jobs are released.
const Finalizer = "batch.example.com/result"

// MigrationReconciler executes Migrations.
type MigrationReconciler struct {
	client.Client
	// Live reads from the API server and not from a cache.
	Live     client.Reader
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=batch.example.com,resources=migrations,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=batch.example.com,resources=migrations/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=batch.example.com,resources=migrations/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// afterIndex is the index of Migrations by those that they wait for.
const afterIndex = "spec.after"

// SetupWithManager adds the controller to the manager.
func (r *MigrationReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &migrationv1.Migration{}, afterIndex,
		func(o client.Object) []string { return o.(*migrationv1.Migration).Spec.After })
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&migrationv1.Migration{}).
		Owns(&batchv1.Job{}).
		Watches(&migrationv1.Migration{}, handler.EnqueueRequestsFromMapFunc(r.findSuccessors)).
		Named("batch").
		Complete(r)
}

// findSuccessors returns the Migrations that wait for one.
func (r *MigrationReconciler) findSuccessors(ctx context.Context, migration client.Object) []ctrl.Request {
	list := &migrationv1.MigrationList{}
	if err := r.List(ctx, list, client.InNamespace(migration.GetNamespace()),
		client.MatchingFields{afterIndex: migration.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "cannot list the Migrations after one", "migration", migration.GetName())
		return nil
	}
	requests := make([]ctrl.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile starts one Migration if it has to be executed, and records how it has ended.
func (r *MigrationReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := &migrationv1.Migration{}
	if err := r.Get(ctx, req.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !m.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, m)
	}
	jobs, err := jobsOf(ctx, r.Client, m)
	if err == nil && slices.ContainsFunc(jobs, wasDeleted) {
		jobs, err = jobsOf(ctx, r.Live, m) // it may have ended meanwhile
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.record(ctx, m, jobs); err != nil {
		return ctrl.Result{}, err
	}
	state, err := r.advance(ctx, m, jobs)
	if apierrors.IsConflict(err) {
		return ctrl.Result{}, err // the cache was behind: the next reconcile sees the object
	}
	if err != nil {
		state = incomplete(ReasonReconcileFailed, err.Error()) // it is retried with backoff
	}
	if err := errors.Join(err, r.updateStatus(ctx, m, state)); err != nil {
		return ctrl.Result{}, err
	}
	if state.reason == ReasonNameTaken {
		return ctrl.Result{RequeueAfter: nameTakenInterval}, nil // no event says that the name is free
	}
	return ctrl.Result{}, r.release(ctx, m, jobs)
}

// nameTakenInterval is how often the Job of a Migration is tried to be created if somebody else's
// has its name.
const nameTakenInterval = 30 * time.Second

// record records the result of the latest Job that has ended in the annotations.
func (r *MigrationReconciler) record(ctx context.Context, m *migrationv1.Migration, jobs []batchv1.Job) error {
	have, found := recordOf(m), false
	for i := range jobs {
		if o := outcomeOf(&jobs[i]); o.result != "" && o.attempt > have.attempt && have.result != migrationv1.Succeeded {
			have, found = o, true
		}
	}
	if !found {
		return nil
	}
	before := m.DeepCopy()
	have.writeTo(m)
	if err := r.Patch(ctx, m, withLock(before)); err != nil {
		return err
	}
	kind := corev1.EventTypeNormal
	if have.result == migrationv1.Failed {
		kind = corev1.EventTypeWarning
	}
	log.FromContext(ctx).Info("Ended.", "attempt", have.attempt, "result", have.result, "because", have.message)
	r.Recorder.Eventf(m, nil, kind, string(have.result), "Record", "Attempt %d: %s", have.attempt, have.message)
	return nil
}

// advance starts the Migration if nothing speaks against it, and returns its state.
func (r *MigrationReconciler) advance(ctx context.Context, m *migrationv1.Migration, jobs []batchv1.Job) (state, error) {
	s, err := r.stateOf(ctx, m, jobs)
	if err != nil || s.reason != ReasonStarting {
		return s, err
	}
	// The cache may be behind, and a task that was executed twice cannot be taken back. So before
	// the one write that must not be wrong, the API server is asked for the Jobs.
	if jobs, err = jobsOf(ctx, r.Live, m); err != nil {
		return s, err
	}
	if s, err = r.stateOf(ctx, m, jobs); err != nil || s.reason != ReasonStarting {
		return s, err
	}
	return r.start(ctx, m)
}

// start creates the Job of the attempt. The patch before fails if the Migration is not the newest one, also if it changes
// nothing: a Job that has been deleted since it was listed has left a record there.
func (r *MigrationReconciler) start(ctx context.Context, m *migrationv1.Migration) (state, error) {
	before := m.DeepCopy()
	controllerutil.AddFinalizer(m, Finalizer)
	if err := r.Patch(ctx, m, withLock(before)); err != nil {
		return state{}, err
	}
	job := newJob(m)
	if err := ctrl.SetControllerReference(m, job, r.Scheme); err != nil {
		return state{}, err
	}
	err := r.Create(ctx, job)
	if apierrors.IsAlreadyExists(err) {
		// It is not one of this Migration: those have been listed.
		return incomplete(ReasonNameTaken, "there is a Job "+job.Name+" that the Migration does not control"), nil
	}
	if err != nil {
		return state{}, err
	}
	log.FromContext(ctx).Info("Job created.", "job", job.Name)
	r.Recorder.Eventf(m, job, corev1.EventTypeNormal, "Started", "Create", "Job %s", job.Name)
	return incomplete(ReasonRunning, "the Job "+job.Name+" is running"), nil
}

// release removes the finalizer of the Jobs with a recorded result.
func (r *MigrationReconciler) release(ctx context.Context, m *migrationv1.Migration, jobs []batchv1.Job) error {
	have := recordOf(m)
	for i := range jobs {
		if o := outcomeOf(&jobs[i]); o.result == "" || o.attempt > have.attempt && have.result != migrationv1.Succeeded {
			continue
		}
		if err := r.removeFinalizer(ctx, &jobs[i]); err != nil {
			return err
		}
	}
	return nil
}

// finalize releases all Jobs, which are garbage collected with the Migration, and then the Migration.
// A Job that was missed would be stuck, so the API server is asked for them.
func (r *MigrationReconciler) finalize(ctx context.Context, m *migrationv1.Migration) error {
	if !controllerutil.ContainsFinalizer(m, Finalizer) {
		return nil
	}
	jobs, err := jobsOf(ctx, r.Live, m)
	if err != nil {
		return err
	}
	for i := range jobs {
		if err := r.removeFinalizer(ctx, &jobs[i]); err != nil {
			return err
		}
	}
	return r.removeFinalizer(ctx, m)
}

// removeFinalizer removes the finalizer of an object, if it has it and exists.
func (r *MigrationReconciler) removeFinalizer(ctx context.Context, obj client.Object) error {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(obj, Finalizer) {
		return nil
	}
	return client.IgnoreNotFound(r.Patch(ctx, obj, withLock(before)))
}

// withLock returns the patch from an earlier state of an object to the present one. It replaces
// whole lists, such as the finalizers, so it must fail if the object has changed.
func withLock(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
