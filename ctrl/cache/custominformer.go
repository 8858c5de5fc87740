package cache

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/representation"
)

// customInformer passes the events of an informer that Options.NewInformer made to a partition, in
// place of a reflector. Reads do not use the store of that informer.
type customInformer struct {
	partition   *partition
	newInformer func() toolscache.SharedIndexInformer
}

// newCustomInformer returns the custom informer of a partition. It lists and watches as the
// reflector would, but with client-go's decoders.
func (c *informerCache) newCustomInformer(p *partition, r *listerWatcher) *customInformer {
	lw := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return r.client.ClientGoList(ctx, r.withSelectors(opts))
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w, err := r.client.ClientGoWatch(ctx, r.withSelectors(opts))
			if err != nil {
				return nil, err
			}
			return &instrumentedWatch{w, p.status.watchOpened()}, nil
		},
	}
	return &customInformer{p, func() toolscache.SharedIndexInformer {
		example := newObject(p.informer.gvk, p.informer.representation, c.opts.Scheme)
		// The listeners resync, not the informer.
		const resync = time.Duration(0)
		return c.opts.NewInformer(lw, example, resync, toolscache.Indexers{})
	}}
}

// Run runs the informer until ctx is done.
func (c *customInformer) Run(ctx context.Context) {
	informer := c.newInformer()
	if err := informer.SetWatchErrorHandlerWithContext(c.failed); err != nil {
		c.partition.log().Error(err, "The informer does not accept a watch error handler")
	}
	c.partition.Begin()
	registration, err := informer.AddEventHandler(c)
	if err != nil {
		c.partition.log().Error(err, "The informer does not accept an event handler; the kind is not cached")
		return
	}
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		select {
		case <-registration.HasSyncedChecker().Done():
			c.partition.Complete("")
		case <-ctx.Done():
		}
	}()
	informer.RunWithContext(ctx)
	<-synced
}

// failed is the watch error handler of the informer.
func (c *customInformer) failed(ctx context.Context, r *toolscache.Reflector, err error) {
	c.partition.recordError(err)
	if c.partition.onError != nil {
		c.partition.onError(ctx, r, err)
		return
	}
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
}

// OnAdd implements toolscache.ResourceEventHandler.
func (c *customInformer) OnAdd(obj any, _ bool) {
	c.forward(obj, c.partition.Changed)
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (c *customInformer) OnUpdate(_, obj any) {
	c.forward(obj, c.partition.Changed)
}

// OnDelete implements toolscache.ResourceEventHandler.
func (c *customInformer) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	c.forward(obj, c.partition.Deleted)
}

// forward passes a copy of an object to the partition, as the informer keeps the object itself.
func (c *customInformer) forward(obj any, to func(client.Object)) {
	if o, ok := obj.(client.Object); ok {
		to(o.DeepCopyObject().(client.Object))
	}
}

// newObject returns an empty object of a kind, or nil if the scheme does not know the kind.
func newObject(
	gvk schema.GroupVersionKind, rep representation.Representation, scheme *runtime.Scheme,
) runtime.Object {
	switch rep {
	case representation.Unstructured:
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		return u
	case representation.Metadata:
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(gvk)
		return m
	default:
		obj, err := scheme.New(gvk)
		if err != nil {
			return nil
		}
		return obj
	}
}
