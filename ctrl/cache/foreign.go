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

// foreign is an informer of the user's own make. It feeds a part in place of a
// reflector; what it holds itself is not read.
type foreign struct {
	part *part
	new  func() toolscache.SharedIndexInformer
}

func (c *informerCache) foreign(p *part, r *remote) *foreign {
	lw := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return r.client.ClientGoList(ctx, r.selected(opts))
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w, err := r.client.ClientGoWatch(ctx, r.selected(opts))
			if err != nil {
				return nil, err
			}
			return &noticedWatch{w, p.contact.watching()}, nil
		},
	}
	return &foreign{p, func() toolscache.SharedIndexInformer {
		// Resyncs are up to the listeners.
		return c.opts.NewInformer(lw, newObject(p.informer.gvk, p.informer.representation, c.opts.Scheme), time.Duration(0), toolscache.Indexers{})
	}}
}

// Run runs the informer until ctx is done.
func (f *foreign) Run(ctx context.Context) {
	informer := f.new()
	if err := informer.SetWatchErrorHandlerWithContext(f.failed); err != nil {
		f.part.log().Error(err, "the informer takes no error handler")
	}
	f.part.Begin()
	registration, err := informer.AddEventHandler(f)
	if err != nil {
		f.part.log().Error(err, "the informer takes no handler; the kind is not cached")
		return
	}
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		select {
		case <-registration.HasSyncedChecker().Done():
			f.part.Complete("")
		case <-ctx.Done():
		}
	}()
	informer.RunWithContext(ctx)
	<-synced
}

// failed is told of errors before the informer tries again.
func (f *foreign) failed(ctx context.Context, r *toolscache.Reflector, err error) {
	f.part.noteError(err)
	if f.part.onError != nil {
		f.part.onError(ctx, r, err)
		return
	}
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
}

// OnAdd implements toolscache.ResourceEventHandler.
func (f *foreign) OnAdd(obj any, _ bool) {
	f.pass(obj, f.part.Changed)
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (f *foreign) OnUpdate(_, obj any) {
	f.pass(obj, f.part.Changed)
}

// OnDelete implements toolscache.ResourceEventHandler.
func (f *foreign) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	f.pass(obj, f.part.Deleted)
}

// pass gives the part a copy, as the informer keeps the object.
func (f *foreign) pass(obj any, to func(client.Object)) {
	if o, ok := obj.(client.Object); ok {
		to(o.DeepCopyObject().(client.Object))
		f.part.Idle()
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
