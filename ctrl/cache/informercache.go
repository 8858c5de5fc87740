package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/representation"
)

// informerCache is the Cache that New returns: a map of informers, which are started on first use.
type informerCache struct {
	opts   Options
	mapper meta.RESTMapperWithContext // of opts
	kinds  byKind
	server connection

	// transformLocks has a transformLock per kind.
	transformLocks sync.Map

	mu        sync.RWMutex
	informers map[informerKey]*informer
	// ctx is set by Start and ends the informers that it has started; running waits for them.
	ctx     context.Context
	running sync.WaitGroup
	started chan struct{}
	stopped bool
	// onInformer, if not nil, is called with every informer.
	onInformer func(schema.GroupVersionKind, Informer)
}

// informerKey identifies an informer by kind and representation.
type informerKey struct {
	gvk            schema.GroupVersionKind
	representation representation.Representation
}

// New returns a cache of the server of config. It makes no requests before the first use, except for
// discovery if ByObject restricts kinds to namespaces.
func New(config *rest.Config, opts Options) (Cache, error) {
	applyMutationVariable(&opts)
	c, err := newInformerCache(config, opts)
	if err != nil {
		return nil, err
	}
	if opts.OnMutation != nil {
		return detectingCache{c}, nil
	}
	return c, nil
}

// newInformerCache returns a cache with the defaults of opts filled in.
func newInformerCache(config *rest.Config, opts Options) (*informerCache, error) {
	if config == nil {
		return nil, errors.New("must specify Config")
	}
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	// Each partition makes one request at a time and backs off; a rate limit would only delay the
	// pages of a list.
	config.QPS, config.RateLimiter = -1, nil
	if opts.HTTPClient == nil {
		http, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("could not create HTTP client from config: %w", err)
		}
		opts.HTTPClient = http
	}
	if opts.Scheme == nil {
		opts.Scheme = scheme.Scheme
	}
	if opts.Mapper == nil {
		mapper, err := apiutil.NewDynamicRESTMapper(config, opts.HTTPClient)
		if err != nil {
			return nil, fmt.Errorf("could not create RESTMapper from config: %w", err)
		}
		opts.Mapper = mapper
	}
	kinds, err := newByKind(opts.ByObject, opts.Scheme, opts.Mapper)
	if err != nil {
		return nil, err
	}
	return &informerCache{
		opts:      opts,
		mapper:    meta.ToRESTMapperWithContext(opts.Mapper),
		kinds:     kinds,
		server:    connection{config, opts.HTTPClient, opts.Scheme, serializer.NewCodecFactory(opts.Scheme)},
		informers: map[informerKey]*informer{},
		started:   make(chan struct{}),
	}, nil
}

// informer returns the informer of a key, and whether the cache is started. A missing informer is
// created, unless onlyExisting is set, and started if the cache is.
func (c *informerCache) informer(ctx context.Context, key informerKey, onlyExisting bool) (i *informer, started bool, err error) {
	return c.informerAfter(ctx, nil, key, onlyExisting)
}

