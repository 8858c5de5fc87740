// Package gc is the garbage collector. It deletes objects without existing owners.
//
// The collector keeps a graph of the owner references of all objects, by UID, but does not rely on the graph alone. An
// owner is absent only if a live read by name finds no object, or an object with another UID. If the server does not
// serve the owner's kind, the dependent stays until it does, unless an informer has delivered the deletion of the owner.
// Every write has the UID and the resource version of the object as preconditions. If the object has changed, the write
// is a conflict and the action is computed again.
//
// There are three propagation policies. Background deletes the owner at once, and its dependents afterwards. Foreground
// keeps the owner, by a finalizer, until no object refers to the owner's UID with blockOwnerDeletion: also from another
// namespace, and also the owner itself, as in Kubernetes. Orphan removes the references of the dependents before it
// deletes the owner, which has a finalizer until then.
//
// A valid owner is either cluster-scoped or in the namespace of its dependent. For a reference to an existing object in another
// namespace the collector records the event OwnerRefInvalidNamespace. Such an owner counts as absent for a namespaced
// dependent. A cluster-scoped dependent of a namespaced owner is never collected.
//
// The graph has a vertex for each object (vertex.go): 16 bytes of the UID, the name, the revision and a pointer to what
// the objects of its kind and namespace share. Owners and finalizers are in a part that most objects do not have, and
// the dependents of an owner share the reference. A vertex takes 123 bytes, and 241 for a pod of a ReplicaSet
// (TestSize). TestGraphAgainstModel compares the graph with maps of whole objects.
package gc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

const (
	workers = 8
	// initialSyncTimeout is how long the collector waits for the informers of all kinds to sync
	// before it starts. An incomplete graph is safe, but causes more live reads.
	//
	//upstream:cmd/kube-controller-manager/app.newGarbageCollectorController
	initialSyncTimeout = 30 * time.Second
	// If the owner of a dependent exists but is not in the graph, the dependent is reconciled again after
	// minUnobservedInterval. The interval doubles each time up to maxUnobservedInterval. A watch may never deliver
	// the owner's deletion: its kind may not have the verb watch, or the owner is deleted before an informer that has
	// lost its watch lists again.
	minUnobservedInterval, maxUnobservedInterval = 100 * time.Millisecond, time.Minute
)

// AddToManager adds the garbage collector of the objects in the inventory.
//
//upstream:pkg/controller/garbagecollector.NewGarbageCollector
func AddToManager(mgr manager.Manager, objects *inventory.Inventory) error {
	c := &collector{
		operations: operations{
			client:   mgr.GetClient(),
			live:     mgr.GetAPIReader(),
			mapper:   meta.ToRESTMapperWithContext(mgr.GetRESTMapper()),
			recorder: events.RecorderFor(mgr, "garbage-collector-controller"),
		},
		inventory:  objects,
		graph:      newGraph(),
		deferred:   map[types.UID]struct{}{},
		unobserved: map[types.UID]time.Duration{},
	}
	objects.AddHandler(c)
	return builder.TypedControllerManagedBy[types.UID](mgr).
		Named("garbage-collector").
		WatchesRawSource(c).
		WithOptions(controller.TypedOptions[types.UID]{MaxConcurrentReconciles: workers}).
		Complete(c)
}

// collector is a controller of objects by UID. As a handler of the inventory it updates the graph and enqueues the
// affected objects. As a reconciler it executes the actions of the graph.
type collector struct {
	operations
	inventory *inventory.Inventory
	graph     *graph

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[types.UID]
	pending []types.UID // enqueued before Start
	// deferred are the objects with owners of kinds that are not served, until discovery changes.
	deferred map[types.UID]struct{}
	// unobserved has the last interval of objects that are reconciled again because of an owner that
	// is not in the graph.
	unobserved map[types.UID]time.Duration
	epoch      int // the number of calls of takeDeferred
}

// Start implements source.TypedSource.
func (c *collector) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[types.UID]) error {
	c.mu.Lock()
	c.queue = queue
	early := c.pending
	c.pending = nil
	c.mu.Unlock()
	c.enqueue(early)
	return nil
}

// WaitForSync implements source.TypedSyncingSource.
func (c *collector) WaitForSync(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, initialSyncTimeout)
	defer cancel()
	if err := c.inventory.Wait(within); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Not all kinds have synced; starting anyway")
	}
	return nil
}

// String names the source in logs.
func (c *collector) String() string { return "all objects" }

