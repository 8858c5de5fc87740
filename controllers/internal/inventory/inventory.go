// Package inventory follows every object of every kind that can be listed, watched and deleted, as
// kinds and their versions come and go.
//
// It has metadata informers of the manager's cache, one for each kind. A [Handler] is called in order for
// the objects of one kind; between two kinds there is no order. All methods of an [Inventory] but
// AddHandler may be called from several goroutines at once.
//
// A kind that is no longer served has not lost its objects: they may be served again later, as when
// served is set to false and back to true in a CustomResourceDefinition. So [Handler.OnDelete] is called
// only for deletions that a watch delivered or a relist showed.
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
)

// Handler is notified of changes of objects and kinds. Objects are shared and must not be changed.
type Handler interface {
	// OnUpdate: the object was added or has changed.
	OnUpdate(r Resource, obj *metav1.PartialObjectMetadata)
	// OnDelete: the object was deleted. The final state may be unknown; then obj is an older one.
	OnDelete(r Resource, obj *metav1.PartialObjectMetadata)
	// OnFollow: an informer of the kind was started, so OnUpdate will be called for all its objects. If it
	// is not the first one, as when the version that was followed is no longer served, objects may have
	// been deleted in between without OnDelete.
	OnFollow(r Resource)
	// OnSynced: the informer has synced: OnUpdate was called for all objects of its initial list.
	OnSynced(r Resource)
	// OnDiscovery: the kinds or versions that are served have changed.
	OnDiscovery()
}

// Inventory is a runnable of a manager. Handlers must be added before the manager starts.
type Inventory struct {
	discovery discovery.DiscoveryInterface
	mapper    meta.RESTMapper
	cache     cache.Cache
	handlers  []Handler
	changed   chan struct{} // requests another discovery; has room for one
	syncing   sync.WaitGroup

	mu        sync.Mutex
	served    map[schema.GroupKind]Resource // by the last discovery
	followed  map[schema.GroupKind]*informer
	populated chan struct{} // closed when all kinds of the first discovery are followed
}

type informer struct {
	Resource
	synced toolscache.DoneChecker
	// dropped is closed when the informer is removed.
	dropped chan struct{}
	// unserved is when the server stopped serving the kind, or zero.
	unserved time.Time
}

var definition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// New returns the inventory of the manager's cluster and adds it to the manager.
func New(mgr manager.Manager) (*Inventory, error) {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	i := &Inventory{
		discovery: d,
		mapper:    mgr.GetRESTMapper(),
		cache:     mgr.GetCache(),
		changed:   make(chan struct{}, 1),
		served:    map[schema.GroupKind]Resource{},
		followed:  map[schema.GroupKind]*informer{},
		populated: make(chan struct{}),
	}
	return i, mgr.Add(i)
}

// AddHandler adds a handler.
func (i *Inventory) AddHandler(h Handler) { i.handlers = append(i.handlers, h) }

// Wait waits until the informers of all kinds that were served at the start have synced.
func (i *Inventory) Wait(ctx context.Context) error {
	select {
	case <-i.populated:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, f := range i.all() {
		select {
		case <-f.synced.Done():
		case <-f.dropped:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", f.Kind, ctx.Err())
		}
	}
	return nil
}

// Synced reports whether the informer of a kind has synced.
func (i *Inventory) Synced(kind schema.GroupKind) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	f := i.followed[kind]
	return f != nil && toolscache.IsDone(f.synced)
}

func (i *Inventory) all() []*informer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Values(i.followed))
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: informers need no leadership.
func (i *Inventory) NeedLeaderElection() bool { return false }

// Start follows the kinds until ctx ends. It discovers them once, and again whenever a
// CustomResourceDefinition changes.
func (i *Inventory) Start(ctx context.Context) error {
	const first, last = 10 * time.Millisecond, 5 * time.Second
	defer i.syncing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	retry := first
	populated := sync.OnceFunc(func() { close(i.populated) })
	for {
		err := i.refresh(ctx)
		again, ok := i.dropUnserved(ctx, time.Now())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			log.FromContext(ctx).Error(err, "Cannot follow all kinds; trying again", "after", retry)
			again, ok = retry, true
			retry = min(2*retry, last)
		default:
			retry = first
			populated()
		}
		timer.Stop()
		if ok {
			timer.Reset(again)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-i.changed:
		case <-timer.C:
		}
	}
}

