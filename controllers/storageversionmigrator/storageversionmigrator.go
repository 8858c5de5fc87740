// Package storageversionmigrator rewrites all objects of a resource, as a StorageVersionMigration asks, so that each is
// stored in the present storage version and with the present encryption.
package storageversionmigrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// name is the name of the controller and the field manager of its writes.
//
//upstream:cmd/kube-controller-manager/names.StorageVersionMigratorController
const name = "storage-version-migrator-controller"

// workers is the number of migrations that run at once.
//
//upstream:pkg/controller/storageversionmigrator.workers
const workers = 5

// AddToManager adds the controller.
//
//upstream:pkg/controller/storageversionmigrator.NewSVMController
//upstream:pkg/controller/storageversionmigrator.NewResourceVersionController
//upstream:pkg/controller/storageversionmigrator.NewCustomResourceController
func AddToManager(mgr manager.Manager) error {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), discovery: d}
	return builder.ControllerManagedBy(mgr).
		Named(name).
		For(&storagemigrationv1.StorageVersionMigration{}).
		Watches(&storagemigrationv1.StorageVersionMigration{}, handler.EnqueueRequestsFromMapFunc(r.others)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// reconciler reconciles migrations.
type reconciler struct {
	client    client.Client
	live      client.Reader
	discovery discovery.DiscoveryInterface
	// failing has the time since when the objects of a migration cannot be found or listed, by its name.
	failing sync.Map
}

// others returns the requests of all migrations of the same resource: when one ends, the next may run.
func (r *reconciler) others(ctx context.Context, obj client.Object) (requests []reconcile.Request) {
	all := &storagemigrationv1.StorageVersionMigrationList{}
	if err := r.client.List(ctx, all); err != nil {
		return nil
	}
	resource := obj.(*storagemigrationv1.StorageVersionMigration).Spec.Resource
	for _, m := range all.Items {
		if m.Spec.Resource == resource && m.Name != obj.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&m)})
		}
	}
	return requests
}

