// Package stages plays kwok's stages. A Stage is an object of the API, kwok.x-k8s.io/v1alpha1, that selects objects of a kind,
// and says what happens to them after a delay: a change of their status, an event, or their deletion. Stages are scripts of
// whole pods and nodes, and of the objects of any other kind.
//
// The library of kwok v0.8 decides which stage is next, after which delay, and with which patch, so kwok's own stages run as
// they are. The library is not small: a program links it only if it imports this package.
//
//	list, err := stages.Load("stages")
//	...
//	plane, err := controlplane.Start(ctx, controlplane.Options{Controllers: controllers.Options{Stages: stages.New(list...)}})
//
// The stand-in for kubelet plays the stages of pods and nodes as its own next step (see pods.Stages): their requests for
// addresses, and their leases, are the same as without stages. The objects of other kinds have a controller here.
//
// # Stages that do not work
//
// A stage without a selector, with an expression or a template that does not parse, or for a kind that does not exist, has no
// effect. The condition [Valid] of the Stage is then False, and it and an event say why. So they do if a stage fails for an
// object, or if it lets an object go in circles. All other stages and objects go on.
//
// # Concurrency
//
// The library compiles a stage at its first match and is not safe for concurrent use, so a lock is held while it
// selects a stage and renders the patches; requests are sent without the lock.
//
//upstream:none The stages are kwok's.
package stages

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/kwok/kustomize/crd"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/yaml"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
)

// Kind is the kind of stages.
var Kind = v1alpha1.GroupVersion.WithKind(v1alpha1.StageKind)

// account is the name of kwok's service account in kube-system, and of its role.
const account = "kwok-controller"

// Controller is the controller of stages, for controllers.Options.
type Controller struct{ stages []*v1alpha1.Stage }

// New returns a controller that begins with some stages. More can be created by the API. The controller does not change the
// stages.
func New(stages ...*v1alpha1.Stage) *Controller { return &Controller{stages} }

// Objects implements controllers.Stages.
func (c *Controller) Objects() ([]client.Object, error) {
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(crd.Stage, &definition.Object); err != nil {
		return nil, err
	}
	objects := []client.Object{definition, role(), binding()}
	for _, s := range c.stages {
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
		if err != nil {
			return nil, fmt.Errorf("stage %q: %w", s.Name, err)
		}
		u := &unstructured.Unstructured{Object: o}
		u.SetGroupVersionKind(Kind)
		delete(o, "status")
		unstructured.RemoveNestedField(o, "metadata", "creationTimestamp")
		objects = append(objects, u)
	}
	return objects, nil
}

// role returns the role of the service account, as in kwok's manifests. A stage that needs more, for objects of other kinds,
// needs another role for the account.
func role() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
			{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete", "patch", "update"}},
			{APIGroups: []string{""}, Resources: []string{"nodes/status", "pods/status"}, Verbs: []string{"patch", "update"}},
			{APIGroups: []string{Kind.Group}, Resources: []string{"stages"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{Kind.Group}, Resources: []string{"stages/status"}, Verbs: []string{"patch", "update"}},
		},
	}
}

func binding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: account}},
	}
}

// AddToManager implements controllers.Stages.
func (c *Controller) AddToManager(mgr manager.Manager) (pods.Stages, error) {
	p := &player{
		client:   mgr.GetClient(),
		mapper:   meta.ToRESTMapperWithContext(mgr.GetRESTMapper()),
		recorder: events.RecorderFor(mgr, "kwok_controller"),
		jobs:     map[jobKey]*job{},
		dynamicFor: func(user string) (dynamic.Interface, error) {
			config := rest.CopyConfig(mgr.GetConfig())
			config.Impersonate.UserName = user
			return dynamic.NewForConfig(config)
		},
	}
	p.library = newLibrary()
	p.catalog = &catalog{library: p.library, reader: mgr.GetCache(), mapper: p.mapper, failed: map[string]*failure{}}
	return p, addControllers(mgr, p)
}

// objectOf returns a new object of a kind, of the type that the library wants.
func objectOf(kind schema.GroupVersionKind) client.Object {
	switch kind {
	case podKind:
		return newPod()
	case nodeKind:
		return newNode()
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}