// informerAfter returns the informer as informer does. If removed is not nil, the informer takes the place
// of that one, and inherits its indexes and, unless it exists already, its other settings.
func (c *informerCache) informerAfter(
	ctx context.Context, removed *informer, key informerKey, onlyExisting bool,
) (i *informer, started bool, err error) {
	if i, started := c.existingInformer(key); i != nil {
		return i, started, i.inheritIndexes(removed)
	}
	if onlyExisting {
		return nil, false, &ErrResourceNotCached{GVK: key.gvk}
	}
	// Creating one may take a discovery request, so it is done without the lock.
	if i, err = c.newInformer(ctx, key); err != nil {
		return nil, false, err
	}
	if err := i.inherit(removed); err != nil {
		return nil, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.informers[key]; other != nil {
		return other, c.ctx != nil, other.inheritIndexes(removed)
	}
	if c.stopped {
		return nil, false, fmt.Errorf("cannot cache %s: the cache has stopped: %w", key.gvk, context.Canceled)
	}
	c.informers[key] = i
	if c.onInformer != nil {
		c.onInformer(key.gvk, i)
	}
	if c.ctx != nil {
		c.start(i)
	}
	return i, c.ctx != nil, nil
}

// OnInformer has f called with every existing informer and, before it starts, with every later one. f
// must not call the cache. It is Flyball's own; managers call it, once.
func (c *informerCache) OnInformer(f func(schema.GroupVersionKind, Informer)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onInformer = f
	for key, i := range c.informers {
		f(key.gvk, i)
	}
}

// existingInformer returns the informer of a key, or nil, and whether the cache is started.
func (c *informerCache) existingInformer(key informerKey) (*informer, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.informers[key], c.ctx != nil
}

// start runs an informer. The caller holds mu.
func (c *informerCache) start(i *informer) {
	c.running.Go(func() { i.run(c.ctx) })
}

// syncedInformer returns the informer as informer does. If the cache is started, it waits until the
// informer has synced, also if it is removed meanwhile. If ctx is done and it has not synced before,
// that is an error, however soon it syncs.
func (c *informerCache) syncedInformer(
	ctx context.Context, key informerKey, onlyExisting bool,
) (i *informer, started bool, err error) {
	if i, started := c.existingInformer(key); i != nil && started && i.HasSynced() {
		return i, true, nil
	}
	done := ctx.Err() != nil
	for {
		i, started, err = c.informerAfter(ctx, i, key, onlyExisting)
		if cause := ctx.Err(); cause != nil && errors.Is(err, cause) { // it ended during discovery
			return nil, true, notSynced(key, cause)
		}
		if err != nil || !started {
			return i, started, err
		}
		if !done && i.WaitForSync(ctx) {
			return i, true, nil
		}
		// An informer that was removed meanwhile is replaced by a new one, which inherits its settings.
		if now, _ := c.existingInformer(key); done || ctx.Err() != nil || now == i {
			return nil, true, notSynced(key, cmp.Or(ctx.Err(), context.Canceled)) // the informer's context has ended
		}
	}
}

// notSyncedError is the Timeout for an informer that has not synced, as in controller-runtime. It is also the
// error of the context that has ended, so that a controller that stops does not take it for a failure.
type notSyncedError struct {
	*apierrors.StatusError
	cause error
}

// notSynced returns the error for an informer that has not synced because of a cause.
func notSynced(key informerKey, cause error) error {
	return &notSyncedError{apierrors.NewTimeoutError(fmt.Sprintf("failed waiting for %s Informer to sync", key.gvk), 0), cause}
}

func (e *notSyncedError) Unwrap() []error { return []error{e.StatusError, e.cause} }

// GetInformer implements Informers.
func (c *informerCache) GetInformer(
	ctx context.Context, obj client.Object, opts ...InformerGetOption,
) (Informer, error) {
	gvk, err := apiutil.GVKForObject(obj, c.opts.Scheme)
	if err != nil {
		return nil, err
	}
	return c.getInformer(ctx, informerKey{gvk, representation.Of(obj)}, opts)
}

// GetInformerForKind implements Informers.
func (c *informerCache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...InformerGetOption,
) (Informer, error) {
	obj, err := c.opts.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return c.getInformer(ctx, informerKey{gvk, representation.Of(obj)}, opts)
}

// getInformer returns the informer of a key, by default when it has synced.
func (c *informerCache) getInformer(ctx context.Context, key informerKey, opts []InformerGetOption) (Informer, error) {
	var options InformerGetOptions
	for _, opt := range opts {
		opt(&options)
	}
	var i *informer
	var err error
	if options.BlockUntilSynced == nil || *options.BlockUntilSynced {
		i, _, err = c.syncedInformer(ctx, key, false)
	} else {
		i, _, err = c.informer(ctx, key, false)
	}
	if err != nil {
		return nil, err
	}
	return i, nil
}

// RemoveInformer implements Informers.
func (c *informerCache) RemoveInformer(_ context.Context, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, c.opts.Scheme)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := informerKey{gvk, representation.Of(obj)}
	if i := c.informers[key]; i != nil {
		i.cancel()
		delete(c.informers, key)
	}
	return nil
}

// IndexField implements Informers.
func (c *informerCache) IndexField(
	ctx context.Context, obj client.Object, field string, extractValue client.IndexerFunc,
) error {
	gvk, err := apiutil.GVKForObject(obj, c.opts.Scheme)
	if err != nil {
		return err
	}
	if extractValue == nil {
		return fmt.Errorf("the index %q of %s must have a non-nil function", field, gvk.Kind)
	}
	i, _, err := c.informer(ctx, informerKey{gvk, representation.Of(obj)}, false)
	if err != nil {
		return err
	}
	return i.indexField(field, extractValue)
}

// Start implements Informers.
func (c *informerCache) Start(ctx context.Context) error {
	c.mu.Lock()
	if c.ctx != nil {
		c.mu.Unlock()
		return errors.New("informer already started")
	}
	c.ctx = ctx
	for _, i := range c.informers {
		i.awaited = true
		c.start(i)
	}
	close(c.started)
	c.mu.Unlock()

	<-ctx.Done()
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

// WaitForCacheSync implements Informers.
func (c *informerCache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.started:
	case <-ctx.Done():
		return false
	}
	for _, i := range c.allInformers() {
		// An informer that was removed meanwhile does not count.
		if !i.WaitForSync(ctx) && (ctx.Err() != nil || c.ctx.Err() != nil) {
			return false
		}
	}
	return true
}

// allInformers returns the informers in no particular order.
func (c *informerCache) allInformers() []*informer {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*informer, 0, len(c.informers))
	for _, i := range c.informers {
		all = append(all, i)
	}
	return all
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: the cache runs without the leader
// lease.
func (c *informerCache) NeedLeaderElection() bool {
	return false
}
