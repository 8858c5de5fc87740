// Package zoo has small operators, each with one classic mistake, and for each a twin without the mistake. They prove
// that package lab finds what it should, and nothing else.
package zoo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/lab"
)

// Widget is the custom resource of all operators of the zoo.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec   `json:"spec,omitempty"`
	Status            WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec is the desired state of a Widget.
type WidgetSpec struct {
	Size  int64 `json:"size,omitempty"`
	Parts int64 `json:"parts,omitempty"`
}

// WidgetStatus is the observed state of a Widget.
type WidgetStatus struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Phase              string `json:"phase,omitempty"`
	Size               int64  `json:"size,omitempty"`
	Child              string `json:"child,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	c.ObjectMeta = *w.ObjectMeta.DeepCopy()
	return &c
}

// WidgetList is a list of Widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = make([]Widget, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*Widget)
	}
	return &c
}

var groupVersion = schema.GroupVersion{Group: "zoo.flyball.dev", Version: "v1"}

// newScheme returns a scheme with the built-in kinds and Widgets.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	scheme.AddKnownTypes(groupVersion, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return scheme
}

var scheme = newScheme()

// definition returns the CustomResourceDefinition of Widgets.
func definition() *apiextensionsv1.CustomResourceDefinition {
	open := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	number := apiextensionsv1.JSONSchemaProps{Type: "integer", Minimum: ptr.To(0.0)}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": number, "parts": number}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.zoo.flyball.dev"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: groupVersion.Group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: groupVersion.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec, "status": *open},
				}},
			}},
		},
	}
}

// newWidget returns a Widget in the namespace default.
func newWidget(name string, spec WidgetSpec) *Widget {
	return &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec}
}

// isPart reports whether an object has a Widget as its controller.
func isPart(o client.Object) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.Kind == "Widget"
}

// newPart returns a ConfigMap that belongs to a Widget.
func newPart(w *Widget, name string) *corev1.ConfigMap {
	part := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name, Labels: map[string]string{"widget": w.Name}},
		Data:       map[string]string{"size": fmt.Sprint(w.Spec.Size)},
	}
	utilruntime.Must(controllerutil.SetControllerReference(w, part, scheme))
	return part
}

// env is what an operator of the zoo works with.
type env struct {
	client.Client
	server client.Reader // reads past the cache
	config *rest.Config
	right  bool // the operator is the twin without the mistake
	memory map[string]string
	color  atomic.Pointer[string] // of the settings
	world  *external
	leases coordination.LeasesGetter
}

// external is a system outside of the cluster. It survives crashes of the operator.
type external struct {
	buckets map[string]int // by the name of the Widget: how many there are
}

// rePeriod is how often an operator looks again without an event.
const rePeriod = 20 * time.Second

// A reconciler brings one Widget to its desired state.
type reconciler func(ctx context.Context, e *env, w *Widget) (ctrl.Result, error)

// newManager returns the manager of an operator, which elects a leader if elects is set. If stale is set, reads need not include
// the client's own writes, as by default on controller-runtime.
func newManager(cfg *rest.Config, elects, stale bool) (manager.Manager, error) {
	return ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 server.Options{BindAddress: "0"},
		Controller:              config.Controller{SkipNameValidation: ptr.To(true)},
		Development:             ptr.To(false),
		LeaderElection:          elects,
		LeaderElectionID:        "zoo",
		LeaderElectionNamespace: "default",
		RetryPeriod:             ptr.To(retryPeriod),
		Client:                  client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(!stale)}},
	})
}

// operator returns the operator with a reconciler.
func operator(a *animal, right bool, world *external) lab.Operator {
	return lab.Operator{
		CRDs:     []*apiextensionsv1.CustomResourceDefinition{definition()},
		Scheme:   scheme,
		Replicas: a.replicas,
		Start: func(cfg *rest.Config) (manager.Manager, error) {
			mgr, err := newManager(cfg, a.elects && right, a.stale)
			if err != nil {
				return nil, err
			}
			leases, err := coordination.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
			if err != nil {
				return nil, err
			}
			e := &env{Client: mgr.GetClient(), server: mgr.GetAPIReader(), config: cfg, right: right, memory: map[string]string{}, world: world, leases: leases}
			if a.setUp != nil {
				if err := a.setUp(mgr, e); err != nil {
					return nil, err
				}
			}
			b := ctrl.NewControllerManagedBy(mgr).Named("widget").For(&Widget{})
			if !a.blind {
				b = b.Owns(&corev1.ConfigMap{})
			}
			return mgr, b.Complete(reconcilerFunc(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
				w := &Widget{}
				err := e.Get(ctx, req.NamespacedName, w)
				if apierrors.IsNotFound(err) && a.gone != nil {
					return ctrl.Result{}, a.gone(e, req.Name)
				}
				if err != nil {
					return ctrl.Result{}, client.IgnoreNotFound(err)
				}
				return a.reconcile(ctx, e, w)
			}))
		},
	}
}

// reconcilerFunc is a reconcile.Reconciler.
type reconcilerFunc func(ctx context.Context, req ctrl.Request) (ctrl.Result, error)

func (f reconcilerFunc) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return f(ctx, req)
}
