// Package namespace empties namespaces that are to go, and lets them go when they are empty.
package namespace

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// again is when a namespace that is not empty is looked at once more, though nothing in it was seen
// to go.
const again = 5 * time.Second

// AddToManager adds the controller. The inventory tells it when something in a namespace is gone.
func AddToManager(mgr manager.Manager, objects *inventory.Inventory) error {
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), discover: objects.Discover}
	objects.Listen(&r.drained)
	return builder.ControllerManagedBy(mgr).
		Named("namespace").
		For(&corev1.Namespace{}).
		WatchesRawSource(source.Func(r.drained.start)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

type reconciler struct {
	client   client.Client
	live     client.Reader
	discover func() ([]inventory.Resource, error)
	drained  drained
}

// Reconcile moves a namespace on its way out.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ns := &corev1.Namespace{}
	if err := r.client.Get(ctx, req.NamespacedName, ns); err != nil {
		r.drained.ignore(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		r.drained.ignore(req.Name)
		return reconcile.Result{}, nil
	}
	r.drained.tellOf(req.Name)
	left, err := r.empty(ctx, ns.Name)
	if err == nil && left.none() {
		ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		return reconcile.Result{}, client.IgnoreNotFound(r.client.SubResource("finalize").Update(ctx, ns))
	}
	conditions := left.conditions(ns.Status.Conditions, metav1.Now())
	if !equality.Semantic.DeepEqual(conditions, ns.Status.Conditions) {
		ns.Status.Conditions = conditions
		err = errors.Join(err, client.IgnoreNotFound(r.client.Status().Update(ctx, ns)))
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// drained brings a namespace back when an object in it is gone. It listens to the inventory.
type drained struct {
	mu    sync.Mutex
	names map[string]bool
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (d *drained) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = queue
	return nil
}

func (d *drained) tellOf(namespace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil {
		d.names = map[string]bool{}
	}
	d.names[namespace] = true
}

func (d *drained) ignore(namespace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.names, namespace)
}

// Gone implements inventory.Listener.
func (d *drained) Gone(_ inventory.Resource, obj *metav1.PartialObjectMetadata) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[obj.Namespace] {
		d.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: obj.Namespace}})
	}
}

// Seen implements inventory.Listener.
func (d *drained) Seen(inventory.Resource, *metav1.PartialObjectMetadata) {}

// Came implements inventory.Listener.
func (d *drained) Came(inventory.Resource) {}

// Ended implements inventory.Listener.
func (d *drained) Ended(inventory.Resource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.names {
		d.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
}
