package stages

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/requeue"
	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// Valid is the condition of a Stage that says whether it works.
const Valid = "flyball.dev/StageValid"

// missingKind is the time until a stage for a kind that does not exist is tried again, since nothing watches for the kind.
const missingKind = 10 * time.Second

// addControllers adds the controller of stages, and of objects other than pods and nodes.
func addControllers(mgr manager.Manager, p *player) error {
	others := &others{player: p, cache: mgr.GetCache(), reader: mgr.GetCache(), watched: map[schema.GroupVersionKind]bool{}}
	var err error
	others.controller, err = controller.NewTyped("staged-objects", mgr, controller.TypedOptions[jobKey]{
		Reconciler: others, MaxConcurrentReconciles: 4})
	if err != nil {
		return err
	}
	if err := others.controller.Watch(source.TypedFunc[jobKey](others.start)); err != nil {
		return err
	}
	r := &reconciler{player: p, others: others}
	p.report = r.enqueue
	of := &unstructured.Unstructured{}
	of.SetGroupVersionKind(Kind)
	return builder.ControllerManagedBy(mgr).
		Named("stages").
		For(of).
		WatchesRawSource(source.Func(r.start)).
		Complete(r)
}

// reconciler reconciles the stages.
type reconciler struct {
	*player
	others *others

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request] // nil before the start
	told  int                                                     // the last edition with changes that all players know
}

func (r *reconciler) start(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = q
	return nil
}

// enqueue enqueues a stage.
func (r *reconciler) enqueue(stage string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue != nil {
		r.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: stage}})
	}
}

// Reconcile puts a stage into effect, and sets its condition.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	e, err := r.catalog.update(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	for kind := range e.kinds {
		if kind != podKind && kind != nodeKind {
			if err := r.others.watch(kind); err != nil {
				return reconcile.Result{}, err
			}
		}
	}
	if err := r.tell(ctx, e); err != nil {
		return reconcile.Result{}, err
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(Kind)
	if err := r.others.reader.Get(ctx, req.NamespacedName, u); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	f := r.catalog.failure(req.Name)
	if err := r.setCondition(ctx, u, f); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if f != nil && f.reason == reasonKind {
		return reconcile.Result{RequeueAfter: missingKind}, nil
	}
	return reconcile.Result{}, nil
}

// tell makes the objects with changed stages be played.
func (r *reconciler) tell(ctx context.Context, e *edition) error {
	r.mu.Lock()
	changed := e.changedSince(r.told)
	r.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	r.changed()
	if err := r.others.enqueueAll(ctx, changed); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = max(r.told, e.number)
	return nil
}

// setCondition sets the condition of a stage, and records an event if the stage does not work.
func (r *reconciler) setCondition(ctx context.Context, u *unstructured.Unstructured, f *failure) error {
	want := metav1.Condition{Type: Valid, Status: metav1.ConditionTrue, Reason: reasonValid, LastTransitionTime: metav1.Now()}
	if f != nil {
		want.Status, want.Reason, want.Message = metav1.ConditionFalse, f.reason, f.message
	}
	status := struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	}{}
	if content, ok, _ := unstructured.NestedMap(u.Object, "status"); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status); err != nil {
			return fmt.Errorf("status: %w", err)
		}
	}
	had := meta.FindStatusCondition(status.Conditions, Valid)
	if had != nil && had.Status == want.Status && had.Reason == want.Reason && had.Message == want.Message {
		return nil
	}
	if !meta.SetStatusCondition(&status.Conditions, want) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	u.Object["status"] = content
	if err := r.client.Status().Update(ctx, u); err != nil {
		return err
	}
	if f != nil {
		r.recorder.Event(u, corev1.EventTypeWarning, f.reason, f.message)
	}
	return nil
}

// others plays the stages of objects other than pods and nodes.
type others struct {
	player     *player
	cache      cache.Cache
	reader     client.Reader
	controller controller.TypedController[jobKey]

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[jobKey] // nil before the start
	watched map[schema.GroupVersionKind]bool
}

func (o *others) start(_ context.Context, q workqueue.TypedRateLimitingInterface[jobKey]) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = q
	return nil
}

// watch watches a kind.
func (o *others) watch(kind schema.GroupVersionKind) error {
	o.mu.Lock()
	watched := o.watched[kind]
	o.watched[kind] = true
	o.mu.Unlock()
	if watched {
		return nil
	}
	enqueue := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, of client.Object) []jobKey {
		return []jobKey{{kind, client.ObjectKeyFromObject(of)}}
	})
	err := o.controller.Watch(source.TypedKind(o.cache, objectOf(kind), enqueue))
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.watched, kind)
	}
	return err
}

// enqueueAll enqueues all objects of kinds.
func (o *others) enqueueAll(ctx context.Context, kinds []schema.GroupVersionKind) error {
	for _, kind := range kinds {
		o.mu.Lock()
		watched, queue := o.watched[kind], o.queue
		o.mu.Unlock()
		if !watched || queue == nil {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := o.reader.List(ctx, list); err != nil {
			return err
		}
		for i := range list.Items {
			queue.Add(jobKey{kind, client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return nil
}

// Reconcile plays the stages of an object.
func (o *others) Reconcile(ctx context.Context, key jobKey) (reconcile.Result, error) {
	u := objectOf(key.kind)
	if err := o.reader.Get(ctx, key.key, u); err != nil {
		if apierrors.IsNotFound(err) {
			o.player.Forget(u, key.key)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	_, after, err := o.player.Play(ctx, u, pods.Addresses{})
	return requeue.After(after, err)
}
