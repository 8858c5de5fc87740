// Package inventory watches all objects of all kinds that can be listed, watched and deleted, while
// kinds and versions are added and removed.
//
// It has a monitor for each kind. If the API server runs in this process, one stream of its storage serves the monitors of all
// kinds that it stores itself; see [inprocess.Observer]. Any other monitor is an event handler of a metadata informer of the
// manager's cache, or of the informer that other controllers have of the kind anyway. The methods of a
// [Handler] are called in order for the objects of one kind; between two kinds there is no order.
// All methods of an [Inventory] but AddHandler may be called from several goroutines at once.
//
// The objects of a kind that is no longer served still exist: they may be served again later, as
// when served is set to false and back to true in a CustomResourceDefinition. So [Handler.OnDelete]
// is called only for deletions that a watch delivered or a relist showed.
//
// The garbage collector, the namespace controller and the quota controller share an inventory. A monitor survives
// changes of the kind's versions. A monitor of a deleted definition delivers all earlier events. A namespace is not
// empty while a kind in it cannot be listed.
//
// # The stream
//
// The stream is one watcher of the whole storage, of any adapter (observe.go of package apiserver). A kind is added by
// a list at one revision, and later events up to that revision are left out. The metadata comes from the decoded object
// that is cached with the record, or from the stored bytes. The channel that the catalog closes with each change causes
// the next discovery. If the history was lost, as after a reset, all kinds are listed again, and the collector reads
// the objects that are missing then live, as after any gap. So nothing relies on the stream alone.
//
// The user of the stream is system:kube-controller-manager: adding a resource needs the permissions to list and watch
// it, which are checked again every ten minutes. The stream is no request, so the audit log and the metrics of requests
// do not have it.
//
// The other monitors (observed.go) are all monitors on a cluster or with a storage of several parts, and the kinds of
// extension API servers. TestStreamAsInformers compares the two. A server has 65 built-in kinds to monitor, and most
// have no objects; their informers were a third of the start of a control plane in the lab.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/internal/inprocess"
)

// Handler is notified of changes of objects and kinds. Objects are shared and must not be changed;
// nor should they, or their strings, be kept, since they may refer to larger objects.
type Handler interface {
	// OnUpdate is called when an object was added or has changed.
	OnUpdate(r Resource, obj *metav1.PartialObjectMetadata)
	// OnDelete is called when an object was deleted. If its final state is unknown, obj has an
	// older state.
	OnDelete(r Resource, obj *metav1.PartialObjectMetadata)
	// MonitorStarted is called when a monitor of a kind has started, before OnUpdate is called for
	// its objects. If it is not the first one, as when the version of the monitor before is no
	// longer served, objects may have been deleted in between without OnDelete.
	MonitorStarted(r Resource)
	// MonitorSynced is called when a monitor has synced: OnUpdate was called for its initial list.
	MonitorSynced(r Resource)
	// ResourcesChanged is called when the kinds or versions that are served have changed.
	ResourcesChanged()
}

// Inventory is a runnable of a manager that watches all objects. Handlers must be added before the
// manager starts.
type Inventory struct {
	config    *rest.Config
	discovery discovery.DiscoveryInterfaceWithContext
	mapper    meta.RESTMapper
	scheme    *runtime.Scheme
	cache     cache.Cache
	stored    *stored // nil if the API server is not in this process
	handlers  []Handler
	changed   chan struct{} // with a value, discovery is due; the capacity is 1
	syncing   sync.WaitGroup

	mu        sync.Mutex
	served    map[schema.GroupKind]Resource // by the last discovery
	stale     sets.Set[string]              // the groups that the last discovery lacks; used by Start alone
	monitors  map[schema.GroupKind]*monitor
	populated chan struct{} // closed when all kinds of the first discovery have a monitor
}

// monitor is the informer of a kind, or its part of the stream.
type monitor struct {
	Resource
	streamed bool
	// synced is closed when the handlers know the objects of the kind. If the stream is lost, there is another channel. The mutex
	// of the inventory protects the field.
	synced <-chan struct{}
	// listed is synced, or nil if it is closed. Only a monitor of the stream has it, and the lock of stored protects it.
	listed chan struct{}
	remove func(ctx context.Context) error
	// stopped is closed when the monitor was removed.
	stopped chan struct{}
	// unservedSince is when the server stopped serving the kind, or zero.
	unservedSince time.Time
}

// The kinds that define others: changes of their objects cause another discovery.
var (
	crdKind        = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	apiServiceKind = schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}
)

// managedLabel is on the APIServices of what the server serves itself, which follow discovery.
const managedLabel = "kube-aggregator.kubernetes.io/automanaged"

