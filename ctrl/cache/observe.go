package cache

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/internal/representation"
)

var (
	_ observe.Cache      = (*informerCache)(nil)
	_ observe.CachedKind = (*informer)(nil)
)

// ObservedKinds implements observe.Cache.
func (c *informerCache) ObservedKinds() []observe.CachedKind {
	var kinds []observe.CachedKind
	for _, i := range c.allInformers() {
		kinds = append(kinds, i)
	}
	return kinds
}

// ObservedKind implements observe.Cache. A nil object is typed.
func (c *informerCache) ObservedKind(gvk schema.GroupVersionKind, obj client.Object) observe.CachedKind {
	form := representation.Typed
	if obj != nil {
		form = representation.Of(obj)
	}
	if i, started := c.existingInformer(informerKey{gvk, form}); i != nil && started {
		return i
	}
	return nil
}

// Contact implements observe.CachedKind.
func (i *informer) Contact(namespace string) (last time.Time, open bool) {
	p := i.partitionFor(namespace)
	if p == nil {
		p = i.partitions[0]
	}
	return p.status.lastReceivedAndOpen()
}

// State implements observe.CachedKind.
func (i *informer) State(key client.ObjectKey) (state observe.State, version string, ok bool) {
	if !i.namespaced {
		key.Namespace = ""
	}
	obj, ok := i.store.Get(key, false)
	if !ok {
		return nil, "", false
	}
	detached := &detachedState{cachedState: cachedState{informer: i}}
	detached.obj, version = obj.Detach(&detached.memory)
	return &detached.cachedState, version, true
}

// States implements observe.CachedKind.
func (i *informer) States(namespace string, limit int) (states []observe.State, total int) {
	if !i.namespaced {
		namespace = ""
	}
	objs, err := i.store.List(store.Query{Namespace: namespace})
	if err != nil {
		return nil, 0
	}
	for _, obj := range objs[:min(limit, len(objs))] {
		states = append(states, cachedState{i, obj})
	}
	return states, len(objs)
}

// cachedState is an object of the store as it was at one time.
type cachedState struct {
	informer *informer
	obj      store.Object
}

// detachedState is a cachedState with an object that refers to no record of the store. The object and its memory are one allocation,
// because each write of a reconcile keeps two states, before and after.
type detachedState struct {
	cachedState
	memory store.Detached
}

// Object implements observe.State.
func (s cachedState) Object() client.Object {
	obj := s.obj.Copy()
	s.informer.setKind(obj)
	return obj
}

// UID implements observe.State.
func (s cachedState) UID() types.UID { return s.obj.UID() }

// Size implements observe.State.
func (s cachedState) Size() int { return s.obj.Size(observe.MaxState) }

// Summary implements observe.CachedKind.
func (i *informer) Summary() observe.KindSummary {
	s := observe.KindSummary{GVK: i.gvk, Form: i.representation.String(), Synced: i.HasSynced()}
	s.Objects, s.Bytes = i.store.Size()
	for _, p := range i.partitions {
		if p.namespace != AllNamespaces {
			s.Namespaces = append(s.Namespaces, p.namespace)
		}
		last, open := p.status.lastReceivedAndOpen()
		if open {
			s.Watches++
		}
		if s.Contact.IsZero() || last.Before(s.Contact) {
			s.Contact = last
		}
		if _, _, err := p.status.failure(); err != nil {
			s.Failing = publicText(err)
		}
	}
	i.indexing.Lock()
	for name := range i.indexers {
		s.Indexes = append(s.Indexes, name)
	}
	i.indexing.Unlock()
	slices.Sort(s.Indexes)
	i.mu.Lock()
	for _, l := range i.listeners {
		if !l.EachChange() { // or else it is the monitor of Options.Development, which looks at all informers
			s.Handlers++
		}
	}
	i.mu.Unlock()
	informerStats.mu.Lock()
	defer informerStats.mu.Unlock()
	if i.stats != nil {
		s.Events, s.Relists, s.LiveReads = i.stats.events.Load(), i.stats.relists.Load(), i.stats.liveReads.Load()
	}
	return s
}
