// Package informertest has a cache of fake informers, for tests of sources and of what uses a
// cache.
package informertest

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllertest"
)

// FakeInformers is a cache.Cache of informers without objects. The zero value is ready. Its methods
// may be called concurrently.
type FakeInformers struct {
	// InformersByGVK are the informers by kind. A kind without one gets a
	// controllertest.FakeInformer that has synced.
	InformersByGVK map[schema.GroupVersionKind]toolscache.SharedIndexInformer
	// Scheme has the kinds of objects, by default client-go's scheme.
	Scheme *runtime.Scheme
	// Error, if not nil, is returned by Start and instead of an informer.
	Error error
	// Synced is the result of WaitForCacheSync; true if nil.
	Synced *bool

	mu sync.Mutex
}

var _ cache.Cache = &FakeInformers{}

// GetInformerForKind returns the informer of a kind that the scheme has.
func (c *FakeInformers) GetInformerForKind(
	_ context.Context, gvk schema.GroupVersionKind, _ ...cache.InformerGetOption,
) (cache.Informer, error) {
	if _, err := c.scheme().New(gvk); err != nil {
		return nil, err
	}
	return c.informer(gvk)
}

// GetInformer returns the informer of the kind of obj.
func (c *FakeInformers) GetInformer(
	_ context.Context, obj client.Object, _ ...cache.InformerGetOption,
) (cache.Informer, error) {
	gvk, err := c.kind(obj)
	if err != nil {
		return nil, err
	}
	return c.informer(gvk)
}

// FakeInformerForKind is GetInformerForKind, for a kind with a FakeInformer.
func (c *FakeInformers) FakeInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind,
) (*controllertest.FakeInformer, error) {
	return fake(c.GetInformerForKind(ctx, gvk))
}

// FakeInformerFor is GetInformer, for a kind with a FakeInformer.
func (c *FakeInformers) FakeInformerFor(ctx context.Context, obj client.Object) (*controllertest.FakeInformer, error) {
	return fake(c.GetInformer(ctx, obj))
}

func fake(informer cache.Informer, err error) (*controllertest.FakeInformer, error) {
	if err != nil {
		return nil, err
	}
	f, ok := informer.(*controllertest.FakeInformer)
	if !ok {
		return nil, fmt.Errorf("informer is a %T, not a FakeInformer", informer)
	}
	return f, nil
}

// RemoveInformer removes the informer of the kind of obj.
func (c *FakeInformers) RemoveInformer(_ context.Context, obj client.Object) error {
	gvk, err := c.kind(obj)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.InformersByGVK, gvk)
	return nil
}

// WaitForCacheSync returns at once.
func (c *FakeInformers) WaitForCacheSync(context.Context) bool { return c.Synced == nil || *c.Synced }

// Start returns Error at once.
func (c *FakeInformers) Start(context.Context) error { return c.Error }

// IndexField does nothing.
func (c *FakeInformers) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

// Get does nothing.
func (c *FakeInformers) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// List does nothing.
func (c *FakeInformers) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return nil
}

func (c *FakeInformers) scheme() *runtime.Scheme {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Scheme == nil {
		c.Scheme = scheme.Scheme
	}
	return c.Scheme
}

func (c *FakeInformers) kind(obj client.Object) (schema.GroupVersionKind, error) {
	kinds, _, err := c.scheme().ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return kinds[0], nil
}

func (c *FakeInformers) informer(gvk schema.GroupVersionKind) (cache.Informer, error) {
	if c.Error != nil {
		return nil, c.Error
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	informer, ok := c.InformersByGVK[gvk]
	if !ok {
		if c.InformersByGVK == nil {
			c.InformersByGVK = map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}
		}
		informer = controllertest.NewFakeInformer(controllertest.Synced)
		c.InformersByGVK[gvk] = informer
	}
	return informer, nil
}
