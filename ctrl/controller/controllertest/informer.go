package controllertest

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// InformerOptions are the choices for a FakeInformer.
type InformerOptions struct {
	// Synced makes an informer that has synced from the beginning.
	Synced bool
}

// InformerOption changes InformerOptions.
type InformerOption interface {
	// Apply makes the change.
	Apply(*InformerOptions)
}

// Synced is the option of an informer that has synced from the beginning.
var Synced = synced{}

// synced is the option Synced.
type synced struct{}

func (synced) Apply(o *InformerOptions) { o.Synced = true }

// FakeInformer is an informer without objects: the test calls Add, Update and Delete, which call
// the handlers at once, and Synced. The zero value is ready, and not synced. Its methods may be
// called concurrently.
type FakeInformer struct {
	// RunCount is how often Run and RunWithContext have been called. It must not be read while they
	// may be called.
	RunCount int

	mu            sync.Mutex
	synced        chan struct{} // made when first needed
	hasSynced     bool
	registrations []*registration
}

var _ cache.SharedIndexInformer = &FakeInformer{}

// NewFakeInformer returns an informer without handlers.
func NewFakeInformer(opts ...InformerOption) *FakeInformer {
	var o InformerOptions
	for _, opt := range opts {
		opt.Apply(&o)
	}
	f := &FakeInformer{}
	if o.Synced {
		f.Synced()
	}
	return f
}

// registration is a handler's. It has synced when the informer has.
type registration struct {
	*FakeInformer
	handler cache.ResourceEventHandler
}

func (r *registration) Name() string                        { return "FakeHandlerRegistration" }
func (r *registration) HasSyncedChecker() cache.DoneChecker { return r }

// AddEventHandler adds a handler. It never fails.
func (f *FakeInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &registration{f, handler}
	f.registrations = append(f.registrations, r)
	return r, nil
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: there are no resyncs.
func (f *FakeInformer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandler(handler)
}

// AddEventHandlerWithOptions is AddEventHandler: no option applies.
func (f *FakeInformer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandler(handler)
}

// RemoveEventHandler removes the handler that was registered with handle, if it is one of f.
func (f *FakeInformer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.registrations = slices.DeleteFunc(f.registrations, func(r *registration) bool { return handle == r })
	return nil
}

func (f *FakeInformer) handlers() []*registration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.registrations)
}

// Add calls OnAdd of the handlers, as for an object that is not in the initial list.
func (f *FakeInformer) Add(obj metav1.Object) {
	for _, r := range f.handlers() {
		r.handler.OnAdd(obj, false)
	}
}

// Update calls OnUpdate of the handlers.
func (f *FakeInformer) Update(oldObj, newObj metav1.Object) {
	for _, r := range f.handlers() {
		r.handler.OnUpdate(oldObj, newObj)
	}
}

// Delete calls OnDelete of the handlers.
func (f *FakeInformer) Delete(obj metav1.Object) {
	for _, r := range f.handlers() {
		r.handler.OnDelete(obj)
	}
}

// Synced makes the informer and its handlers synced.
func (f *FakeInformer) Synced() {
	done := f.doneChannel()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hasSynced {
		f.hasSynced = true
		close(done)
	}
}

func (f *FakeInformer) doneChannel() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.synced == nil {
		f.synced = make(chan struct{})
	}
	return f.synced
}

// HasSynced reports whether Synced has been called.
func (f *FakeInformer) HasSynced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hasSynced
}

// HasSyncedChecker returns f.
func (f *FakeInformer) HasSyncedChecker() cache.DoneChecker { return f }

// Name returns "FakeInformer".
func (f *FakeInformer) Name() string { return "FakeInformer" }

// Done is closed when the informer has synced.
func (f *FakeInformer) Done() <-chan struct{} { return f.doneChannel() }

// Run counts the call in RunCount and returns.
func (f *FakeInformer) Run(<-chan struct{}) { f.RunWithContext(context.Background()) }

// RunWithContext counts the call in RunCount and returns.
func (f *FakeInformer) RunWithContext(context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.RunCount++
}

// Informer returns f.
func (f *FakeInformer) Informer() cache.SharedIndexInformer { return f }

// GetIndexer returns an empty indexer, a new one each time.
func (f *FakeInformer) GetIndexer() cache.Indexer {
	return cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, nil)
}

// AddIndexers does nothing.
func (f *FakeInformer) AddIndexers(cache.Indexers) error { return nil }

// GetStore returns nil.
func (f *FakeInformer) GetStore() cache.Store { return nil }

// GetController returns nil.
func (f *FakeInformer) GetController() cache.Controller { return nil }

// LastSyncResourceVersion returns the empty string.
func (f *FakeInformer) LastSyncResourceVersion() string { return "" }

// SetWatchErrorHandler does nothing: there is no watch.
func (f *FakeInformer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return nil }

// SetWatchErrorHandlerWithContext does nothing: there is no watch.
func (f *FakeInformer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// SetTransform does nothing.
func (f *FakeInformer) SetTransform(cache.TransformFunc) error { return nil }

// IsStopped returns false.
func (f *FakeInformer) IsStopped() bool { return false }
