// Package gc is the garbage collector: it deletes objects whose owners no longer exist.
//
// It keeps a graph of the owner references of all objects, by UID, but does not rely on it alone. An
// owner is absent only once a live get by name found no object, or one with another UID. If the
// server does not serve the owner's kind, the dependent stays until it does, unless an informer has
// delivered the owner's deletion before. Every write has the UID and the resource version of the
// object as preconditions, so that a change of the object in between causes a conflict and a new plan.
//
// There are the three propagation policies of Kubernetes, of which two are finalizers of the owner.
// Background: the owner is removed at once, and its dependents are deleted afterwards. Foreground: the
// owner is terminating until no dependent with blockOwnerDeletion is left. Orphan: the references of the
// dependents are removed before the owner is.
//
// An owner is either cluster-scoped or in the namespace of its dependent. Any other reference is
// reported with an event, OwnerRefInvalidNamespace. Such an owner counts as absent for a namespaced
// dependent, while a cluster-scoped dependent with one is never collected.
package gc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

const (
	workers = 8
	// initialSync bounds how long the collector waits for the informers of all kinds to sync before it
	// starts. An incomplete graph is safe, and only costs more live reads.
	initialSync = 30 * time.Second
	// notFollowed is after how long a dependent is reconciled again whose owner exists but is not in the
	// graph: it may be of a kind that cannot be watched.
	notFollowed = time.Minute
)

// AddToManager adds the garbage collector, which follows the objects of the inventory.
func AddToManager(mgr manager.Manager, objects *inventory.Inventory) error {
	c := &collector{
		server: server{
			client:   mgr.GetClient(),
			live:     mgr.GetAPIReader(),
			mapper:   mgr.GetRESTMapper(),
			recorder: mgr.GetEventRecorder("garbage-collector-controller"),
		},
		inventory: objects,
		graph:     newGraph(),
		parked:    map[types.UID]struct{}{},
	}
	objects.AddHandler(c)
	return builder.TypedControllerManagedBy[types.UID](mgr).
		Named("garbage-collector").
		WatchesRawSource(c).
		WithOptions(controller.TypedOptions[types.UID]{MaxConcurrentReconciles: workers}).
		Complete(c)
}

// collector is a controller whose requests are UIDs: its handler and source fill the queue, its
// reconciler carries out the graph's plans.
type collector struct {
	server
	inventory *inventory.Inventory
	graph     *graph

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[types.UID]
	early []types.UID // what was enqueued before Start
	// parked are the objects for which nothing can be done until discovery changes.
	parked map[types.UID]struct{}
	epoch  int // counts the calls of unpark
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

// WaitForSync implements source.TypedSyncingSource.
func (c *collector) WaitForSync(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, initialSync)
	defer cancel()
	if err := c.inventory.Wait(within); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Not all objects could be listed; collecting garbage all the same")
	}
	return nil
}

func (c *collector) String() string { return "all objects" }

// look enqueues UIDs.
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

// OnUpdate implements inventory.Handler.
func (c *collector) OnUpdate(r inventory.Resource, obj *metav1.PartialObjectMetadata) {
	c.look(c.graph.see(objectOf(r.Kind, obj)))
}

// OnDelete implements inventory.Handler.
func (c *collector) OnDelete(_ inventory.Resource, obj *metav1.PartialObjectMetadata) {
	c.look(c.graph.forget(obj.UID))
	c.mu.Lock()
	delete(c.parked, obj.UID)
	c.mu.Unlock()
}

// OnFollow implements inventory.Handler.
func (c *collector) OnFollow(r inventory.Resource) { c.graph.doubt(r.Kind.GroupKind()) }

// OnSynced implements inventory.Handler.
func (c *collector) OnSynced(r inventory.Resource) {
	c.look(c.graph.doubtful(r.Kind.GroupKind()))
	c.look(c.unpark())
}

// OnDiscovery implements inventory.Handler.
func (c *collector) OnDiscovery() {
	c.look(c.unpark())
}

// park sets an object aside until unpark is called, or enqueues it if unpark was called since epoch.
func (c *collector) park(uid types.UID, epoch int) {
	c.mu.Lock()
	current := epoch == c.epoch
	if current && c.graph.has(uid) { // or it was deleted in the meantime
		c.parked[uid] = struct{}{}
	}
	c.mu.Unlock()
	if !current {
		c.look([]types.UID{uid})
	}
}

// unpark returns the parked objects, which are then no longer parked.
func (c *collector) unpark() []types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	var uids []types.UID
	for uid := range c.parked {
		uids = append(uids, uid)
	}
	clear(c.parked)
	return uids
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

// Reconcile plans and makes the next change of one object.
func (c *collector) Reconcile(ctx context.Context, uid types.UID) (reconcile.Result, error) {
	c.mu.Lock()
	epoch := c.epoch
	c.mu.Unlock()
	result, err := c.collect(ctx, uid)
	if isUnserved(err) {
		log.FromContext(ctx).V(1).Info("Waiting for other kinds to be served", "reason", err.Error())
		c.park(uid, epoch)
		return reconcile.Result{}, nil
	}
	return result, err
}

