// Package resourcequota computes the usage of ResourceQuotas from the objects in their namespaces.
package resourcequota

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/requeue"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
	"flyball.dev/internal/quota"
)

// resync is the interval at which the usage of each quota is computed again. Admission charges a quota before an
// object is stored, and nothing reports an object that is then not stored.
//
//upstream:cmd/kube-controller-manager/app.newResourceQuotaController
const resync = 5 * time.Minute

// recount is the time after which the usage is computed again if it differs from the charges of admission. The
// first computation may have missed objects that were admitted but not stored yet.
const recount = time.Second

// AddToManager adds the controller, which is a handler of the inventory.
//
//upstream:pkg/controller/resourcequota.NewController
func AddToManager(mgr manager.Manager, objects *inventory.Inventory) error {
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), mapper: meta.ToRESTMapperWithContext(mgr.GetRESTMapper())}
	objects.AddHandler(&r.quotas)
	return builder.ControllerManagedBy(mgr).
		Named("resourcequota").
		For(&corev1.ResourceQuota{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: limitsChanged})).
		// Admission has charged the quotas for new pods.
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.quotas.of), builder.WithPredicates(podstate.Ended)).
		WatchesRawSource(source.Func(r.quotas.start)).
		Complete(r)
}

// limitsChanged reports whether the limits of a quota have changed. Admission writes its usage.
//
//upstream:pkg/controller/resourcequota.NewController
func limitsChanged(e event.UpdateEvent) bool {
	q, old := e.ObjectNew.(*corev1.ResourceQuota), e.ObjectOld.(*corev1.ResourceQuota)
	return !equality.Semantic.DeepEqual(q.Spec, old.Spec)
}

// reconciler reconciles ResourceQuotas.
type reconciler struct {
	client client.Client
	live   client.Reader
	mapper meta.RESTMapperWithContext
	quotas quotas
}

// Reconcile computes the usage of one quota and updates its status.
//
//upstream:pkg/controller/resourcequota.Controller.syncResourceQuota
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	q, err := r.read(ctx, req.NamespacedName)
	if q == nil || err != nil {
		return reconcile.Result{}, err
	}
	r.quotas.add(req.NamespacedName)
	hard := upstream.Add(corev1.ResourceList{}, q.Spec.Hard)
	list := func(resource schema.GroupResource, namespace string) ([]runtime.Object, error) {
		return r.list(ctx, resource, namespace)
	}
	registry := generic.NewRegistry(quota.Evaluators(upstream.ResourceNames(hard), list))
	counted, failed := upstream.CalculateUsage(q.Namespace, q.Spec.Scopes, hard, registry, q.Spec.ScopeSelector)
	used := upstream.Add(corev1.ResourceList{}, q.Status.Used)
	for name, quantity := range counted {
		used[name] = quantity
	}
	status := corev1.ResourceQuotaStatus{Hard: hard, Used: upstream.Mask(used, upstream.ResourceNames(hard))}
	if q.Status.Used != nil && equality.Semantic.DeepEqual(status, q.Status) {
		return requeue.After(resync, failed)
	}
	q.Status = status
	return requeue.After(recount, errors.Join(failed, client.IgnoreNotFound(r.client.Status().Update(ctx, q))))
}

// read returns a quota, or nil if it does not exist. It reads live, since the cache may lack a charge of admission
// and then agree with a computation that lacks the object. It lists, since the controller's role does not permit get.
func (r *reconciler) read(ctx context.Context, key client.ObjectKey) (*corev1.ResourceQuota, error) {
	found := &corev1.ResourceQuotaList{}
	byName := client.MatchingFields{"metadata.name": key.Name}
	if err := r.live.List(ctx, found, client.InNamespace(key.Namespace), byName); err != nil {
		return nil, err
	}
	if len(found.Items) == 0 {
		r.quotas.remove(key)
		return nil, nil
	}
	return &found.Items[0], nil
}

// list returns the objects of a resource in a namespace, for most resources their metadata only. It reads live,
// since a cache may lack an object that is older than the quota, which admission has not charged.
func (r *reconciler) list(ctx context.Context, resource schema.GroupResource, namespace string) ([]runtime.Object, error) {
	var list client.ObjectList
	switch resource {
	case corev1.Resource("pods"):
		list = &corev1.PodList{}
	case corev1.Resource("services"):
		list = &corev1.ServiceList{}
	case corev1.Resource("persistentvolumeclaims"):
		list = &corev1.PersistentVolumeClaimList{}
	case resourcev1.Resource("resourceclaims"):
		list = &resourcev1.ResourceClaimList{}
	default:
		kind, err := r.mapper.KindForWithContext(ctx, resource.WithVersion(""))
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		metadata := &metav1.PartialObjectMetadataList{}
		metadata.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		list = metadata
	}
	if err := r.live.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	return meta.ExtractList(list)
}

// quotas are the quotas of each namespace. As a handler of the inventory it enqueues the quotas of a namespace
// when an object is deleted there, or when a Service or a claim changes.
type quotas struct {
	mu    sync.Mutex
	names map[string]map[string]bool // by namespace
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// start is a source, which receives the queue.
func (q *quotas) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = queue
	return nil
}

func (q *quotas) add(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.names == nil {
		q.names = map[string]map[string]bool{}
	}
	if q.names[key.Namespace] == nil {
		q.names[key.Namespace] = map[string]bool{}
	}
	q.names[key.Namespace][key.Name] = true
}

func (q *quotas) remove(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.names[key.Namespace], key.Name)
	if len(q.names[key.Namespace]) == 0 {
		delete(q.names, key.Namespace)
	}
}

// of returns the quotas of an object's namespace.
func (q *quotas) of(_ context.Context, obj client.Object) []reconcile.Request {
	return q.in(obj.GetNamespace())
}

func (q *quotas) in(namespace string) []reconcile.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	var requests []reconcile.Request
	for name := range q.names[namespace] {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	return requests
}

// OnDelete implements inventory.Handler. Pods have a watch of their own, because a pod that terminates frees
// resources too.
func (q *quotas) OnDelete(r inventory.Resource, obj *metav1.PartialObjectMetadata) {
	if r.Kind.Group == "" && r.Plural == "pods" {
		return
	}
	for _, request := range q.in(obj.Namespace) {
		q.queue.Add(request)
	}
}

// OnUpdate implements inventory.Handler.
//
//upstream:pkg/quota/v1/install.DefaultUpdateFilter
func (q *quotas) OnUpdate(r inventory.Resource, obj *metav1.PartialObjectMetadata) {
	if r.Kind.Group == "" && (r.Plural == "services" || r.Plural == "persistentvolumeclaims") {
		q.OnDelete(r, obj)
	}
}

// MonitorStarted, MonitorSynced and ResourcesChanged implement inventory.Handler.
func (q *quotas) MonitorStarted(inventory.Resource) {}
func (q *quotas) MonitorSynced(inventory.Resource)  {}
func (q *quotas) ResourcesChanged()                 {}
