// Package inventory follows every object of every kind that can be listed, watched and deleted, as
// kinds come and go.
//
// Of each object it knows the metadata only, through the manager's cache. A [Listener] hears of each
// kind's objects in order; between two kinds there is no order. All its methods may be called from
// several goroutines at once.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/manager"
)

// Resource is one kind of object, in the version that the server prefers.
type Resource struct {
	Kind       schema.GroupVersionKind
	Plural     string
	Namespaced bool
	Verbs      []string
}

// Can reports whether the server offers the verb.
func (r Resource) Can(verb string) bool { return slices.Contains(r.Verbs, verb) }

// Listener hears what is there. Objects are shared and must not be changed.
type Listener interface {
	// Seen: the object is new or has changed.
	Seen(r Resource, obj *metav1.PartialObjectMetadata)
	// Gone: the object is no more. Its state may be an older one than the last that existed.
	Gone(r Resource, obj *metav1.PartialObjectMetadata)
	// Ended: the kind is not served any more, so all its objects are gone, whether or not Gone said so.
	Ended(r Resource)
	// Came: a kind is served that was not before. Seen is called for its objects.
	Came(r Resource)
}

// Inventory is a runnable of a manager. Listeners must be added before the manager starts.
type Inventory struct {
	discovery discovery.DiscoveryInterface
	cache     cache.Cache
	listeners []Listener
	changed   chan struct{} // has room for one: there may be other kinds than before

	mu       sync.Mutex
	kinds    map[schema.GroupKind]*informer
	complete chan struct{} // closed when all kinds that were there at the start are followed
}

type informer struct {
	Resource
	synced toolscache.DoneChecker
	ended  chan struct{}
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
		cache:     mgr.GetCache(),
		changed:   make(chan struct{}, 1),
		kinds:     map[schema.GroupKind]*informer{},
		complete:  make(chan struct{}),
	}
	return i, mgr.Add(i)
}

// Listen adds a listener.
func (i *Inventory) Listen(l Listener) { i.listeners = append(i.listeners, l) }

// Resources are the kinds that are followed now.
func (i *Inventory) Resources() []Resource {
	i.mu.Lock()
	defer i.mu.Unlock()
	list := make([]Resource, 0, len(i.kinds))
	for _, f := range i.kinds {
		list = append(list, f.Resource)
	}
	return list
}

// Wait waits until the listeners have heard of all objects that were there at the start.
func (i *Inventory) Wait(ctx context.Context) error {
	select {
	case <-i.complete:
	case <-ctx.Done():
		return ctx.Err()
	}
	i.mu.Lock()
	all := slices.Collect(maps.Values(i.kinds))
	i.mu.Unlock()
	for _, f := range all {
		select {
		case <-f.synced.Done():
		case <-f.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: following may begin at once.
func (i *Inventory) NeedLeaderElection() bool { return false }

// Start follows the kinds until ctx ends. It discovers them once, and again whenever a
// CustomResourceDefinition changes.
func (i *Inventory) Start(ctx context.Context) error {
	const first, last = 10 * time.Millisecond, 5 * time.Second
	retry := first
	for done := false; ; {
		wait := time.Duration(-1)
		if err := i.refresh(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			wait = retry
			retry = min(2*retry, last)
		} else {
			retry = first
			if !done {
				done = true
				close(i.complete)
			}
		}
		var again <-chan time.Time
		if wait >= 0 {
			again = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-i.changed:
		case <-again:
		}
	}
}

// refresh makes what is followed equal to what is served. A group that cannot be discovered keeps
// what it had, and gives an error.
func (i *Inventory) refresh(ctx context.Context) error {
	all, err := i.Discover()
	served := map[schema.GroupKind]bool{}
	var errs []error
	for _, r := range all {
		// Events are many, own nothing, and expire.
		if r.Kind.Kind == "Event" || !r.Can("list") || !r.Can("watch") || !r.Can("delete") {
			continue
		}
		served[r.Kind.GroupKind()] = true
		errs = append(errs, i.follow(ctx, r))
	}
	if err == nil {
		errs = append(errs, i.dropAllBut(ctx, served))
	}
	return errors.Join(append(errs, err)...)
}

// Discover asks the server for its resources, in the versions it prefers. With an error it returns
// those that could be discovered.
func (i *Inventory) Discover() ([]Resource, error) {
	lists, err := i.discovery.ServerPreferredResources()
	var out []Resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			out = append(out, Resource{Kind: gv.WithKind(r.Kind), Plural: r.Name, Namespaced: r.Namespaced, Verbs: r.Verbs})
		}
	}
	return out, err
}

func (i *Inventory) follow(ctx context.Context, r Resource) error {
	i.mu.Lock()
	was, ok := i.kinds[r.Kind.GroupKind()]
	i.mu.Unlock()
	if ok && was.Kind == r.Kind && was.Namespaced == r.Namespaced {
		return nil
	}
	if ok {
		if err := i.drop(ctx, was.Resource); err != nil {
			return err
		}
	}
	in, err := i.cache.GetInformer(ctx, metadata(r.Kind), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("%s: %w", r.Kind, err)
	}
	handle, err := in.AddEventHandler(&handler{i, r})
	if err != nil {
		return fmt.Errorf("%s: %w", r.Kind, err)
	}
	i.mu.Lock()
	i.kinds[r.Kind.GroupKind()] = &informer{r, handle.HasSyncedChecker(), make(chan struct{})}
	i.mu.Unlock()
	for _, l := range i.listeners {
		l.Came(r)
	}
	return nil
}

func (i *Inventory) dropAllBut(ctx context.Context, served map[schema.GroupKind]bool) error {
	var errs []error
	for _, r := range i.Resources() {
		if !served[r.Kind.GroupKind()] {
			errs = append(errs, i.drop(ctx, r))
		}
	}
	return errors.Join(errs...)
}

func (i *Inventory) drop(ctx context.Context, r Resource) error {
	if err := i.cache.RemoveInformer(ctx, metadata(r.Kind)); err != nil {
		return fmt.Errorf("%s: %w", r.Kind, err)
	}
	i.mu.Lock()
	if f := i.kinds[r.Kind.GroupKind()]; f != nil {
		close(f.ended)
		delete(i.kinds, r.Kind.GroupKind())
	}
	i.mu.Unlock()
	for _, l := range i.listeners {
		l.Ended(r)
	}
	return nil
}

func metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	return obj
}

// handler passes on what the informer of one kind says.
type handler struct {
	*Inventory
	resource Resource
}

func (h *handler) OnAdd(obj any, _ bool) { h.seen(obj) }
func (h *handler) OnUpdate(_, obj any)   { h.seen(obj) }

func (h *handler) seen(obj any) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		for _, l := range h.listeners {
			l.Seen(h.resource, m)
		}
	}
	h.kindsMayHaveChanged()
}

func (h *handler) OnDelete(obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		for _, l := range h.listeners {
			l.Gone(h.resource, m)
		}
	}
	h.kindsMayHaveChanged()
}

// kindsMayHaveChanged asks for another discovery if this is the kind that makes kinds.
func (h *handler) kindsMayHaveChanged() {
	if h.resource.Kind.GroupKind() != definition.GroupKind() {
		return
	}
	select {
	case h.changed <- struct{}{}:
	default:
	}
}