func (c *collector) collect(ctx context.Context, uid types.UID) (reconcile.Result, error) {
	p := c.graph.plan(uid, nil)
	if p.verify {
		return reconcile.Result{}, c.verify(ctx, &p.object)
	}
	var found verdicts
	if len(p.lookup) > 0 {
		var err error
		if found, err = c.lookUp(ctx, &p.object, p.lookup); err != nil {
			return reconcile.Result{}, err
		}
		p = c.graph.plan(uid, found)
	}
	if p.final {
		if err := c.searchDependents(ctx, &p); err != nil {
			return reconcile.Result{}, err
		}
		p = c.graph.plan(uid, nil)
	}
	for _, ref := range p.invalid {
		c.reportInvalid(&p.object, ref)
	}
	if p.unresolved {
		return reconcile.Result{}, errUnresolved
	}
	c.look(p.wake)
	for _, r := range p.release {
		if err := c.patch(ctx, &r.dependent, &r.patch); err != nil {
			return reconcile.Result{}, err
		}
	}
	switch {
	case len(p.release) > 0:
		c.look([]types.UID{uid}) // to remove the finalizer
		return reconcile.Result{}, nil
	case p.patch != nil:
		return reconcile.Result{}, c.patch(ctx, &p.object, p.patch)
	case p.delete != "":
		return reconcile.Result{}, c.delete(ctx, &p.object, p.delete)
	}
	return c.awaitOwners(found), nil
}

// awaitOwners requeues an object with an owner that exists but is not in the graph, because no event of
// the inventory may ever do so.
func (c *collector) awaitOwners(found verdicts) reconcile.Result {
	for owner, v := range found {
		if (v == present || v == waiting) && !c.graph.has(owner.uid) {
			return reconcile.Result{RequeueAfter: notFollowed}
		}
	}
	return reconcile.Result{}
}

// lookUp asks the server whether the owners of o exist.
func (c *collector) lookUp(ctx context.Context, o *object, owners []metav1.OwnerReference) (verdicts, error) {
	found := verdicts{}
	for _, ref := range owners {
		v, err := c.ask(ctx, o, ref)
		if err != nil {
			return nil, err
		}
		if v == absent {
			c.graph.confirm(ref, o.namespace)
		}
		found[coordinatesOf(ref)] = v
	}
	return found, nil
}

// searchDependents lists live the dependents that may be missing in the graph, before the finalizer of
// their owner is removed. To orphan them, all must be found, as the others would be collected later; so
// it lists every kind. To wait for them, it is enough to list the kinds that have not synced.
func (c *collector) searchDependents(ctx context.Context, p *plan) error {
	all, undiscovered, unparsed := c.inventory.Discover()
	if err := errors.Join(undiscovered, unparsed); err != nil {
		return err
	}
	for _, r := range all {
		switch {
		case !r.Followed(), p.object.namespace != "" && !r.Namespaced:
			continue
		case !p.object.orphansDependents() && c.inventory.Synced(r.Kind.GroupKind()):
			continue
		}
		dependents, err := c.dependentsOf(ctx, &p.object, r.Kind)
		if err != nil {
			return err
		}
		for _, d := range dependents {
			c.look(c.graph.see(d))
		}
	}
	return nil
}

// verify reads an object live, and updates the graph with the result.
func (c *collector) verify(ctx context.Context, o *object) error {
	now, err := c.get(ctx, o)
	if err != nil {
		return err
	}
	c.update(o.uid, now)
	c.look([]types.UID{o.uid})
	return nil
}

// update updates the graph with an object that was read live, nil if it does not exist.
func (c *collector) update(uid types.UID, now *object) {
	if now == nil {
		c.look(c.graph.forget(uid))
		return
	}
	c.look(c.graph.refresh(now))
}

// patch replaces a list in the metadata of an object, if it is still the object that the graph knows.
func (c *collector) patch(ctx context.Context, o *object, p *patch) error {
	now, err := c.server.patch(ctx, o, p)
	if err != nil {
		return c.catchUp(ctx, o, err)
	}
	c.update(o.uid, now)
	return nil
}

// delete deletes an object, if it is still the object that the graph knows.
func (c *collector) delete(ctx context.Context, o *object, how metav1.DeletionPropagation) error {
	log.FromContext(ctx).V(1).Info("Deleting an object whose owners are gone",
		"kind", o.kind, "namespace", o.namespace, "name", o.name, "uid", o.uid, "propagation", how)
	err := c.server.delete(ctx, o, how)
	if apierrors.IsConflict(err) {
		// An object that changes all the time could otherwise never be deleted.
		now, unknown := c.get(ctx, o)
		if unknown == nil && now != nil && slices.EqualFunc(now.owners, o.owners, sameReference) {
			now.resourceVersion = ""
			err = c.server.delete(ctx, now, how)
		}
	}
	if err != nil {
		return c.catchUp(ctx, o, err)
	}
	return nil
}

// catchUp handles the error of a write. If the graph was stale it is updated, and the error returned so
// that the controller retries, unless the object no longer exists.
func (c *collector) catchUp(ctx context.Context, o *object, refused error) error {
	if !isOutdated(refused) {
		return refused
	}
	now, err := c.get(ctx, o)
	if err != nil {
		return err
	}
	c.update(o.uid, now)
	if now == nil {
		return nil
	}
	return refused
}
