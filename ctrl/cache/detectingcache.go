package cache

import (
	"context"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/representation"
)

// detectingCache is a cache that detects modifications by readers.
type detectingCache struct{ *informerCache }

const unsafeReader = "a reader without a deep copy"

// Get implements client.Reader.
func (c detectingCache) Get(
	ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption,
) error {
	if err := c.informerCache.Get(ctx, key, out, opts...); err != nil {
		return err
	}
	i := c.informerFor(out, "")
	if i == nil {
		return nil
	}
	i.mutations.compareObject(client.ObjectKeyFromObject(out), "when it was read again")
	if i.partitionFor(out.GetNamespace()).shares((&client.GetOptions{}).ApplyOptions(opts).UnsafeDisableDeepCopy) {
		i.mutations.addObject(shallowCopy(out), unsafeReader)
	}
	return nil
}

// List implements client.Reader.
func (c detectingCache) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	if err := c.informerCache.List(ctx, out, opts...); err != nil {
		return err
	}
	i := c.informerFor(out, "List")
	unsafe := (&client.ListOptions{}).ApplyOptions(opts).UnsafeDisableDeepCopy
	items, err := meta.GetItemsPtr(out)
	if err != nil || i == nil {
		return err
	}
	slice := reflect.ValueOf(items).Elem()
	for n := range slice.Len() {
		item, lent := slice.Index(n), func(obj client.Object) client.Object { return obj }
		if item.Kind() == reflect.Struct {
			item, lent = item.Addr(), shallowCopy
		}
		obj, ok := item.Interface().(client.Object)
		if !ok {
			continue
		}
		i.mutations.compareObject(client.ObjectKeyFromObject(obj), "when it was listed again")
		if i.partitionFor(obj.GetNamespace()).shares(unsafe) {
			i.mutations.addObject(lent(obj), unsafeReader)
		}
	}
	return nil
}

// informerFor returns the informer that an object or a list was read from, or nil if it was
// removed.
func (c detectingCache) informerFor(out runtime.Object, suffix string) *informer {
	gvk, _ := apiutil.GVKForObject(out, c.opts.Scheme)
	gvk.Kind = strings.TrimSuffix(gvk.Kind, suffix)
	i, _ := c.existingInformer(informerKey{gvk, representation.Of(out)})
	return i
}

// shallowCopy returns a copy of an object's struct. The reader owns its struct, but shares what
// that refers to.
func shallowCopy(obj client.Object) client.Object {
	v := reflect.ValueOf(obj).Elem()
	held := reflect.New(v.Type())
	held.Elem().Set(v)
	return held.Interface().(client.Object)
}