// New returns the inventory of the manager's cluster and adds it to the manager.
func New(mgr manager.Manager) (*Inventory, error) {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	i := &Inventory{
		config:    mgr.GetConfig(),
		discovery: d,
		mapper:    mgr.GetRESTMapper(),
		scheme:    mgr.GetScheme(),
		cache:     mgr.GetCache(),
		changed:   make(chan struct{}, 1),
		served:    map[schema.GroupKind]Resource{},
		monitors:  map[schema.GroupKind]*monitor{},
		populated: make(chan struct{}),
	}
	if o := inprocess.ObserverOf(i.config); o != nil {
		i.stored = &stored{Inventory: i, observer: o, monitors: map[schema.GroupResource]*monitor{}}
	}
	return i, mgr.Add(i)
}

// AddHandler adds a handler.
func (i *Inventory) AddHandler(h Handler) { i.handlers = append(i.handlers, h) }

// Wait waits until the monitors of all kinds that were served at the start have synced.
func (i *Inventory) Wait(ctx context.Context) error {
	select {
	case <-i.populated:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, m := range i.all() {
		i.mu.Lock()
		synced := m.synced
		i.mu.Unlock()
		select {
		case <-synced:
		case <-m.stopped:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", m.Kind, ctx.Err())
		}
	}
	return nil
}

// Synced reports whether a kind has a monitor that has synced.
func (i *Inventory) Synced(kind schema.GroupKind) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.monitors[kind]
	return m != nil && isClosed(m.synced)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// all returns the monitors.
func (i *Inventory) all() []*monitor {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Values(i.monitors))
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: informers need no leadership.
func (i *Inventory) NeedLeaderElection() bool { return false }

// Start runs the monitors until ctx ends. Kinds are discovered at the start, again whenever the served kinds may have changed,
// and while there are groups that cannot be discovered.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.Sync
func (i *Inventory) Start(ctx context.Context) error {
	const minBackoff, maxBackoff, maxStale = 10 * time.Millisecond, 5 * time.Second, 30 * time.Second
	defer i.syncing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	backoff := minBackoff
	populated := sync.OnceFunc(func() { close(i.populated) })
	if i.stored != nil {
		i.syncing.Go(func() { i.stored.run(ctx) })
	}
	for {
		replaced := i.replaced()
		err := i.refresh(ctx)
		after, ok := i.stopUnserved(ctx, time.Now())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			log.FromContext(ctx).Error(err, "Cannot watch all kinds; retrying", "after", backoff)
			after, ok = backoff, true
			backoff = min(2*backoff, maxBackoff)
		case i.stale.Len() > 0:
			if populated(); !ok || backoff < after {
				after, ok = backoff, true
			}
			backoff = min(2*backoff, maxStale)
		default:
			backoff = minBackoff
			populated()
		}
		timer.Stop()
		if ok {
			timer.Reset(after)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-i.changed:
			backoff = minBackoff
		case <-replaced:
			backoff = minBackoff
		case <-timer.C:
		}
	}
}

// replaced returns a channel that is closed when an API server in this process serves other kinds, or nil.
func (i *Inventory) replaced() <-chan struct{} {
	if i.stored == nil {
		return nil
	}
	return i.stored.observer.Replaced()
}

// refresh starts monitors of the kinds that are served now. A group that cannot be discovered keeps
// its resources of before. That is no error if its extension API server does not answer.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.syncMonitors
func (i *Inventory) refresh(ctx context.Context) error {
	all, undiscovered, unparsed := i.discoverOnce(ctx)
	stale := staleGroups(undiscovered)
	if stale.Len() > 0 {
		log.FromContext(ctx).V(1).Info("Not all groups can be discovered", "reason", undiscovered.Error())
		undiscovered = nil
	}
	failure := errors.Join(undiscovered, unparsed)
	served := map[schema.GroupKind]Resource{}
	for _, r := range all {
		served[r.Kind.GroupKind()] = r
	}
	i.mu.Lock()
	for kind, r := range i.served {
		if _, ok := served[kind]; !ok && (failure != nil || stale.Has(kind.Group)) {
			served[kind] = r
		}
	}
	changed := !maps.EqualFunc(served, i.served, Resource.equal) || !stale.Equal(i.stale)
	i.served = served
	i.mu.Unlock()
	i.stale = stale

	if changed {
		// The mapper may have cached kinds and versions that are no longer served.
		meta.MaybeResetRESTMapper(i.mapper)
	}
	errs := []error{failure}
	for _, r := range served {
		if r.Monitored() {
			errs = append(errs, i.startMonitor(ctx, r))
		}
	}
	if changed {
		for _, h := range i.handlers {
			h.ResourcesChanged()
		}
	}
	return errors.Join(errs...)
}

