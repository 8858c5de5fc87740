// Package gc collects garbage: objects whose owners are gone.
//
// It knows who owns whom in a graph of all objects of all kinds, by UID, and it deletes nothing on the
// word of that graph alone. An owner that was not seen to go is looked up on the server first, and
// every write carries the UID and the resource version of the object that it was decided for; if the
// object has changed since, the server refuses and the decision is made again.
//
// Deletion has three manners, which the server writes down as finalizers. In the background, the
// owner goes at once and its dependents after it. In the foreground, the owner waits for the
// dependents that block it. Orphaning frees the dependents from the owner before it goes.
package gc

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

const workers = 8

// AddToManager adds the garbage collector, which follows the objects of the inventory.
func AddToManager(mgr manager.Manager, objects *inventory.Inventory) error {
	c := &collector{
		client:    mgr.GetClient(),
		live:      mgr.GetAPIReader(),
		mapper:    mgr.GetRESTMapper(),
		inventory: objects,
		graph:     newGraph(),
		parked:    map[types.UID]struct{}{},
	}
	objects.Listen(c)
	return builder.TypedControllerManagedBy[types.UID](mgr).
		Named("garbage-collector").
		WatchesRawSource(c).
		WithOptions(controller.TypedOptions[types.UID]{MaxConcurrentReconciles: workers}).
		Complete(c)
}

// collector is a controller whose requests are UIDs: its listener and source fill the queue, its
// reconciler carries out the graph's plans.
type collector struct {
	client    client.Client
	live      client.Reader
	mapper    meta.RESTMapper
	inventory *inventory.Inventory
	graph     *graph

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[types.UID]
	early []types.UID // what was to be looked at before there was a queue
	// parked are objects with an owner of a kind that is not served. They are looked at again when
	// a new kind comes.
	parked map[types.UID]struct{}
}

// Start implements source.TypedSource.
func (c *collector) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[types.UID]) error {
	c.mu.Lock()
	c.queue = queue
	early := c.early
	c.early = nil
	c.mu.Unlock()
	c.look(early)
	return nil
}

// WaitForSync implements source.TypedSyncingSource: nothing is judged before everything was seen.
func (c *collector) WaitForSync(ctx context.Context) error {
	err := c.inventory.Wait(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (c *collector) String() string { return "all objects" }

func (c *collector) look(uids []types.UID) {
	c.mu.Lock()
	queue := c.queue
	if queue == nil {
		c.early = append(c.early, uids...)
	}
	c.mu.Unlock()
	if queue == nil {
		return
	}
	for _, uid := range uids {
		queue.Add(uid)
	}
}

// Seen implements inventory.Listener.
func (c *collector) Seen(r inventory.Resource, obj *metav1.PartialObjectMetadata) {
	c.look(c.graph.see(objectOf(r.Kind, obj)))
}

// Gone implements inventory.Listener.
func (c *collector) Gone(_ inventory.Resource, obj *metav1.PartialObjectMetadata) {
	c.look(c.graph.forget(obj.UID))
}

// Ended implements inventory.Listener.
func (c *collector) Ended(r inventory.Resource) {
	for _, uid := range c.graph.ofKind(r.Kind.GroupKind()) {
		c.look(c.graph.forget(uid))
	}
}

// Came implements inventory.Listener.
func (c *collector) Came(inventory.Resource) {
	c.mu.Lock()
	var again []types.UID
	for uid := range c.parked {
		again = append(again, uid)
	}
	clear(c.parked)
	c.mu.Unlock()
	c.look(again)
}

func objectOf(kind schema.GroupVersionKind, m *metav1.PartialObjectMetadata) *object {
	return &object{
		uid:             m.UID,
		kind:            kind,
		namespace:       m.Namespace,
		name:            m.Name,
		resourceVersion: m.ResourceVersion,
		owners:          m.OwnerReferences,
		finalizers:      m.Finalizers,
		deleting:        m.DeletionTimestamp != nil,
	}
}

// Reconcile does what has to be done about one object.
func (c *collector) Reconcile(ctx context.Context, uid types.UID) (reconcile.Result, error) {
	p := c.graph.plan(uid, nil)
	var found map[types.UID]verdict
	if len(p.lookup) > 0 {
		var err error
		if found, err = c.lookUp(ctx, &p.object, p.lookup); err != nil {
			return reconcile.Result{}, err
		}
		p = c.graph.plan(uid, found)
	}
	if p.orphaned {
		if err := c.searchDependents(ctx, &p.object); err != nil {
			return reconcile.Result{}, err
		}
		p = c.graph.plan(uid, nil)
	}
	c.look(p.wake)
	for _, r := range p.release {
		if err := c.patch(ctx, &r.dependent, &r.patch); err != nil {
			return reconcile.Result{}, err
		}
	}
	switch {
	case len(p.release) > 0:
		c.look([]types.UID{uid}) // to give up the finalizer
		return reconcile.Result{}, nil
	case p.patch != nil:
		return reconcile.Result{}, c.patch(ctx, &p.object, p.patch)
	case p.delete != "":
		return reconcile.Result{}, c.delete(ctx, &p.object, p.delete)
	}
	return c.waitForOwners(uid, found), nil
}

// waitForOwners sees to it that an object whose owners are not in the graph is looked at again.
func (c *collector) waitForOwners(uid types.UID, found map[types.UID]verdict) reconcile.Result {
	const soon = time.Second
	again := reconcile.Result{}
	for _, v := range found {
		switch v {
		case unknown:
			c.mu.Lock()
			c.parked[uid] = struct{}{}
			c.mu.Unlock()
		case present, waiting:
			// It will be seen any moment, unless it goes again unseen.
			again.RequeueAfter = soon
		}
	}
	return again
}

// lookUp asks the server whether the owners of o exist.
func (c *collector) lookUp(ctx context.Context, o *object, owners []metav1.OwnerReference) (map[types.UID]verdict, error) {
	found := map[types.UID]verdict{}
	for _, ref := range owners {
		v, err := c.ask(ctx, o, ref)
		if err != nil {
			return nil, err
		}
		found[ref.UID] = v
	}
	return found, nil
}

func (c *collector) ask(ctx context.Context, o *object, ref metav1.OwnerReference) (verdict, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return unknown, nil
	}
	kind := gv.WithKind(ref.Kind)
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = c.mapper.RESTMapping(kind.GroupKind())
	}
	switch {
	case meta.IsNoMatchError(err):
		return unknown, nil
	case err != nil:
		return unknown, err
	}
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(mapping.GroupVersionKind)
	key := client.ObjectKey{Name: ref.Name}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if key.Namespace = o.namespace; key.Namespace == "" {
			return unknown, nil // an object in no namespace cannot be owned by one in some namespace
		}
	}
	err = c.live.Get(ctx, key, owner)
	switch {
	case apierrors.IsNotFound(err):
		return absent, nil
	case err != nil:
		return unknown, err
	case owner.UID != ref.UID:
		return absent, nil
	case objectOf(kind, owner).waitsForDependents():
		return waiting, nil
	default:
		return present, nil
	}
}