// refresh starts informers for what is served now. A group that cannot be discovered keeps the resources
// that it had, and causes an error.
func (i *Inventory) refresh(ctx context.Context) error {
	all, undiscovered, unparsed := i.Discover()
	failure := errors.Join(undiscovered, unparsed)
	served := map[schema.GroupKind]Resource{}
	for _, r := range all {
		served[r.Kind.GroupKind()] = r
	}
	i.mu.Lock()
	if failure != nil {
		for kind, r := range i.served {
			if _, ok := served[kind]; !ok {
				served[kind] = r
			}
		}
	}
	changed := !maps.EqualFunc(served, i.served, Resource.equal)
	i.served = served
	i.mu.Unlock()

	if changed {
		// The mapper may have cached kinds and versions that are no longer served.
		meta.MaybeResetRESTMapper(i.mapper)
	}
	errs := []error{failure}
	for _, r := range served {
		if r.Followed() {
			errs = append(errs, i.follow(ctx, r))
		}
	}
	if changed {
		for _, h := range i.handlers {
			h.OnDiscovery()
		}
	}
	return errors.Join(errs...)
}

// follow starts an informer for a kind that is served, unless there is one for a version that is still
// served.
func (i *Inventory) follow(ctx context.Context, r Resource) error {
	i.mu.Lock()
	was := i.followed[r.Kind.GroupKind()]
	i.mu.Unlock()
	if was != nil && was.unserved.IsZero() &&
		was.Plural == r.Plural && was.Namespaced == r.Namespaced && slices.Contains(r.Versions, was.Kind.Version) {
		return nil
	}
	if was != nil {
		if err := i.drop(ctx, was); err != nil {
			return err
		}
	}
	in, err := i.cache.GetInformer(ctx, metadata(r.Kind), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("%s: %w", r.Kind, err)
	}
	for _, h := range i.handlers {
		h.OnFollow(r)
	}
	registration, err := in.AddEventHandler(&handler{i, r})
	if err != nil {
		return fmt.Errorf("%s: %w", r.Kind, err)
	}
	f := &informer{Resource: r, synced: registration.HasSyncedChecker(), dropped: make(chan struct{})}
	i.mu.Lock()
	i.followed[r.Kind.GroupKind()] = f
	i.mu.Unlock()
	i.syncing.Go(func() { i.awaitSync(ctx, f) })
	return nil
}

func (i *Inventory) awaitSync(ctx context.Context, f *informer) {
	select {
	case <-f.synced.Done():
		for _, h := range i.handlers {
			h.OnSynced(f.Resource)
		}
	case <-f.dropped:
	case <-ctx.Done():
	}
}

// grace is how long the informer of a kind that is no longer served is kept. It may still have events to
// deliver, such as the deletions that preceded that of a definition.
const grace = 10 * time.Second

// dropUnserved removes the informers of kinds that have not been served for the grace period. If others
// are within it, it returns after how long the first of them is due.
func (i *Inventory) dropUnserved(ctx context.Context, now time.Time) (after time.Duration, ok bool) {
	for _, f := range i.all() {
		i.mu.Lock()
		_, served := i.served[f.Kind.GroupKind()]
		i.mu.Unlock()
		if served {
			continue
		}
		if f.unserved.IsZero() {
			f.unserved = now
		}
		left := f.unserved.Add(grace).Sub(now)
		if left <= 0 {
			if err := i.drop(ctx, f); err != nil {
				log.FromContext(ctx).Error(err, "Cannot stop following a kind")
			}
			continue
		}
		if !ok || left < after {
			after, ok = left, true
		}
	}
	return after, ok
}

func (i *Inventory) drop(ctx context.Context, f *informer) error {
	if err := i.cache.RemoveInformer(ctx, metadata(f.Kind)); err != nil {
		return fmt.Errorf("%s: %w", f.Kind, err)
	}
	close(f.dropped)
	i.mu.Lock()
	delete(i.followed, f.Kind.GroupKind())
	i.mu.Unlock()
	return nil
}

func metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	return obj
}

// handler passes on the events of one kind's informer.
type handler struct {
	*Inventory
	resource Resource
}

func (h *handler) OnAdd(obj any, _ bool) { h.updated(obj) }
func (h *handler) OnUpdate(_, obj any)   { h.updated(obj) }

func (h *handler) updated(obj any) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		for _, l := range h.handlers {
			l.OnUpdate(h.resource, m)
		}
	}
	h.kindsMayHaveChanged()
}

func (h *handler) OnDelete(obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		for _, l := range h.handlers {
			l.OnDelete(h.resource, m)
		}
	}
	h.kindsMayHaveChanged()
}

// kindsMayHaveChanged requests another discovery if this is the CustomResourceDefinition.
func (h *handler) kindsMayHaveChanged() {
	if h.resource.Kind.GroupKind() != definition.GroupKind() {
		return
	}
	select {
	case h.changed <- struct{}{}:
	default:
	}
}
