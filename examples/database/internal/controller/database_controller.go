// Package controller has the controller of Databases: a StatefulSet, two Services and a vault at a
// backup service for each, and the sequences of failover and upgrade.
//
// A reconcile observes the state of everything ([observed]), plans from that alone the next
// action ([next]), does it, and reports it in the status. It remembers nothing, so it may be
// interrupted anywhere.
package controller

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/predicate"
	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/internal/backup"
)

// Finalizer keeps a Database until its vault at the backup service is deleted.
const Finalizer = "db.example.com/vault"

// retryInterval is after how long a Secret that is missing and a name that is taken are looked at
// again. A change of the Secret is noticed at once.
const retryInterval = 30 * time.Second

// secretNameField is the index of Databases by the Secret that they name.
const secretNameField = ".spec.secretName"

// DatabaseReconciler reconciles Databases.
type DatabaseReconciler struct {
	client.Client
	// Secrets reads Secrets from the API server: the cache has only their metadata, so the
	// passwords of others are not in the memory of the operator.
	Secrets  client.Reader
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
	Backups  *backup.Client
	// PollInterval is how often the backup service is asked for its pending operations.
	PollInterval time.Duration
	// ResyncInterval is how often it is asked when nothing is: it sends no events.
	ResyncInterval time.Duration
}

// +kubebuilder:rbac:groups=db.example.com,resources=databases,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=db.example.com,resources=databases/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=db.example.com,resources=databases/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller and its index to the manager.
func (r *DatabaseReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &dbv1.Database{}, secretNameField,
		func(o client.Object) []string { return []string{o.(*dbv1.Database).Spec.SecretName} })
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		// The status is the operator's own: its changes are no reason to reconcile.
		For(&dbv1.Database{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.databasesOfSecret), builder.OnlyMetadata).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(databaseOfPod)).
		Named("database").
		WithOptions(controller.Options{RateLimiter: backoff()}).
		Complete(r)
}

// backoff returns the delays of retries. The longest is as long as the operator may take to notice
// that the backup service is back.
func backoff() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](20*time.Millisecond, 30*time.Second)
}

// databasesOfSecret returns the Databases that name a Secret.
func (r *DatabaseReconciler) databasesOfSecret(ctx context.Context, secret client.Object) []ctrl.Request {
	all := &dbv1.DatabaseList{}
	err := r.List(ctx, all, client.InNamespace(secret.GetNamespace()),
		client.MatchingFields{secretNameField: secret.GetName()})
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the Databases of a Secret", "secret", secret.GetName())
		return nil
	}
	requests := make([]ctrl.Request, len(all.Items))
	for i := range all.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&all.Items[i])
	}
	return requests
}

// databaseOfPod returns the Database of a pod, which is not its owner: that is the StatefulSet.
func databaseOfPod(_ context.Context, pod client.Object) []ctrl.Request {
	labels := pod.GetLabels()
	if labels[labelName] != "database" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: labels[labelInstance]}}}
}

// Reconcile does the next step for one Database.
func (r *DatabaseReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	db := &dbv1.Database{}
	if err := r.Get(ctx, req.NamespacedName, db); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !db.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, db)
	}
	// The finalizer comes first: a vault without it would be left behind.
	if err := r.setFinalizer(ctx, db, controllerutil.AddFinalizer); err != nil {
		return ctrl.Result{}, err
	}
	o, err := r.observe(ctx, db)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := next(db, o)
	if err := r.execute(ctx, db, o, &p); behind(err) {
		return ctrl.Result{}, err // the next reconcile sees the object
	} else if err != nil {
		// It is retried with backoff. The user sees in the status why.
		return ctrl.Result{}, errors.Join(err, r.updateReady(ctx, db, notReady("ReconcileFailed", err.Error())))
	}
	if err := r.updateStatus(ctx, db, o, &p); err != nil {
		return ctrl.Result{}, err
	}
	if o.backupErr != nil {
		// It has not kept the operator from doing what can be done without the backup service. Now
		// it is returned, so that the request is retried with backoff.
		return ctrl.Result{}, o.backupErr
	}
	return ctrl.Result{RequeueAfter: r.after(&p)}, nil
}

// behind reports whether an error says that the cache was behind.
func behind(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// after returns after how long a Database is to be reconciled if there is no event before.
func (r *DatabaseReconciler) after(p *plan) time.Duration {
	switch {
	case p.poll:
		return r.PollInterval
	case p.retry:
		return retryInterval
	}
	return r.ResyncInterval
}

// finalize deletes the vault of a Database that is being deleted, and then removes the finalizer.
// As long as the backup service is out of service, the Database remains, and the request is retried
// with backoff. Its dependents are garbage collected after it.
func (r *DatabaseReconciler) finalize(ctx context.Context, db *dbv1.Database) error {
	if !controllerutil.ContainsFinalizer(db, Finalizer) {
		return nil
	}
	if err := r.Backups.DeleteVault(ctx, vaultOf(db)); err != nil {
		message := "the vault cannot be deleted: " + err.Error()
		return errors.Join(err, r.updateReady(ctx, db, notReady("BackupServiceUnavailable", message)))
	}
	log.FromContext(ctx).Info("Vault deleted.")
	return client.IgnoreNotFound(r.setFinalizer(ctx, db, controllerutil.RemoveFinalizer))
}

// setFinalizer adds or removes the finalizer. The list of finalizers is replaced as a whole, so the
// patch fails with a conflict if somebody else has changed the Database.
func (r *DatabaseReconciler) setFinalizer(ctx context.Context, db *dbv1.Database,
	set func(client.Object, string) bool) error {
	before := client.MergeFromWithOptions(db.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if !set(db, Finalizer) {
		return nil
	}
	return r.Patch(ctx, db, before)
}