// startMonitor starts the monitor of a kind, unless there is one of a version that is still served.
func (i *Inventory) startMonitor(ctx context.Context, r Resource) error {
	i.mu.Lock()
	was := i.monitors[r.Kind.GroupKind()]
	i.mu.Unlock()
	streamed := i.stored != nil && i.stored.observer.Stores(r.Kind.GroupVersion())
	if was != nil && was.unservedSince.IsZero() && was.streamed == streamed &&
		was.Plural == r.Plural && was.Namespaced == r.Namespaced && slices.Contains(r.Versions, was.Kind.Version) {
		return nil
	}
	if was != nil {
		if err := i.stopMonitor(ctx, was); err != nil {
			return err
		}
	}
	if streamed {
		return i.stored.start(ctx, r)
	}
	observed, isShared := observedObject(r.Kind, i.scheme)
	in, err := i.cache.GetInformer(ctx, observed, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("%s: %w", r.Kind, err)
	}
	for _, h := range i.handlers {
		h.MonitorStarted(r)
	}
	registration, err := in.AddEventHandler(&handler{i, r})
	if err != nil {
		return fmt.Errorf("%s: %w", r.Kind, err)
	}
	m := &monitor{Resource: r, synced: registration.HasSyncedChecker().Done(), stopped: make(chan struct{})}
	m.remove = func(ctx context.Context) error {
		if isShared {
			return in.RemoveEventHandler(registration)
		}
		return i.cache.RemoveInformer(ctx, observed)
	}
	i.mu.Lock()
	i.monitors[r.Kind.GroupKind()] = m
	i.mu.Unlock()
	i.syncing.Go(func() { i.awaitSync(ctx, m) })
	return nil
}

// awaitSync calls the handlers when a monitor has synced.
func (i *Inventory) awaitSync(ctx context.Context, m *monitor) {
	select {
	case <-m.synced:
		for _, h := range i.handlers {
			h.MonitorSynced(m.Resource)
		}
	case <-m.stopped:
	case <-ctx.Done():
	}
}

// unservedGracePeriod is the time that a monitor stays after its kind is no longer served. It may still deliver events,
// for example the deletions of objects before the deletion of their definition.
const unservedGracePeriod = 10 * time.Second

// stopUnserved stops the monitors of kinds that have not been served for the grace period. If there
// are others of kinds that are not served, it returns after how long the first of them is due.
func (i *Inventory) stopUnserved(ctx context.Context, now time.Time) (after time.Duration, ok bool) {
	for _, m := range i.all() {
		i.mu.Lock()
		_, served := i.served[m.Kind.GroupKind()]
		i.mu.Unlock()
		if served {
			continue
		}
		if m.unservedSince.IsZero() {
			m.unservedSince = now
		}
		left := m.unservedSince.Add(unservedGracePeriod).Sub(now)
		if left <= 0 {
			if err := i.stopMonitor(ctx, m); err != nil {
				log.FromContext(ctx).Error(err, "Cannot remove the informer of a kind")
			}
			continue
		}
		if !ok || left < after {
			after, ok = left, true
		}
	}
	return after, ok
}

// stopMonitor removes a monitor.
func (i *Inventory) stopMonitor(ctx context.Context, m *monitor) error {
	if err := m.remove(ctx); err != nil {
		return fmt.Errorf("%s: %w", m.Kind, err)
	}
	i.forget(m)
	return nil
}

// forget removes a monitor from the monitors, unless it was removed.
func (i *Inventory) forget(m *monitor) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if kind := m.Kind.GroupKind(); i.monitors[kind] == m {
		delete(i.monitors, kind)
		close(m.stopped)
	}
}

// handler is the event handler of a monitor, which calls the handlers of the inventory.
type handler struct {
	*Inventory
	resource Resource
}

func (h *handler) OnAdd(obj any, _ bool) { h.onUpdate(obj) }
func (h *handler) OnUpdate(_, obj any)   { h.onUpdate(obj) }

func (h *handler) onUpdate(obj any) {
	if m, ok := metadataOf(h.resource.Kind, obj); ok {
		h.updated(h.resource, m)
		h.requestDiscovery(m)
	}
}

func (h *handler) OnDelete(obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if m, ok := metadataOf(h.resource.Kind, obj); ok {
		h.deleted(h.resource, m)
		h.requestDiscovery(m)
	}
}

// updated calls the handlers with an object that was added or has changed.
func (i *Inventory) updated(r Resource, m *metav1.PartialObjectMetadata) {
	for _, h := range i.handlers {
		h.OnUpdate(r, m)
	}
}

// deleted calls the handlers with an object that was deleted.
func (i *Inventory) deleted(r Resource, m *metav1.PartialObjectMetadata) {
	for _, h := range i.handlers {
		h.OnDelete(r, m)
	}
}

// requestDiscovery causes another discovery if the object determines the served kinds.
func (h *handler) requestDiscovery(m *metav1.PartialObjectMetadata) {
	switch kind := h.resource.Kind.GroupKind(); {
	case kind == crdKind, kind == apiServiceKind && m.Labels[managedLabel] == "":
		h.discoverAgain()
	}
}

// discoverAgain causes another discovery.
func (i *Inventory) discoverAgain() {
	select {
	case i.changed <- struct{}{}:
	default:
	}
}
