package cache

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/cache/cacheapi"
	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/overlay"
)

var _ overlay.Writes = &informerCache{}

// Wrote implements overlay.Writes: reads see the object from now on. Where the object does not
// determine the result of reads, they request it from the server.
func (c *informerCache) Wrote(_ context.Context, obj cacheapi.Object) {
	version, ok := store.Version(obj)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(obj)
	c.forEachCovering(obj, func(i *informer, p *partition, converted bool) {
		switch selects := p.matchSelectors(obj); {
		case selects == noMatch && !converted:
			i.store.Absent(key, version)
			return
		case selects == matchUnknown, converted:
			i.store.Invalidate(key, version)
			return
		}
		own, err := convert(obj, i.gvk, i.representation, c.opts.Scheme)
		if err == nil {
			own, err = p.prepare(i.ctx, own, lockTimeout)
		}
		switch {
		case err == nil:
			i.store.Wrote(own)
		case errors.Is(err, errIncomplete), errors.Is(err, errLocked):
			i.store.Invalidate(key, version)
		default:
			p.log().Error(err, "Could not prepare an object; reads do not include a write until the watch delivers it")
		}
	})
}

// Invalidate implements overlay.Writes: reads of the object request it from the server until the
// watch has caught up.
func (c *informerCache) Invalidate(_ context.Context, obj cacheapi.Object) {
	version, ok := store.Version(obj)
	if !ok && obj.GetResourceVersion() != "" {
		return // Resource versions that are not numbers cannot be compared.
	}
	key := client.ObjectKeyFromObject(obj)
	c.forEachCovering(obj, func(i *informer, p *partition, _ bool) {
		if p.matchKey(key) != noMatch {
			i.store.Invalidate(key, version)
		}
	})
}

// Deleted implements overlay.Writes: reads do not find the object from now on.
func (c *informerCache) Deleted(_ context.Context, obj cacheapi.Object) {
	version, _ := store.Version(obj)
	c.forEachCovering(obj, func(i *informer, _ *partition, _ bool) {
		i.store.Deleted(client.ObjectKeyFromObject(obj), obj.GetUID(), version)
	})
}

// Deleting implements overlay.Writes: reads of the object request it from the server until the
// watch has delivered its deletion.
func (c *informerCache) Deleting(_ context.Context, obj cacheapi.Object) {
	version, _ := store.Version(obj)
	key := client.ObjectKeyFromObject(obj)
	c.forEachCovering(obj, func(i *informer, p *partition, _ bool) {
		switch {
		case p.matchKey(key) == noMatch:
		case obj.GetUID() == "":
			i.store.Invalidate(key, 0)
		default:
			i.store.InvalidateDeleted(key, obj.GetUID(), version)
		}
	})
}

// forEachCovering calls f for the existing informers of an object's kind, in all representations
// and API versions, with the partition that covers its namespace. Converted is set if the API
// version is not the object's: the server converts between versions, and only name, namespace, UID
// and resource version are certain to be preserved.
func (c *informerCache) forEachCovering(obj client.Object, f func(i *informer, p *partition, converted bool)) {
	gvk, err := apiutil.GVKForObject(obj, c.opts.Scheme)
	if err != nil {
		return
	}
	for _, i := range c.informersOf(gvk.GroupKind()) {
		if p := i.partitionFor(obj.GetNamespace()); p != nil {
			f(i, p, i.gvk != gvk)
		}
	}
}

// informersOf returns the informers of a kind, in all representations and API versions.
func (c *informerCache) informersOf(kind schema.GroupKind) []*informer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var found []*informer
	for key, i := range c.informers {
		if key.gvk.GroupKind() == kind {
			found = append(found, i)
		}
	}
	return found
}