// searchDependents looks through the server, and not only through what was seen, for objects that o
// owns. The graph then knows them.
func (c *collector) searchDependents(ctx context.Context, o *object) error {
	for _, r := range c.inventory.Resources() {
		if o.namespace != "" && !r.Namespaced {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(r.Kind.GroupVersion().WithKind(r.Kind.Kind + "List"))
		err := c.live.List(ctx, list, client.InNamespace(o.namespace))
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue // the kind is gone, and its objects with it
		}
		if err != nil {
			return err
		}
		for i := range list.Items {
			if m := &list.Items[i]; slices.ContainsFunc(m.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == o.uid }) {
				c.look(c.graph.see(objectOf(r.Kind, m)))
			}
		}
	}
	return nil
}

func partial(o *object) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(o.kind)
	m.Namespace, m.Name, m.UID, m.ResourceVersion = o.namespace, o.name, o.uid, o.resourceVersion
	return m
}

// patch replaces a list in the metadata of an object, if it is still the object that the graph knows.
func (c *collector) patch(ctx context.Context, o *object, p *patch) error {
	metadata := map[string]any{"uid": o.uid, "resourceVersion": o.resourceVersion}
	if p.owners != nil {
		metadata["ownerReferences"] = p.owners
	}
	if p.finalizers != nil {
		metadata["finalizers"] = p.finalizers
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	m := partial(o)
	err = c.client.Patch(ctx, m, client.RawPatch(types.MergePatchType, body))
	if err == nil {
		c.look(c.graph.refresh(objectOf(o.kind, m)))
		return nil
	}
	return c.catchUp(ctx, o, err)
}

// delete deletes an object, if it is still the object that the graph knows.
func (c *collector) delete(ctx context.Context, o *object, how metav1.DeletionPropagation) error {
	err := c.client.Delete(ctx, partial(o), preconditions(o, how))
	if err == nil {
		return nil
	}
	return c.catchUp(ctx, o, err)
}

func preconditions(o *object, how metav1.DeletionPropagation) *client.DeleteOptions {
	return &client.DeleteOptions{
		PropagationPolicy: &how,
		Preconditions:     &metav1.Preconditions{UID: &o.uid, ResourceVersion: &o.resourceVersion},
	}
}

// catchUp follows a refused write: where the graph was behind, it learns how the object is now. The
// refusal is returned, so that the controller tries again, unless there is nothing left to try.
func (c *collector) catchUp(ctx context.Context, o *object, refused error) error {
	if !apierrors.IsNotFound(refused) && !apierrors.IsConflict(refused) {
		return refused
	}
	now := partial(o)
	err := c.live.Get(ctx, client.ObjectKeyFromObject(now), now)
	switch {
	case apierrors.IsNotFound(err), err == nil && now.UID != o.uid:
		c.look(c.graph.forget(o.uid))
		return nil
	case err != nil:
		return err
	}
	c.look(c.graph.refresh(objectOf(o.kind, now)))
	return refused
}
