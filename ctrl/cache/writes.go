package cache

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/cache/cacheapi"
	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/overlay"
)

var _ overlay.Writes = &informerCache{}

// Wrote implements overlay.Writes: reads see the object from now on. A write of
// metadata only shows in metadata-only reads; for the others it says too little.
func (c *informerCache) Wrote(_ context.Context, obj cacheapi.Object) {
	c.eachOf(obj, func(i *informer) {
		p := i.partOf(obj.GetNamespace())
		if p == nil {
			return
		}
		own, err := convert(obj, i.gvk, i.form, c.opts.Scheme)
		if err != nil {
			return
		}
		selected := p.selects(own)
		if own, err = p.prepare(own); err != nil {
			p.log().Error(err, "reads will not see a write before the watch tells of it")
			return
		}
		i.store.Wrote(own, selected)
	})
}

// Deleted implements overlay.Writes: reads do not find the object from now on.
func (c *informerCache) Deleted(_ context.Context, obj cacheapi.Object) {
	c.eachOf(obj, func(i *informer) {
		version, _ := store.Version(obj)
		i.store.Deleted(client.ObjectKeyFromObject(obj), obj.GetUID(), version)
	})
}

// eachOf calls f for the informers of an object's kind that exist, in all forms.
func (c *informerCache) eachOf(obj client.Object, f func(*informer)) {
	gvk, err := apiutil.GVKForObject(obj, c.opts.Scheme)
	if err != nil {
		return
	}
	for _, i := range c.existing(gvk) {
		f(i)
	}
}

func (c *informerCache) existing(gvk schema.GroupVersionKind) []*informer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var found []*informer
	for f := range forms {
		if i := c.informers[informerKey{gvk, f}]; i != nil {
			found = append(found, i)
		}
	}
	return found
}