// enqueue adds UIDs to the queue, or keeps them until there is one.
func (c *collector) enqueue(uids []types.UID) {
	c.mu.Lock()
	queue := c.queue
	if queue == nil {
		c.pending = append(c.pending, uids...)
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
	c.enqueue(c.graph.update(newNode(r.Kind, obj)))
	c.reportInvalid()
}

// OnDelete implements inventory.Handler.
func (c *collector) OnDelete(_ inventory.Resource, obj *metav1.PartialObjectMetadata) {
	c.enqueue(c.graph.remove(obj.UID))
	c.mu.Lock()
	delete(c.deferred, obj.UID)
	delete(c.unobserved, obj.UID)
	c.mu.Unlock()
}

// MonitorStarted implements inventory.Handler.
func (c *collector) MonitorStarted(r inventory.Resource) { c.graph.markUnverified(r.Kind.GroupKind()) }

// MonitorSynced implements inventory.Handler.
func (c *collector) MonitorSynced(r inventory.Resource) {
	c.enqueue(c.graph.unverified(r.Kind.GroupKind()))
	c.enqueue(c.takeDeferred())
}

// ResourcesChanged implements inventory.Handler.
func (c *collector) ResourcesChanged() {
	c.enqueue(c.takeDeferred())
}

// deferUntilDiscovery keeps an object until takeDeferred is called. If that was called since the
// epoch, the object is enqueued instead.
func (c *collector) deferUntilDiscovery(uid types.UID, epoch int) {
	c.mu.Lock()
	current := epoch == c.epoch
	if current && c.graph.has(uid) { // or it was deleted in the meantime
		c.deferred[uid] = struct{}{}
	}
	c.mu.Unlock()
	if !current {
		c.enqueue([]types.UID{uid})
	}
}

// takeDeferred returns the deferred objects and begins another epoch.
func (c *collector) takeDeferred() []types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	var uids []types.UID
	for uid := range c.deferred {
		uids = append(uids, uid)
	}
	clear(c.deferred)
	return uids
}

// newNode returns a node that shares memory with the metadata of an object.
func newNode(kind schema.GroupVersionKind, m *metav1.PartialObjectMetadata) *node {
	return &node{
		uid:             m.UID,
		kind:            kind,
		namespace:       m.Namespace,
		name:            m.Name,
		resourceVersion: m.ResourceVersion,
		ownerReferences: m.OwnerReferences,
		finalizers:      m.Finalizers,
		beingDeleted:    m.DeletionTimestamp != nil,
	}
}

// Reconcile executes the next action for one object. If the server does not serve the kind of an owner, the object is
// deferred.
func (c *collector) Reconcile(ctx context.Context, uid types.UID) (reconcile.Result, error) {
	c.mu.Lock()
	epoch := c.epoch
	c.mu.Unlock()
	result, err := c.processItem(ctx, uid)
	if isUnserved(err) {
		log.FromContext(ctx).V(1).Info("Waiting for other kinds to be served", "reason", err.Error())
		c.deferUntilDiscovery(uid, epoch)
		return reconcile.Result{}, nil
	}
	return result, err
}

// processItem executes the next action for one object. It reads objects live that are not in the graph.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.attemptToDeleteWorker
//upstream:pkg/controller/garbagecollector.GarbageCollector.attemptToOrphanWorker
func (c *collector) processItem(ctx context.Context, uid types.UID) (reconcile.Result, error) {
	a := c.graph.nextAction(uid, nil)
	if a.verify {
		return reconcile.Result{}, c.verify(ctx, &a.node)
	}
	var found ownerStates
	if len(a.lookup) > 0 {
		var err error
		if found, err = c.getOwnerStates(ctx, &a.node, a.lookup); err != nil {
			return reconcile.Result{}, err
		}
		a = c.graph.nextAction(uid, found)
	}
	if a.removesFinalizer {
		if err := c.listMissingDependents(ctx, &a); err != nil {
			return reconcile.Result{}, err
		}
		a = c.graph.nextAction(uid, nil)
	}
	if a.unresolved {
		return reconcile.Result{}, errUnresolved
	}
	c.enqueue(a.enqueue)
	for _, r := range a.orphans {
		err := c.patch(ctx, &r.dependent, &r.patch)
		if err == nil || isRefused(err) {
			c.graph.noteOrphaned(r.dependent.uid)
		}
		if err != nil {
			return reconcile.Result{}, err
		}
	}
	switch {
	case len(a.orphans) > 0:
		c.enqueue([]types.UID{uid}) // to remove the finalizer, or to look at the other owners
		return reconcile.Result{}, nil
	case a.patch != nil:
		return reconcile.Result{}, c.patch(ctx, &a.node, a.patch)
	case a.delete != "":
		return reconcile.Result{}, c.delete(ctx, &a.node, a.delete)
	}
	return c.requeueUnobserved(uid, found), nil
}

