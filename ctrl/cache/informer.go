package cache

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache/internal/listener"
	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/internal/optional"
)

// informer keeps the objects of one kind in one representation: a store, the partitions with the
// watches that update it, and the listeners of its event handlers. It implements Informer.
type informer struct {
	informerKey
	typeMeta   metav1.TypeMeta // of gvk
	resource   schema.GroupVersionResource
	namespaced bool
	store      *store.Store
	partitions []*partition
	resync     time.Duration
	// stats are set while the informer runs.
	stats *stats
	// awaited is set if the informer existed when the cache was started.
	awaited bool
	// mutations is nil if mutations are not detected.
	mutations *mutationDetector

	// synced is closed when all partitions have synced, stopped when the informer has ended. cancel
	// ends it.
	synced  chan struct{}
	stopped chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc

	// mu keeps changes of the store and the notifications of listeners in the same order.
	mu        sync.Mutex
	listeners []*listener.Listener
	delivery  sync.WaitGroup
	started   bool
	running   bool
	unsynced  int // the number of partitions that have not synced
	// transform, if not nil, replaces the transforms of the partitions.
	transform atomic.Pointer[toolscache.TransformFunc]

	// indexing is held while an index is added. indexers are the functions of the indexes by name.
	indexing sync.Mutex
	indexers toolscache.Indexers
}

// newInformer returns an informer that is not running yet.
func (c *informerCache) newInformer(ctx context.Context, key informerKey) (*informer, error) {
	gvk := key.gvk
	mapping, err := c.mapper.RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	i := &informer{
		informerKey: key,
		resource:    mapping.Resource,
		namespaced:  mapping.Scope.Name() == meta.RESTScopeNameNamespace,
		synced:      make(chan struct{}),
		stopped:     make(chan struct{}),
	}
	i.typeMeta.SetGroupVersionKind(gvk)
	i.ctx, i.cancel = context.WithCancel(context.Background())
	if c.opts.OnMutation != nil {
		i.mutations = newMutationDetector(gvk, c.opts.OnMutation)
	}
	configs, err := c.opts.configs(c.kinds[gvk], i.namespaced)
	if err != nil {
		return nil, fmt.Errorf("cannot cache %s: %w", gvk, err)
	}
	i.store = store.New(c.decodedSharing(gvk, configs))
	for _, namespace := range slices.Sorted(maps.Keys(configs)) {
		p, err := c.newPartition(i, namespace, configs[namespace])
		if err != nil {
			return nil, err
		}
		i.partitions = append(i.partitions, p)
		i.resync = shorterResync(i.resync, p.config.SyncPeriod)
	}
	i.unsynced = len(i.partitions)
	return i, nil
}

// inherit gives an informer that was just created the settings that programs have made on one that was
// removed, nil for none. Event handlers are not among them: they have ended with that informer.
func (i *informer) inherit(removed *informer) error {
	if removed == nil {
		return nil
	}
	i.transform.Store(removed.transform.Load())
	removed.mu.Lock()
	for n, p := range removed.partitions {
		i.partitions[n].onError = p.onError
	}
	removed.mu.Unlock()
	return i.inheritIndexes(removed)
}

// decodedSharing returns which decoded Go values are kept of a kind.
func (c *informerCache) decodedSharing(gvk schema.GroupVersionKind, configs map[string]Config) store.Sharing {
	if keep := cmp.Or(c.kinds[gvk].KeepDecoded, c.opts.DefaultKeepDecoded); keep != nil {
		if *keep {
			return store.ShareAll
		}
		return store.ShareNone
	}
	for _, config := range configs {
		if config.UnsafeDisableDeepCopy != nil && *config.UnsafeDisableDeepCopy {
			return store.ShareAll
		}
	}
	return store.ShareOnDemand
}

