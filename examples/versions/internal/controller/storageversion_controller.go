package controller

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/predicate"
)

// ProxyDefinition is the name of the CustomResourceDefinition of Proxies.
const ProxyDefinition = "proxies.net.example.com"

// StorageVersionReconciler migrates Proxies to the storage version: after it has changed, objects
// stay stored in the version in which they were last written. Only when none is stored in an old
// version, and status.storedVersions of the CustomResourceDefinition says so, can that version be
// removed from the definition.
type StorageVersionReconciler struct {
	client.Client
	// APIReader reads without a cache: there need not be one for all Proxies of a cluster just to
	// rewrite them once.
	APIReader client.Reader
	Recorder  events.EventRecorder
	// PageSize is the number of objects in a page of a list.
	PageSize int64
}

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions/status,resourceNames=proxies.net.example.com,verbs=update
// +kubebuilder:rbac:groups=net.example.com,resources=proxies,verbs=list;patch

// SetupWithManager adds the controller to the manager.
func (r *StorageVersionReconciler) SetupWithManager(mgr ctrl.Manager) error {
	isProxies := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == ProxyDefinition })
	return ctrl.NewControllerManagedBy(mgr).
		For(&apiextensionsv1.CustomResourceDefinition{}, builder.WithPredicates(isProxies)).
		Named("storageversion").
		Complete(r)
}

// Reconcile rewrites all Proxies if some may be stored in another version than the storage version.
// It needs no memory of how far it came: a second run rewrites nothing, because the API server does
// not store an object that is stored like that already.
func (r *StorageVersionReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := r.Get(ctx, req.NamespacedName, crd); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !crd.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // so are the objects
	}
	storage := storageVersion(crd)
	stored := crd.Status.StoredVersions
	if slices.Equal(stored, []string{storage}) {
		return ctrl.Result{}, nil
	}
	n, err := r.migrate(ctx, schema.GroupVersionKind{Group: crd.Spec.Group, Version: storage, Kind: crd.Spec.Names.Kind})
	if err != nil {
		return ctrl.Result{}, err
	}
	// If the definition has changed since it was read, the storage version may have changed, and
	// objects may be stored in another one again. Then this is a conflict, and all begins anew.
	crd = crd.DeepCopy()
	crd.Status.StoredVersions = []string{storage}
	if err := r.Status().Update(ctx, crd); err != nil {
		return ctrl.Result{}, err
	}
	log.FromContext(ctx).Info("All objects are stored in the storage version.", "version", storage, "before", stored,
		"objects", n)
	r.Recorder.Eventf(crd, nil, corev1.EventTypeNormal, "StorageVersionMigrated", "Migrate",
		"%d objects are stored in version %s, and none in another version", n, storage)
	return ctrl.Result{}, nil
}

// storageVersion returns the version in which the API server stores objects.
func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return "" // the API server accepts no such definition
}

// migrate rewrites all objects of a kind, page by page, and returns how many there are. If a page
// has expired, because there are so many, it returns an error, and the retry starts from the first.
func (r *StorageVersionReconciler) migrate(ctx context.Context, kind schema.GroupVersionKind) (n int, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	for {
		if err := r.APIReader.List(ctx, list, client.Limit(r.PageSize), client.Continue(list.Continue)); err != nil {
			return n, err
		}
		for i := range list.Items {
			if err := r.rewrite(ctx, &list.Items[i]); err != nil {
				return n, err
			}
		}
		n += len(list.Items)
		if list.Continue == "" {
			return n, nil
		}
	}
}

// rewrite makes the API server store an object anew, by a patch that changes nothing. The patch is
// for the object as it was listed: if it is a conflict, somebody else has written the object since
// then, and the API server has stored it in the storage version.
func (r *StorageVersionReconciler) rewrite(ctx context.Context, obj *metav1.PartialObjectMetadata) error {
	unchanged := client.MergeFromWithOptions(obj.DeepCopy(), client.MergeFromWithOptimisticLock{})
	err := r.Patch(ctx, obj, unchanged)
	if apierrors.IsConflict(err) {
		return nil //flyball:ignore ignoredconflict whoever has written the object has stored it anew
	}
	return client.IgnoreNotFound(err)
}
