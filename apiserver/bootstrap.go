package apiserver

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/authz"
	"flyball.dev/apiserver/authz/rbac"
	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/networking"
	"flyball.dev/apiserver/kinds/scheduling"
	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/resource"
)

// manager is the field manager of what the server itself writes.
const manager = "kube-apiserver"

// bootstrap creates the objects that every cluster has and that are missing.
func (s *Server) bootstrap() error {
	if err := s.createSystemNamespaces(); err != nil {
		return err
	}
	if err := s.create(networkingv1.SchemeGroupVersion.WithResource("servicecidrs"), networking.DefaultServiceCIDR()); err != nil {
		return fmt.Errorf("default ServiceCIDR: %w", err)
	}
	if err := s.createFlowControl(); err != nil {
		return err
	}
	if err := s.publishAuthentication(); err != nil {
		return fmt.Errorf("the authentication of extension API servers: %w", err)
	}
	for _, class := range scheduling.SystemPriorityClasses() {
		if err := s.create(schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"), class); err != nil {
			return fmt.Errorf("priority class %s: %w", class.Name, err)
		}
	}
	if s.options.AuthorizationMode == authz.ModeAlwaysAllow {
		return nil
	}
	return s.reconcilePolicy()
}

// reconcilePolicy creates the roles and bindings that every cluster has, and adds what is missing
// in those that exist.
func (s *Server) reconcilePolicy() error {
	for _, want := range rbac.Policy() {
		var gvr schema.GroupVersionResource
		switch want.(type) {
		case *rbacv1.Role:
			gvr = rbacv1.SchemeGroupVersion.WithResource("roles")
		case *rbacv1.ClusterRole:
			gvr = rbacv1.SchemeGroupVersion.WithResource("clusterroles")
		case *rbacv1.RoleBinding:
			gvr = rbacv1.SchemeGroupVersion.WithResource("rolebindings")
		default:
			gvr = rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")
		}
		if err := s.reconcileAccess(gvr, want); err != nil {
			return fmt.Errorf("%s %s: %w", gvr.Resource, want.GetName(), err)
		}
	}
	return nil
}

// reconcileAccess creates a role or binding, or adds what is missing in the one that exists.
func (s *Server) reconcileAccess(gvr schema.GroupVersionResource, want rbac.Object) error {
	namespace, name := want.GetNamespace(), want.GetName()
	ctx := request.WithNamespace(context.Background(), namespace)
	obj, err := s.objects.Storage(gvr).(rest.Getter).Get(ctx, name, &metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return s.create(gvr, want)
	}
	if err != nil {
		return err
	}
	changed, replace := rbac.Reconcile(obj.DeepCopyObject(), want)
	switch {
	case replace:
		if err := s.remove(gvr, namespace, name); err != nil {
			return err
		}
		return s.create(gvr, want)
	case changed:
		return s.replace(gvr, namespace, name, func(obj runtime.Object) { rbac.Reconcile(obj, want) })
	}
	return nil
}

// createFlowControl creates the flow schemas and the priority levels of kube-apiserver.
func (s *Server) createFlowControl() error {
	for _, level := range slices.Concat(bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations) {
		if err := s.create(flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations"), level.DeepCopy()); err != nil {
			return fmt.Errorf("priority level %s: %w", level.Name, err)
		}
	}
	for _, flow := range slices.Concat(bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas) {
		if err := s.create(flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas"), flow.DeepCopy()); err != nil {
			return fmt.Errorf("flow schema %s: %w", flow.Name, err)
		}
	}
	return nil
}

// createSystemNamespaces creates those of the system's namespaces that are missing.
func (s *Server) createSystemNamespaces() error {
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic,
		corev1.NamespaceNodeLease} {
		obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := s.create(corev1.SchemeGroupVersion.WithResource("namespaces"), obj); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	return nil
}

// own returns the context of a write of the server itself, whose user may do everything.
func own() context.Context {
	return request.WithUser(context.Background(), serverUser)
}

// serverUser is the user of the server's own writes.
var serverUser = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}

// create creates an object, without admission, if it does not exist.
func (s *Server) create(gvr schema.GroupVersionResource, obj kinds.Object) error {
	r, ok := s.catalog.Snapshot().Lookup(gvr)
	if !ok {
		return errors.NewNotFound(gvr.GroupResource(), obj.GetName())
	}
	builtin.Scheme().Default(obj)
	r.ManagedFields.Update(nil, obj, managedfields.Write{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate})
	_, err := r.Storage.(rest.Creater).Create(request.WithNamespace(own(), obj.GetNamespace()),
		obj, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// replace updates an object, without admission.
func (s *Server) replace(gvr schema.GroupVersionResource, namespace, name string,
	change func(obj runtime.Object)) error {
	r, ok := s.catalog.Snapshot().Lookup(gvr)
	if !ok {
		return errors.NewNotFound(gvr.GroupResource(), name)
	}
	return update(request.WithNamespace(own(), namespace), r, name, change)
}

// replaceStatus updates the status of an object without a namespace, without admission.
func (s *Server) replaceStatus(ctx context.Context, gvr schema.GroupVersionResource, name string,
	change func(obj runtime.Object)) error {
	r, ok := s.catalog.Snapshot().Lookup(gvr)
	if !ok {
		return errors.NewNotFound(gvr.GroupResource(), name)
	}
	return update(request.WithNamespace(request.WithUser(ctx, serverUser), ""), r.Subresource("status"), name, change)
}

// update updates an object by the storage of a resource or of its status.
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

// remove deletes an object, without admission.
func (s *Server) remove(gvr schema.GroupVersionResource, namespace, name string) error {
	storage, ok := s.objects.Storage(gvr).(rest.GracefulDeleter)
	if !ok {
		return errors.NewNotFound(gvr.GroupResource(), name)
	}
	_, _, err := storage.Delete(request.WithNamespace(context.Background(), namespace), name,
		rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
	return err
}
