package background

import (
	"context"
	stderrors "errors"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
)

// manager is the field manager of the server's own writes.
const manager = "kube-apiserver"

// objects reads and writes objects as the server, without admission.
type objects struct {
	storage      storage.Store
	catalog      *resource.Catalog
	transformers value.ResourceTransformers
}

// registry returns the storage of a resource, or nil if the resource is not served.
func (o *objects) registry(gvr schema.GroupVersionResource) rest.Storage {
	r, ok := o.catalog.Snapshot().Lookup(gvr)
	if !ok {
		return nil
	}
	return r.Storage
}

// serverUser is the user of the server's own writes.
var serverUser = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}

// own returns the context of the server's own writes. Its user may do everything.
func own() context.Context {
	return request.WithUser(context.Background(), serverUser)
}

// seed creates one of the server's own objects, without admission, if it does not exist, and reports whether it did.
// seed does not validate objects that are known to be valid, and leaves decoding to the first read, which saves most of
// the cost. The registry creates objects of kinds that allocate addresses or ports.
func (o *objects) seed(gvr schema.GroupVersionResource, obj kinds.Object) (created bool, err error) {
	return o.seedPrepared(gvr, obj, prepareValid)
}

// seedPrepared is seed with another preparation of the object.
//
//upstream:none kube-apiserver sends requests to itself.
func (o *objects) seedPrepared(gvr schema.GroupVersionResource, obj kinds.Object, prepare prepareFunc) (created bool, err error) {
	r, ok := o.catalog.Snapshot().Lookup(gvr)
	if !ok {
		return false, errors.NewNotFound(gvr.GroupResource(), obj.GetName())
	}
	ctx := request.WithNamespace(own(), obj.GetNamespace())
	strategy := r.Storage.(interface {
		GetCreateStrategy() rest.RESTCreateStrategy
	}).GetCreateStrategy()
	builtin.Scheme().Default(obj)
	r.ManagedFields.Update(nil, obj, managedfields.Write{Manager: takeManager(obj), Operation: metav1.ManagedFieldsOperationUpdate})
	if registered, ok := r.Storage.(*registry.Store); ok && registered.BeginCreate != nil {
		_, err := registered.Create(ctx, obj, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
		return err == nil, ignoreAlreadyExists(err)
	}
	if err := prepare(strategy, ctx, obj); err != nil {
		return false, err
	}
	data, err := runtime.Encode(builtin.StorageCodec(gvr.GroupResource()), obj)
	if err != nil {
		return false, err
	}
	key := store.Key(gvr.GroupResource(), obj.GetNamespace(), obj.GetName())
	if data, err = store.Seal(ctx, store.Transformer(o.transformers, gvr.GroupResource()), key, data); err != nil {
		return false, err
	}
	_, err = o.storage.Put(ctx, storage.Write{Key: key, Value: data, If: storage.Absent})
	if stderrors.Is(err, storage.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// takeManager returns the manager in the managed fields of an object, or else manager, and clears them.
func takeManager(obj kinds.Object) string {
	fields := obj.GetManagedFields()
	if len(fields) == 0 {
		return manager
	}
	obj.SetManagedFields(nil)
	return fields[0].Manager
}

// replace updates an object without admission.
func (o *objects) replace(gvr schema.GroupVersionResource, namespace, name string,
	change func(obj runtime.Object)) error {
	r, ok := o.catalog.Snapshot().Lookup(gvr)
	if !ok {
		return errors.NewNotFound(gvr.GroupResource(), name)
	}
	return update(request.WithNamespace(own(), namespace), r, name, change)
}

// replaceStatus updates the status of a cluster-scoped object without admission.
func (o *objects) replaceStatus(ctx context.Context, gvr schema.GroupVersionResource, name string,
	change func(obj runtime.Object)) error {
	r, ok := o.catalog.Snapshot().Lookup(gvr)
	if !ok {
		return errors.NewNotFound(gvr.GroupResource(), name)
	}
	return update(request.WithNamespace(request.WithUser(ctx, serverUser), ""), r.Subresource("status"), name, change)
}

// update updates an object or its status through the storage of the resource.
func update(ctx context.Context, r *resource.Resource, name string, change func(obj runtime.Object)) error {
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		obj := old.DeepCopyObject()
		change(obj)
		return r.Scope.FieldManager.UpdateNoErrors(old, obj, manager), nil
	})
	_, _, err := r.Storage.(rest.Updater).Update(ctx, name, info,
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// remove deletes an object without admission, if the preconditions hold.
func (o *objects) remove(gvr schema.GroupVersionResource, namespace, name string, only *metav1.Preconditions) error {
	deleter, ok := o.registry(gvr).(rest.GracefulDeleter)
	if !ok {
		return errors.NewNotFound(gvr.GroupResource(), name)
	}
	_, _, err := deleter.Delete(request.WithNamespace(own(), namespace), name,
		rest.ValidateAllObjectFunc, &metav1.DeleteOptions{Preconditions: only})
	return err
}

// prepareFunc prepares an object for its creation.
type prepareFunc func(rest.RESTCreateStrategy, context.Context, runtime.Object) error

// prepareGiven prepares an object of the options, which may be invalid.
func prepareGiven(strategy rest.RESTCreateStrategy, ctx context.Context, obj runtime.Object) error {
	rest.FillObjectMetaSystemFields(obj.(metav1.Object))
	return rest.BeforeCreate(strategy, ctx, obj)
}

// prepareValid prepares an object that is known to be valid.
func prepareValid(strategy rest.RESTCreateStrategy, ctx context.Context, obj runtime.Object) error {
	rest.FillObjectMetaSystemFields(obj.(metav1.Object))
	strategy.PrepareForCreate(ctx, obj)
	strategy.Canonicalize(obj)
	return nil
}

// resourceOf returns the resource of a built-in object, or the zero value if the object's kind is not served.
func (o *objects) resourceOf(obj kinds.Object) schema.GroupVersionResource {
	of, _, err := builtin.Scheme().ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersionResource{}
	}
	for r := range o.catalog.Snapshot().Group(of[0].Group) {
		if r.Kind == of[0] {
			return r.GroupVersionResource()
		}
	}
	return schema.GroupVersionResource{}
}

func ignoreAlreadyExists(err error) error {
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func ignoreNotFound(err error) error {
	if errors.IsNotFound(err) {
		return nil
	}
	return err
}

// ignoreChanged returns nil if err says that the object was changed or deleted concurrently: the change triggers
// another reconciliation.
func ignoreChanged(err error) error {
	if errors.IsNotFound(err) || errors.IsConflict(err) {
		return nil
	}
	return err
}