// Reconcile takes the next step of one migration.
//
//upstream:pkg/controller/storageversionmigrator.SVMController.sync
//upstream:pkg/controller/storageversionmigrator.MigrationRunnerController.sync
//upstream:pkg/controller/storageversionmigrator.ResourceVersionController.sync
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	m, all := &storagemigrationv1.StorageVersionMigration{}, &storagemigrationv1.StorageVersionMigrationList{}
	err := r.client.Get(ctx, req.NamespacedName, m)
	if err == nil {
		err = r.client.List(ctx, all)
	}
	if err != nil || m.DeletionTimestamp != nil {
		r.failing.Delete(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch m = m.DeepCopy(); next(m, all.Items) {
	case begin:
		err = r.begin(ctx, m)
	case finish:
		err = r.finish(ctx, m)
	case fix:
		return r.fix(ctx, m)
	case rewrite:
		return r.rewrite(ctx, m)
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// begin makes a migration the one that runs.
//
//upstream:pkg/controller/storageversionmigrator.MigrationRunnerController.markAsActive
func (r *reconciler) begin(ctx context.Context, m *storagemigrationv1.StorageVersionMigration) error {
	if err := r.markDefinition(ctx, m); err != nil {
		return err
	}
	setRunning(m, progress{}, nil)
	return r.client.Status().Update(ctx, m)
}

// finish ends the condition Running of a migration that has succeeded or failed.
//
//upstream:pkg/controller/storageversionmigrator.MigrationRunnerController.cleanupAdmission
func (r *reconciler) finish(ctx context.Context, m *storagemigrationv1.StorageVersionMigration) error {
	if err := r.unmarkDefinition(ctx, m); err != nil {
		return err
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: string(storagemigrationv1.MigrationRunning),
		Status: metav1.ConditionFalse, Reason: "MigrationCompleted", Message: "Migration completed", ObservedGeneration: m.Generation})
	return r.client.Status().Update(ctx, m)
}

// fail ends a migration with an error.
func (r *reconciler) fail(ctx context.Context, m *storagemigrationv1.StorageVersionMigration, message string) error {
	setFailed(m, message)
	return r.client.Status().Update(ctx, m)
}

// transient shows an error in the condition Running, and returns it, so that the step is tried again.
//
//upstream:pkg/controller/storageversionmigrator.SVMController.updateRunningCondition
func (r *reconciler) transient(ctx context.Context, m *storagemigrationv1.StorageVersionMigration, p progress, err error) error {
	if setRunning(m, p, err) {
		_ = r.client.Status().Update(ctx, m) // the error is more important
	}
	return err
}

// inaccessible shows an error of discovery or of a list in the condition Running, so that the step is tried again. After a
// while, it ends the migration, which would otherwise run for ever if an object cannot be read, and keep others of its
// resource from running. kube-controller-manager lists with its cache, and ends a migration if the cache does not have the
// resource.
//
//upstream:pkg/controller/storageversionmigrator.SVMController.sync
func (r *reconciler) inaccessible(ctx context.Context, m *storagemigrationv1.StorageVersionMigration, err error) (reconcile.Result, error) {
	now := time.Now()
	since, _ := r.failing.LoadOrStore(m.Name, now)
	if now.Sub(since.(time.Time)) >= discoveryDelay {
		r.failing.Delete(m.Name)
		return reconcile.Result{}, client.IgnoreNotFound(r.fail(ctx, m, "migration encountered unhandled error: "+err.Error()))
	}
	if setRunning(m, progress{}, err) {
		if err := r.client.Status().Update(ctx, m); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	return reconcile.Result{RequeueAfter: retryDiscovery}, nil
}

// requiredVerbs are the verbs that a resource must have.
//
//upstream:pkg/controller/storageversionmigrator.verbsRequiredForMigration
var requiredVerbs = []string{"update", "patch", "list"}

// retryDiscovery is the time between attempts to find a resource.
const retryDiscovery = 5 * time.Second

// fix records the latest resource version. Objects that are written later are stored as they should be.
//
//upstream:pkg/controller/storageversionmigrator.ResourceVersionController.isResourceMigratable
//upstream:pkg/controller/storageversionmigrator.ResourceVersionController.getLatestResourceVersion
func (r *reconciler) fix(ctx context.Context, m *storagemigrationv1.StorageVersionMigration) (reconcile.Result, error) {
	kind, verbs, err := r.find(m.Spec.Resource)
	if err != nil || kind.Empty() {
		return r.notFound(ctx, m, err, "resource does not exist in discovery")
	}
	for _, verb := range requiredVerbs {
		if !slices.Contains(verbs, verb) {
			resource := schema.GroupVersionResource{Group: m.Spec.Resource.Group, Version: kind.Version, Resource: m.Spec.Resource.Resource}
			return reconcile.Result{}, r.fail(ctx, m, fmt.Sprintf("resource %q does not support discovery operations: %v", resource, requiredVerbs))
		}
	}
	page, err := r.list(ctx, kind, 1, "")
	if err != nil {
		return r.inaccessible(ctx, m, err)
	}
	r.failing.Delete(m.Name)
	m.Status.ResourceVersion = page.ResourceVersion
	return reconcile.Result{}, r.client.Status().Update(ctx, m)
}

// notFound lets a step be tried again if discovery does not have the resource yet. After a while, it ends the migration with
// the message. The argument err is the error of discovery, or nil.
func (r *reconciler) notFound(ctx context.Context, m *storagemigrationv1.StorageVersionMigration, err error, message string) (reconcile.Result, error) {
	switch {
	case err != nil:
		return r.inaccessible(ctx, m, err)
	case time.Since(m.CreationTimestamp.Time) < discoveryDelay:
		return reconcile.Result{RequeueAfter: retryDiscovery}, nil
	default:
		return reconcile.Result{}, client.IgnoreNotFound(r.fail(ctx, m, message))
	}
}

// find returns the kind and the verbs of a resource, in the version that its group prefers. The kind is empty if the
// resource is not served.
//
//upstream:pkg/controller/storageversionmigrator.resourceFor
func (r *reconciler) find(resource metav1.GroupResource) (schema.GroupVersionKind, []string, error) {
	lists, err := discovery.ServerPreferredResources(r.discovery)
	for _, list := range lists {
		gv, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil || gv.Group != resource.Group {
			continue
		}
		for _, served := range list.APIResources {
			if served.Name == resource.Resource {
				return gv.WithKind(served.Kind), served.Verbs, nil
			}
		}
	}
	if failed, partly := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); partly {
		for gv := range failed.Groups {
			if gv.Group == resource.Group {
				return schema.GroupVersionKind{}, nil, err
			}
		}
		err = nil
	}
	return schema.GroupVersionKind{}, nil, err
}

// listPage is the number of objects that are listed at once.
const listPage = 500

// list returns a page of the metadata of all objects of a kind.
func (r *reconciler) list(ctx context.Context, kind schema.GroupVersionKind, limit int64, token string) (*metav1.PartialObjectMetadataList, error) {
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return page, r.live.List(ctx, page, client.Limit(limit), client.Continue(token))
}

// rewrite patches all objects that have not been written since the migration began. The patches change nothing, so only
// the stored form changes.
//
//upstream:pkg/controller/storageversionmigrator.SVMController.runMigration
func (r *reconciler) rewrite(ctx context.Context, m *storagemigrationv1.StorageVersionMigration) (reconcile.Result, error) {
	kind, _, err := r.find(m.Spec.Resource)
	if err != nil || kind.Empty() {
		return r.notFound(ctx, m, err, "migration encountered unhandled error: unable to obtain GVR from discovery")
	}
	objects, total, err := r.old(ctx, m, kind)
	if err != nil {
		return r.inaccessible(ctx, m, err)
	}
	r.failing.Delete(m.Name)
	return reconcile.Result{}, client.IgnoreNotFound(r.touchAll(ctx, m, kind, objects, total))
}

// touchAll patches objects, and ends the migration if that succeeds or an error remains.
func (r *reconciler) touchAll(ctx context.Context, m *storagemigrationv1.StorageVersionMigration, kind schema.GroupVersionKind,
	objects []metav1.PartialObjectMetadata, total int) error {
	p := progress{left: len(objects), total: total}
	for i := range objects {
		switch err := r.touch(ctx, kind, &objects[i]); {
		case err == nil, apierrors.IsConflict(err), apierrors.IsNotFound(err): // it was written or deleted since
			p.left--
		case isRetriable(err):
			return r.transient(ctx, m, p, err)
		default:
			setRunning(m, p, nil)
			return r.fail(ctx, m, fmt.Sprintf("%d/%d not yet migrated. migration encountered unhandled error: %s", p.left, p.total, err))
		}
	}
	setRunning(m, p, nil)
	setSucceeded(m)
	return r.client.Status().Update(ctx, m)
}

// old returns the objects that have not been written since a migration began, and the number of all objects.
func (r *reconciler) old(ctx context.Context, m *storagemigrationv1.StorageVersionMigration, kind schema.GroupVersionKind) (objects []metav1.PartialObjectMetadata, total int, err error) {
	began, err := strconv.ParseUint(m.Status.ResourceVersion, 10, 64)
	if err != nil {
		return nil, 0, err
	}
	for token := ""; ; {
		page, err := r.list(ctx, kind, listPage, token)
		if err != nil {
			return nil, 0, err
		}
		total += len(page.Items)
		for _, o := range page.Items {
			if version, err := strconv.ParseUint(o.ResourceVersion, 10, 64); err == nil && version <= began {
				objects = append(objects, o)
			}
		}
		if token = page.Continue; token == "" {
			return objects, total, nil
		}
	}
}

// touch writes an object without a change, if it still has its resource version.
func (r *reconciler) touch(ctx context.Context, kind schema.GroupVersionKind, o *metav1.PartialObjectMetadata) error {
	apiVersion, kindName := kind.ToAPIVersionAndKind()
	patch, err := json.Marshal(map[string]any{"apiVersion": apiVersion, "kind": kindName,
		"metadata": map[string]any{"resourceVersion": o.ResourceVersion}})
	if err != nil {
		return err
	}
	o.SetGroupVersionKind(kind)
	return r.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(name))
}

// isRetriable reports whether an error may go away by itself.
//
//upstream:pkg/controller/storageversionmigrator.isRetriableError
func isRetriable(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}