// requeueUnobserved requeues an object after an interval if it has an owner that exists but is not
// in the graph, because the inventory may never deliver the owner's deletion.
func (c *collector) requeueUnobserved(uid types.UID, found ownerStates) reconcile.Result {
	unobserved := false
	for owner, state := range found {
		unobserved = unobserved || (state == ownerPresent || state == ownerWaiting) && !c.graph.has(owner.uid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !unobserved || !c.graph.has(uid) {
		delete(c.unobserved, uid)
		return reconcile.Result{}
	}
	interval := min(max(2*c.unobserved[uid], minUnobservedInterval), maxUnobservedInterval)
	c.unobserved[uid] = interval
	return reconcile.Result{RequeueAfter: interval}
}

// getOwnerStates reads owners of n live.
func (c *collector) getOwnerStates(ctx context.Context, n *node, owners []metav1.OwnerReference) (ownerStates, error) {
	found := ownerStates{}
	for _, ref := range owners {
		v, err := c.getOwnerState(ctx, n, ref)
		if err != nil {
			return nil, err
		}
		if v == ownerAbsent {
			c.graph.confirmAbsent(ref, n.namespace)
		}
		found[coordinatesOf(ref)] = v
	}
	return found, nil
}

// listMissingDependents adds dependents that may be missing in the graph, by live lists, before the finalizer of their
// owner is removed. To orphan dependents it lists every kind, because a missed dependent would be deleted later. To
// delete dependents it lists only the kinds that have not synced.
func (c *collector) listMissingDependents(ctx context.Context, a *action) error {
	all, undiscovered, unparsed := c.inventory.Discover(ctx)
	if err := errors.Join(undiscovered, unparsed); err != nil {
		return err
	}
	for _, r := range all {
		switch {
		case !r.Monitored(), a.node.namespace != "" && !r.Namespaced:
			continue
		case !a.node.isOrphaningDependents() && c.inventory.Synced(r.Kind.GroupKind()):
			continue
		}
		dependents, err := c.listDependents(ctx, &a.node, r.Kind)
		if err != nil {
			return err
		}
		for _, d := range dependents {
			c.enqueue(c.graph.update(d))
		}
		c.reportInvalid()
	}
	return nil
}

// verify updates the graph with a live read of an object.
func (c *collector) verify(ctx context.Context, n *node) error {
	now, err := c.get(ctx, n)
	if err != nil {
		return err
	}
	c.updateGraph(n.uid, now)
	c.enqueue([]types.UID{n.uid})
	return nil
}

// updateGraph updates the graph with the result of a live read, nil if the object does not exist.
func (c *collector) updateGraph(uid types.UID, now *node) {
	if now == nil {
		c.enqueue(c.graph.remove(uid))
		return
	}
	c.enqueue(c.graph.updateExisting(now))
	c.reportInvalid()
}

// patch replaces a list in the metadata of an object, if it has not changed since the graph was
// updated.
func (c *collector) patch(ctx context.Context, n *node, p *patch) error {
	now, err := c.operations.patch(ctx, n, p)
	if err != nil {
		return c.handleWriteError(ctx, n, err)
	}
	c.updateGraph(n.uid, now)
	return nil
}

// delete deletes an object, unless its owner references have changed since the graph was updated.
func (c *collector) delete(ctx context.Context, n *node, how metav1.DeletionPropagation) error {
	log.FromContext(ctx).V(1).Info("Deleting an object without existing owners",
		"kind", n.kind, "namespace", n.namespace, "name", n.name, "uid", n.uid, "propagation", how)
	err := c.operations.delete(ctx, n, how)
	if apierrors.IsConflict(err) {
		// Otherwise an object with constant updates could never be deleted.
		now, unknown := c.get(ctx, n)
		if unknown == nil && now != nil && slices.EqualFunc(now.ownerReferences, n.ownerReferences, sameReference) {
			now.resourceVersion = ""
			err = c.operations.delete(ctx, now, how)
		}
	}
	if err != nil {
		return c.handleWriteError(ctx, n, err)
	}
	return nil
}

// handleWriteError handles the error of a write. If the graph was stale, it updates the graph and
// returns the error, so that the controller retries; if the object no longer exists, it returns
// nil.
func (c *collector) handleWriteError(ctx context.Context, n *node, writeErr error) error {
	if !isStale(writeErr) {
		return writeErr
	}
	now, err := c.get(ctx, n)
	if err != nil {
		return err
	}
	c.updateGraph(n.uid, now)
	if now == nil {
		return nil
	}
	return writeErr
}

// reportInvalid records the events about references to objects in other namespaces that the graph has found.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.reportInvalidNamespaceOwnerRef
func (c *collector) reportInvalid() {
	for _, i := range c.graph.takeInvalid() {
		about := metadataOf(&i.dependent)
		about.ResourceVersion = "" // so that repeated events are the same, and are counted
		c.recorder.Eventf(about, corev1.EventTypeWarning, "OwnerRefInvalidNamespace",
			"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
			i.owner.APIVersion, i.owner.Kind, about.Namespace, i.owner.Name, i.owner.UID, about.Namespace)
	}
}
