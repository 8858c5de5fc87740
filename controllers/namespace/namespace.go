// Package namespace deletes the content of terminating namespaces, and finalizes them when they are
// empty.
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// unmonitoredInterval is how often a terminating namespace is reconciled that still has objects of
// kinds which the inventory does not watch. It delivers the changes of all others.
const unmonitoredInterval = 5 * time.Second

// AddToManager adds the controller, which is a handler of the inventory.
//
//upstream:pkg/controller/namespace.NewNamespaceController
func AddToManager(mgr manager.Manager, objects *inventory.Inventory) error {
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), discover: objects.Discover,
		monitored: objects.Synced}
	objects.AddHandler(&r.waiting)
	return builder.ControllerManagedBy(mgr).
		Named("namespace").
		For(&corev1.Namespace{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: deletionProgressed})).
		WatchesRawSource(source.Func(r.waiting.start)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// deletionProgressed reports whether the deletion of a namespace has begun, or somebody has removed a
// finalizer. Its conditions have the errors of the last attempt, after which the next one has to wait.
func deletionProgressed(e event.UpdateEvent) bool {
	old, ns := e.ObjectOld.(*corev1.Namespace), e.ObjectNew.(*corev1.Namespace)
	return !old.DeletionTimestamp.Equal(ns.DeletionTimestamp) || !slices.Equal(old.Spec.Finalizers, ns.Spec.Finalizers)
}

// reconciler reconciles namespaces.
type reconciler struct {
	client    client.Client
	live      client.Reader
	discover  func(context.Context) (all []inventory.Resource, undiscovered, unparsed error)
	monitored func(kind schema.GroupKind) bool
	waiting   waiting
}

// Reconcile deletes the content of a terminating namespace, and finalizes it when there is none
// left.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.Delete
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ns, err := r.terminating(ctx, req.NamespacedName)
	if ns == nil || err != nil {
		r.waiting.remove(req.Name)
		return reconcile.Result{}, err
	}
	r.waiting.add(req.Name)
	result, err := r.deleteAllContent(ctx, ns.Name)
	others := slices.DeleteFunc(slices.Clone(ns.Spec.Finalizers), func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	empty := err == nil && result.empty()
	conditions := result.conditions(ns.Status.Conditions, metav1.Now())
	// Nobody reads the last conditions of a namespace that is gone at once.
	stays := !empty || len(others)+len(ns.Finalizers) > 0
	if stays && !equality.Semantic.DeepEqual(conditions, ns.Status.Conditions) {
		ns.Status.Conditions = conditions
		err = errors.Join(err, client.IgnoreNotFound(r.client.Status().Update(ctx, ns)))
	}
	if empty && err == nil {
		log.FromContext(ctx).V(1).Info("The namespace is empty; removing its finalizer")
		ns.Spec.Finalizers = others
		return reconcile.Result{}, client.IgnoreNotFound(r.client.SubResource("finalize").Update(ctx, ns))
	}
	if err == nil && result.unmonitored {
		return reconcile.Result{RequeueAfter: unmonitoredInterval}, nil
	}
	return reconcile.Result{}, err
}

// terminating returns the namespace if it is terminating and has the finalizer "kubernetes", or
// nil. A live read confirms it, as the cache may be stale and a new namespace may have the same
// name.
//
//upstream:pkg/controller/namespace/deletion.finalized
func (r *reconciler) terminating(ctx context.Context, key types.NamespacedName) (ns *corev1.Namespace, err error) {
	for _, reader := range []client.Reader{r.client, r.live} {
		ns = &corev1.Namespace{}
		if err := reader.Get(ctx, key, ns); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		if ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
			return nil, nil
		}
	}
	return ns, nil
}

// waiting are the terminating namespaces that are not empty yet. As a handler of the inventory it
// enqueues a namespace when an object in it was deleted or has other finalizers, and all of them
// when the served kinds have changed or another kind is watched.
type waiting struct {
	mu    sync.Mutex
	names map[string]bool
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// start is a source, which receives the queue.
func (w *waiting) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

func (w *waiting) add(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil {
		w.names = map[string]bool{}
	}
	w.names[namespace] = true
}

func (w *waiting) remove(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.names, namespace)
}

// OnDelete implements inventory.Handler.
func (w *waiting) OnDelete(_ inventory.Resource, obj *metav1.PartialObjectMetadata) {
	w.enqueue(obj.Namespace)
}

// enqueue enqueues a namespace if it is waiting.
func (w *waiting) enqueue(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[namespace] {
		w.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}})
	}
}

// ResourcesChanged implements inventory.Handler.
func (w *waiting) ResourcesChanged() { w.enqueueAll() }

// MonitorSynced implements inventory.Handler.
func (w *waiting) MonitorSynced(inventory.Resource) { w.enqueueAll() }

func (w *waiting) enqueueAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.names {
		w.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
}

// OnUpdate implements inventory.Handler. The conditions of the namespace have the finalizers of
// objects that are being deleted.
func (w *waiting) OnUpdate(_ inventory.Resource, obj *metav1.PartialObjectMetadata) {
	if obj.DeletionTimestamp != nil && len(obj.Finalizers) > 0 {
		w.enqueue(obj.Namespace)
	}
}

// MonitorStarted implements inventory.Handler.
func (w *waiting) MonitorStarted(inventory.Resource) {}
