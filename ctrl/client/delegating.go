package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/internal/representation"
)

// NewDelegatingClientInput are the parameters of [NewDelegatingClient]. It was a type of
// controller-runtime before v0.15.
//
// Deprecated: use Options.Cache.
type NewDelegatingClientInput struct {
	// CacheReader is read from.
	CacheReader Reader
	// Client writes, and reads the objects that CacheReader does not read.
	Client Client
	// UncachedObjects holds an object of each kind that is not read from CacheReader.
	UncachedObjects []Object
	// CacheUnstructured enables reads of unstructured objects from CacheReader.
	CacheUnstructured bool
}

// NewDelegatingClient returns a client that reads from a cache and writes with another client. It
// was a function of controller-runtime before v0.15. Unlike a client with Options.Cache, it does
// not make the cache read its own writes.
//
// Deprecated: use New with Options.Cache.
func NewDelegatingClient(in NewDelegatingClientInput) (Client, error) {
	if in.Client == nil || in.CacheReader == nil {
		return nil, errors.New("a delegating client needs both NewDelegatingClientInput.Client and CacheReader")
	}
	c := &delegatingClient{Client: in.Client, cache: in.CacheReader, unstructured: in.CacheUnstructured,
		uncached: map[schema.GroupVersionKind]bool{}}
	for _, obj := range in.UncachedObjects {
		gvk, err := in.Client.GroupVersionKindFor(obj)
		if err != nil {
			return nil, fmt.Errorf("NewDelegatingClientInput.UncachedObjects: %w", err)
		}
		c.uncached[gvk] = true
	}
	return c, nil
}

// delegatingClient reads most kinds from a cache.
type delegatingClient struct {
	Client
	cache        Reader
	uncached     map[schema.GroupVersionKind]bool
	unstructured bool
}

// Get implements Reader.
func (c *delegatingClient) Get(ctx context.Context, key ObjectKey, obj Object, opts ...GetOption) error {
	if c.live(obj) {
		return c.Client.Get(ctx, key, obj, opts...)
	}
	return c.cache.Get(ctx, key, obj, opts...)
}

// List implements Reader.
func (c *delegatingClient) List(ctx context.Context, list ObjectList, opts ...ListOption) error {
	if c.live(list) {
		return c.Client.List(ctx, list, opts...)
	}
	return c.cache.List(ctx, list, opts...)
}

// live reports whether objects are read from the server. The cache rejects kinds that the scheme
// does not have.
func (c *delegatingClient) live(obj runtime.Object) bool {
	if !c.unstructured && representation.Of(obj) == representation.Unstructured {
		return true
	}
	gvk, err := c.GroupVersionKindFor(obj)
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	return err == nil && c.uncached[gvk]
}
