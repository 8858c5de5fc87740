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

// customInformer is an informer of the user's own make. It feeds a part in place of a
// reflector; what it holds itself is not read.
type customInformer struct {
	partition *partition
	newInformer  func() toolscache.SharedIndexInformer
}

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
		// Resyncs are up to the listeners.
		return c.opts.NewInformer(lw, newObject(p.informer.gvk, p.informer.representation, c.opts.Scheme), time.Duration(0), toolscache.Indexers{})
	}}
}

// Run runs the informer until ctx is done.
func (f *customInformer) Run(ctx context.Context) {
	informer := f.newInformer()
	if err := informer.SetWatchErrorHandlerWithContext(f.failed); err != nil {
		f.partition.log().Error(err, "the informer takes no error handler")
	}
	f.partition.Begin()
	registration, err := informer.AddEventHandler(f)
	if err != nil {
		f.partition.log().Error(err, "the informer takes no handler; the kind is not cached")
		return
	}
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		select {
		case <-registration.HasSyncedChecker().Done():
			f.partition.Complete("")
		case <-ctx.Done():
		}
	}()
	informer.RunWithContext(ctx)
	<-synced
}

// failed is told of errors before the informer tries again.
func (f *customInformer) failed(ctx context.Context, r *toolscache.Reflector, err error) {
	f.partition.recordError(err)
	if f.partition.onError != nil {
		f.partition.onError(ctx, r, err)
		return
	}
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
}

// OnAdd implements toolscache.ResourceEventHandler.
func (f *customInformer) OnAdd(obj any, _ bool) {
	f.forward(obj, f.partition.Changed)
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (f *customInformer) OnUpdate(_, obj any) {
	f.forward(obj, f.partition.Changed)
}

// OnDelete implements toolscache.ResourceEventHandler.
func (f *customInformer) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	f.forward(obj, f.partition.Deleted)
}

// forward gives the part a copy, as the informer keeps the object.
func (f *customInformer) forward(obj any, to func(client.Object)) {
	if o, ok := obj.(client.Object); ok {
		to(o.DeepCopyObject().(client.Object))
		f.partition.Idle()
	}
}

// newObject returns an empty object of a kind, or nil if the scheme does not know the kind.
func newObject(gvk schema.GroupVersionKind, rep representation.Representation, scheme *runtime.Scheme) runtime.Object {
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
