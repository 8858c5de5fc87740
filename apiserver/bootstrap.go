package apiserver

import (
	"context"
	stderrors "errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/authz"
	"flyball.dev/apiserver/authz/rbac"
	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/networking"
	"flyball.dev/apiserver/kinds/scheduling"
	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
)

// manager is the field manager of the server's own writes.
const manager = "kube-apiserver"

// bootstrap creates the missing objects that every cluster has, and adds missing rules and subjects to the roles and
// bindings among them.
func (s *Server) bootstrap() error {
	for _, o := range s.bootstrapObjects() {
		created, err := s.seedPrepared(o.resource, o.object, o.prepare)
		if access, ok := o.object.(rbac.Object); ok && err == nil && !created && o.resource.Group == rbacv1.GroupName {
			err = s.reconcileAccess(o.resource, access)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.resource.Resource, o.object.GetName(), err)
		}
	}
	return nil
}

// systemNamespaces are the namespaces that every cluster has.
var systemNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic,
	corev1.NamespaceNodeLease}

// createSystemNamespaces creates the missing system namespaces.
//
//upstream:pkg/controlplane/controller/systemnamespaces.Controller.createNamespaceIfNeeded
func (s *Server) createSystemNamespaces() error {
	for _, name := range systemNamespaces {
		obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := s.seed(corev1.SchemeGroupVersion.WithResource("namespaces"), obj); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	return nil
}

// bootstrapObject is an object that the server creates at its start.
type bootstrapObject struct {
	resource schema.GroupVersionResource
	object   kinds.Object
	prepare  prepareFunc
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

// bootstrapObjects returns new copies of the objects that every cluster has, and of the objects of the options. An object
// comes after the objects that it needs.
func (s *Server) bootstrapObjects() []bootstrapObject {
	var all []bootstrapObject
	add := func(gv schema.GroupVersion, resource string, obj kinds.Object) {
		all = append(all, bootstrapObject{gv.WithResource(resource), obj, prepareValid})
	}
	for _, name := range systemNamespaces {
		add(corev1.SchemeGroupVersion, "namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	add(networkingv1.SchemeGroupVersion, "servicecidrs", networking.DefaultServiceCIDR(s.options.ServiceNetwork))
	for _, f := range flowControls() {
		all = append(all, bootstrapObject{f.resource, f.object, prepareValid})
	}
	for _, class := range scheduling.SystemPriorityClasses() {
		add(schedulingv1.SchemeGroupVersion, "priorityclasses", class)
	}
	roles := slices.Contains(s.modes, authz.ModeRBAC)
	if roles {
		for _, obj := range rbac.Policy() {
			all = append(all, bootstrapObject{s.resourceOf(obj), obj, prepareValid})
		}
	}
	for _, obj := range s.options.Objects {
		if resource := s.resourceOf(obj); roles || resource.Group != rbacv1.GroupName {
			all = append(all, bootstrapObject{resource, obj.DeepCopyObject().(kinds.Object), prepareGiven})
		}
	}
	return all
}

// resourceOf returns the resource of a built-in object, or the zero value if the object's kind is not served.
func (s *Server) resourceOf(obj kinds.Object) schema.GroupVersionResource {
	of, _, err := builtin.Scheme().ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersionResource{}
	}
	kind, _ := s.objects.Kind(of[0])
	return kind.Resource
}

// reconcileAccess adds the missing rules or subjects to an existing role or binding, or replaces the object.
func (s *Server) reconcileAccess(gvr schema.GroupVersionResource, want rbac.Object) error {
	namespace, name := want.GetNamespace(), want.GetName()
	ctx := request.WithNamespace(context.Background(), namespace)
	obj, err := s.objects.Storage(gvr).(rest.Getter).Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed, replace := rbac.Reconcile(obj.DeepCopyObject(), want)
	switch {
	case replace:
		if err := s.remove(gvr, namespace, name, nil); err != nil {
			return err
		}
		_, err := s.seed(gvr, want)
		return err
	case changed:
		return s.replace(gvr, namespace, name, func(obj runtime.Object) { rbac.Reconcile(obj, want) })
	}
	return nil
}

// own returns the context of the server's own writes. Its user may do everything.
func own() context.Context {
	return request.WithUser(context.Background(), serverUser)
}

// seed creates one of the server's own objects, without admission, if it does not exist, and reports whether it did.
// seed does not validate objects that are known to be valid, and leaves decoding to the first read, which saves most of
// the cost. The registry creates objects of kinds that allocate addresses or ports.
func (s *Server) seed(gvr schema.GroupVersionResource, obj kinds.Object) (created bool, err error) {
	return s.seedPrepared(gvr, obj, prepareValid)
}

// seedPrepared is seed with another preparation of the object.
func (s *Server) seedPrepared(gvr schema.GroupVersionResource, obj kinds.Object, prepare prepareFunc) (created bool, err error) {
	r, ok := s.catalog.Snapshot().Lookup(gvr)
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
	if data, err = store.Seal(ctx, store.Transformer(s.options.Transformers, gvr.GroupResource()), key, data); err != nil {
		return false, err
	}
	_, err = s.options.Storage.Put(ctx, storage.Write{Key: key, Value: data, If: storage.Absent})
	if stderrors.Is(err, storage.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// takeManager returns the field manager of an object of the options, and removes it from the object.
func takeManager(obj kinds.Object) string {
	fields := obj.GetManagedFields()
	if len(fields) == 0 {
		return manager
	}
	obj.SetManagedFields(nil)
	return fields[0].Manager
}

func ignoreAlreadyExists(err error) error {
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// serverUser is the user of the server's own writes.
var serverUser = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}

// replace updates an object without admission.
func (s *Server) replace(gvr schema.GroupVersionResource, namespace, name string,
	change func(obj runtime.Object)) error {
	r, ok := s.catalog.Snapshot().Lookup(gvr)
	if !ok {
		return errors.NewNotFound(gvr.GroupResource(), name)
	}
	return update(request.WithNamespace(own(), namespace), r, name, change)
}

// replaceStatus updates the status of a cluster-scoped object without admission.
func (s *Server) replaceStatus(ctx context.Context, gvr schema.GroupVersionResource, name string,
	change func(obj runtime.Object)) error {
	r, ok := s.catalog.Snapshot().Lookup(gvr)
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
func (s *Server) remove(gvr schema.GroupVersionResource, namespace, name string, only *metav1.Preconditions) error {
	storage, ok := s.objects.Storage(gvr).(rest.GracefulDeleter)
	if !ok {
		return errors.NewNotFound(gvr.GroupResource(), name)
	}
	_, _, err := storage.Delete(request.WithNamespace(own(), namespace), name,
		rest.ValidateAllObjectFunc, &metav1.DeleteOptions{Preconditions: only})
	return err
}
