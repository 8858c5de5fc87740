package client

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/internal/representation"
)

// cached reports whether obj is read from the cache.
func (c *client) cached(obj runtime.Object) (bool, error) {
	if c.cache == nil || (!c.cacheUnstructured && representation.Of(obj) == representation.Unstructured) {
		return false, nil
	}
	if len(c.live) == 0 {
		return true, nil
	}
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return false, err
	}
	return !c.live[singular(obj, gvk)], nil
}

// Get reads an object, from the cache or from the server.
func (c *client) Get(ctx context.Context, key ObjectKey, obj Object, opts ...GetOption) error {
	if cached, err := c.cached(obj); err != nil {
		return err
	} else if cached {
		return c.cache.Get(ctx, key, obj, opts...)
	}
	r, err := c.resourceOf(ctx, obj)
	if err != nil {
		return err
	}
	req := r.object(http.MethodGet, key, "")
	if len(opts) > 0 {
		if req, err = withParams(req, (&GetOptions{}).ApplyOptions(opts).AsGetOptions()); err != nil {
			return err
		}
	}
	return r.into(ctx, req, obj)
}

// List reads objects, from the cache or from the server.
func (c *client) List(ctx context.Context, list ObjectList, opts ...ListOption) error {
	if cached, err := c.cached(list); err != nil {
		return err
	} else if cached {
		return c.cache.List(ctx, list, opts...)
	}
	r, err := c.resourceOf(ctx, list)
	if err != nil {
		return err
	}
	o := (&ListOptions{}).ApplyOptions(opts)
	req, err := withParams(r.collection(http.MethodGet, o.Namespace, acceptMetadataList), o.AsListOptions())
	if err != nil {
		return err
	}
	res, err := r.send(ctx, req, list)
	if _, ok := list.(runtime.Unstructured); ok && err == nil {
		// The kind may have been the kind of the items.
		list.GetObjectKind().SetGroupVersionKind(res.kind)
	}
	return err
}

// watcher is the part of WithWatch that Client does not have.
type watcher interface {
	Watch(ctx context.Context, obj ObjectList, opts ...ListOption) (watch.Interface, error)
}

// Watch starts a watch of the objects of the list's kind on the server.
func (c *client) Watch(ctx context.Context, list ObjectList, opts ...ListOption) (watch.Interface, error) {
	r, err := c.resourceOf(ctx, list)
	if err != nil {
		return nil, err
	}
	o := (&ListOptions{}).ApplyOptions(opts)
	raw := metav1.ListOptions{}
	if o.Raw != nil {
		raw = *o.Raw
	}
	raw.Watch = true
	o.Raw = &raw
	req, err := withParams(r.collection(http.MethodGet, o.Namespace, acceptMetadata), o.AsListOptions())
	if err != nil {
		return nil, err
	}
	w, err := req.Watch(ctx)
	return w, r.check(err)
}
