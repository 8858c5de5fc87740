package background

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/authz/rbac"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/networking"
	"flyball.dev/apiserver/kinds/scheduling"
)

// bootstrap creates the missing objects that every cluster has, and adds missing rules and subjects to the roles and
// bindings among them.
func (c *Controllers) bootstrap() error {
	for _, o := range c.bootstrapObjects() {
		created, err := c.objects.seedPrepared(o.resource, o.object, o.prepare)
		if access, ok := o.object.(rbac.Object); ok && err == nil && !created && o.resource.Group == rbacv1.GroupName {
			err = c.objects.reconcileAccess(o.resource, access)
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
func (o *objects) createSystemNamespaces() error {
	for _, name := range systemNamespaces {
		obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := o.seed(corev1.SchemeGroupVersion.WithResource("namespaces"), obj); err != nil {
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

// bootstrapObjects returns new copies of the objects that every cluster has, and of the objects of the options. An object
// comes after the objects that it needs.
//
//upstream:none Other functions describe the objects.
func (c *Controllers) bootstrapObjects() []bootstrapObject {
	var all []bootstrapObject
	add := func(gv schema.GroupVersion, resource string, obj kinds.Object) {
		all = append(all, bootstrapObject{gv.WithResource(resource), obj, prepareValid})
	}
	for _, name := range systemNamespaces {
		add(corev1.SchemeGroupVersion, "namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	add(networkingv1.SchemeGroupVersion, "servicecidrs", networking.DefaultServiceCIDR(c.config.ServiceNetwork))
	for _, f := range flowControls() {
		all = append(all, bootstrapObject{f.resource, f.object, prepareValid})
	}
	for _, class := range scheduling.SystemPriorityClasses() {
		add(schedulingv1.SchemeGroupVersion, "priorityclasses", class)
	}
	if c.config.RBAC {
		for _, obj := range rbac.Policy() {
			all = append(all, bootstrapObject{c.objects.resourceOf(obj), obj, prepareValid})
		}
	}
	for _, obj := range c.config.Objects {
		if resource := c.objects.resourceOf(obj); c.config.RBAC || resource.Group != rbacv1.GroupName {
			all = append(all, bootstrapObject{resource, obj.DeepCopyObject().(kinds.Object), prepareGiven})
		}
	}
	return all
}

// reconcileAccess adds the missing rules or subjects to an existing role or binding, or replaces the object.
//
//upstream:pkg/registry/rbac/rest.ensureRBACPolicy
func (o *objects) reconcileAccess(gvr schema.GroupVersionResource, want rbac.Object) error {
	namespace, name := want.GetNamespace(), want.GetName()
	ctx := request.WithNamespace(context.Background(), namespace)
	obj, err := o.registry(gvr).(rest.Getter).Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed, replace := rbac.Reconcile(obj.DeepCopyObject(), want)
	switch {
	case replace:
		if err := o.remove(gvr, namespace, name, nil); err != nil {
			return err
		}
		_, err := o.seed(gvr, want)
		return err
	case changed:
		return o.replace(gvr, namespace, name, func(obj runtime.Object) { rbac.Reconcile(obj, want) })
	}
	return nil
}