// shorterResync returns the shorter of two resync periods, where zero means never.
func shorterResync(a time.Duration, period *time.Duration) time.Duration {
	b := defaultSyncPeriod
	if period != nil {
		b = *period
	}
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// run lists, watches and notifies listeners until ctx is done or the informer is stopped. It
// returns when all goroutines of the informer have ended. If the informer was started before, it
// returns false at once.
func (i *informer) run(ctx context.Context) bool {
	i.mu.Lock()
	again := i.started
	i.started = true
	i.mu.Unlock()
	if again {
		return false
	}
	defer close(i.stopped)
	defer context.AfterFunc(ctx, i.cancel)()
	defer i.cancel()

	defer informerStats.register(i)()
	i.mu.Lock()
	i.running = true
	for _, l := range i.listeners {
		i.deliver(l)
	}
	i.mu.Unlock()

	var watches sync.WaitGroup
	for _, p := range i.partitions {
		watches.Go(func() { p.source.Run(i.ctx) })
	}
	watches.Wait()
	i.mu.Lock()
	i.running = false
	i.mu.Unlock()
	i.delivery.Wait()
	if i.mutations != nil {
		i.mutations.compareObjects("after the informer stopped")
	}
	return true
}

// deliver runs a listener. The caller holds mu.
func (i *informer) deliver(l *listener.Listener) {
	i.delivery.Go(func() { l.Run(i.ctx, i.resyncListener) })
}

// partitionFor returns the partition that covers a namespace, or nil.
func (i *informer) partitionFor(namespace string) *partition {
	var rest *partition
	for _, p := range i.partitions {
		switch p.namespace {
		case namespace:
			return p
		case AllNamespaces:
			rest = p
		}
	}
	return rest
}

// WaitForSync waits until the informer has synced. It returns false if ctx is done, or the informer
// has ended, before that. Kind sources use this method if an informer has it.
func (i *informer) WaitForSync(ctx context.Context) bool {
	select {
	case <-i.synced:
		return true
	case <-ctx.Done():
	case <-i.ctx.Done():
	}
	return i.HasSynced()
}

// distribute notifies all listeners of a change. The caller holds mu.
func (i *informer) distribute(c store.Change) {
	initial := !i.HasSynced()
	if c.Old != nil && (c.New == nil || c.Old.UID != c.New.UID) {
		i.deleted(c.Old)
	}
	for _, l := range i.listeners {
		switch {
		case c.Old == nil && c.New == nil:
		case c.Old == nil:
			l.NotifyAdd(c.New, initial)
		case c.New == nil:
			l.NotifyDelete(c.Old, false)
		case c.Old.UID != c.New.UID:
			// The object was deleted and created again; its deletion was missed.
			l.NotifyDelete(c.Old, true)
			l.NotifyAdd(c.New, initial)
		default:
			l.NotifyUpdate(c.Old, c.New)
		}
	}
}

// deleted has the mutation detector drop an object that was deleted.
func (i *informer) deleted(obj *store.Snapshot) {
	if i.mutations != nil {
		i.mutations.forget(obj.Key, obj.UID)
	}
}

// partitionSynced records that one more partition has synced. The caller holds mu.
func (i *informer) partitionSynced() {
	if i.unsynced--; i.unsynced > 0 {
		return
	}
	close(i.synced)
	for _, l := range i.listeners {
		l.NotifySynced()
	}
}

// resyncListener notifies a listener of all objects as updates.
func (i *informer) resyncListener(l *listener.Listener) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, obj := range i.store.Watched() {
		l.NotifyUpdate(obj, obj)
	}
}

// AddEventHandler implements Informer.
func (i *informer) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements Informer.
func (i *informer) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, resyncPeriod time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions implements Informer. The logger of the options is not used: listeners
// do not log.
func (i *informer) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	resync := i.resync
	if options.ResyncPeriod != nil {
		resync = *options.ResyncPeriod
	}
	name := fmt.Sprintf("%T for %s", handler, i.gvk.Kind)
	_, each := handler.(optional.EachChange)
	if i.mutations != nil {
		handler = i.mutations.wrapHandler(handler)
	}
	l := listener.New(name, handler, jittered(resync), each)

	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ctx.Err() != nil {
		return nil, fmt.Errorf("cannot add a handler: the informer of %s has stopped", i.gvk)
	}
	for _, obj := range i.store.Watched() {
		l.NotifyAdd(obj, true)
	}
	if i.HasSynced() {
		l.NotifySynced()
	}
	i.listeners = append(i.listeners, l)
	if i.running {
		i.deliver(l)
	}
	return l, nil
}

// RemoveEventHandler implements Informer.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	l, ok := handle.(*listener.Listener)
	if !ok {
		return fmt.Errorf("%T is not a registration of this informer", handle)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.listeners = slices.DeleteFunc(i.listeners, func(other *listener.Listener) bool { return other == l })
	l.Close()
	return nil
}

// HasSynced implements Informer.
func (i *informer) HasSynced() bool {
	return toolscache.IsDone(i.HasSyncedChecker())
}

// HasSyncedChecker implements Informer.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker {
	return syncedChecker{i}
}

// GroupVersionKind returns the kind of the objects, which typed objects of events lack. Sources use
// this method if an informer has it.
func (i *informer) GroupVersionKind() schema.GroupVersionKind { return i.gvk }

// IsStopped implements Informer.
func (i *informer) IsStopped() bool {
	select {
	case <-i.stopped:
		return true
	default:
		return false
	}
}

// syncedChecker is the DoneChecker of HasSynced.
type syncedChecker struct{ *informer }

func (c syncedChecker) Name() string          { return "cache of " + c.gvk.String() }
func (c syncedChecker) Done() <-chan struct{} { return c.synced }
