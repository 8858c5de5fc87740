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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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

// maxRetryDelay is the longest delay of another attempt after an error.
//
//upstream:pkg/controller/namespace.nsControllerRateLimiter
const maxRetryDelay = time.Minute

// AddToManager adds the controller, which is a handler of the inventory.
//
//upstream:pkg/controller/namespace.NewNamespaceController
func AddToManager(mgr manager.Manager, objects *inventory.Inventory) error {
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), discover: objects.Discover,
		monitored: objects.Synced}
	objects.AddHandler(&r.waiting)
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, maxRetryDelay)
	return builder.ControllerManagedBy(mgr).
		Named("namespace").
		For(&corev1.Namespace{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: deletionProgressed})).
		WatchesRawSource(source.Func(r.waiting.start)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: retries}).
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

// Reconcile deletes the content of a terminating namespace, and finalizes it when there is none left. A watch tells when an
// object is gone or has other finalizers. For objects that no watch covers, and for pods with a grace period, another attempt
// follows a second after half of the expected time.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.Delete
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ns, err := r.terminating(ctx, req.NamespacedName)
	if ns == nil || err != nil {
		r.waiting.remove(req.Name)
		return reconcile.Result{}, err
	}
	r.waiting.add(req.Name)
	result, err := r.deleteAllContent(ctx, ns)
	empty := err == nil && result.estimate == 0
	// Nobody reads the last conditions of a namespace that is gone at once.
	if !empty || len(otherFinalizers(ns))+len(ns.Finalizers) > 0 {
		err = errors.Join(err, r.updateConditions(ctx, ns, result))
	}
	if empty {
		log.FromContext(ctx).V(1).Info("The namespace is empty; removing its finalizer")
		if failure := r.finalize(ctx, ns.DeepCopy()); failure != nil {
			err = errors.Join(err, failure, r.updateConditions(ctx, ns, result))
		}
	}
	if err == nil && result.unwatched {
		return reconcile.Result{RequeueAfter: result.estimate/time.Second/2*time.Second + time.Second}, nil
	}
	return reconcile.Result{}, err
}

// updateConditions writes the conditions of a namespace if they have changed.
func (r *reconciler) updateConditions(ctx context.Context, ns *corev1.Namespace, result *deletionResult) error {
	conditions := result.conditions(ns.Status.Conditions, metav1.Now())
	if equality.Semantic.DeepEqual(conditions, ns.Status.Conditions) {
		return nil
	}
	ns.Status.Conditions = conditions
	return client.IgnoreNotFound(r.client.Status().Update(ctx, ns))
}

// otherFinalizers returns the finalizers of a namespace without "kubernetes".
func otherFinalizers(ns *corev1.Namespace) []corev1.FinalizerName {
	return sets.List(sets.New(ns.Spec.Finalizers...).Delete(corev1.FinalizerKubernetes))
}

// finalize removes the finalizer "kubernetes" of a namespace, also if the namespace has changed since it was read. It is an
// error if there is another namespace of the name.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.finalizeNamespace
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.retryOnConflictError
func (r *reconciler) finalize(ctx context.Context, ns *corev1.Namespace) error {
	for {
		ns.Spec.Finalizers = otherFinalizers(ns)
		err := r.client.SubResource("finalize").Update(ctx, ns)
		if !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
		latest := &corev1.Namespace{}
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(ns), latest); err != nil {
			return client.IgnoreNotFound(err)
		}
		if latest.UID != ns.UID {
			return errors.New("namespace uid has changed across retries")
		}
		ns = latest
	}
}

// terminating returns the namespace if it is terminating and has a finalizer in its spec, or nil. A live read confirms it, as the
// cache may be stale and a new namespace may have the same name.
//
//upstream:pkg/controller/namespace/deletion.finalized
func (r *reconciler) terminating(ctx context.Context, key types.NamespacedName) (ns *corev1.Namespace, err error) {
	for _, reader := range []client.Reader{r.client, r.live} {
		ns = &corev1.Namespace{}
		if err := reader.Get(ctx, key, ns); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		if ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) == 0 {
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
