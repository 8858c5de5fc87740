package cache

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/internal/optional"
)

// An informer is one of client-go too, for code that asserts that: listers and event handlers written
// for client-go's informers work on it. The cache runs it, so few programs call its Run.
var _ toolscache.SharedIndexInformer = &informer{}

var (
	_ optional.SyncWaiter = (*informer)(nil)
	_ optional.KindHolder = (*informer)(nil)

	_ optional.Deliverer        = (*informerCache)(nil)
	_ optional.InformerObserver = (*informerCache)(nil)
)

// errStarted is the error of a setting that comes after the start of an informer.
var errStarted = errors.New("informer has already started")

// Run implements toolscache.SharedInformer.
func (i *informer) Run(stopCh <-chan struct{}) {
	i.RunWithContext(wait.ContextForChannel(stopCh))
}

// RunWithContext implements toolscache.SharedInformer. As the cache runs its informers, it logs that
// and returns, unless the cache is not started yet.
func (i *informer) RunWithContext(ctx context.Context) {
	if !i.run(ctx) {
		i.partitions[0].log().Info("The informer is running already; the cache runs its informers")
	}
}

// GetStore implements toolscache.SharedInformer.
func (i *informer) GetStore() toolscache.Store { return indexer{i} }

// GetIndexer implements toolscache.SharedIndexInformer.
func (i *informer) GetIndexer() toolscache.Indexer { return indexer{i} }

// GetController implements toolscache.SharedInformer. As in client-go, the controller runs nothing.
func (i *informer) GetController() toolscache.Controller { return informerController{i} }

// LastSyncResourceVersion implements toolscache.SharedInformer: the resource version that the watches
// have reached, the lowest one if there are several. It is empty before the first list is complete.
func (i *informer) LastSyncResourceVersion() string {
	versions := make([]uint64, 0, len(i.partitions))
	for _, p := range i.partitions {
		versions = append(versions, p.scope.Version())
	}
	if lowest := slices.Min(versions); lowest > 0 {
		return strconv.FormatUint(lowest, 10)
	}
	return ""
}

// SetWatchErrorHandler implements toolscache.SharedInformer. The handler gets a Reflector that has a
// name and a type only.
func (i *informer) SetWatchErrorHandler(handler toolscache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *toolscache.Reflector, err error) {
		handler(r, err)
	})
}

// SetWatchErrorHandlerWithContext implements toolscache.SharedInformer. It replaces
// Options.DefaultWatchErrorHandler for the kind.
func (i *informer) SetWatchErrorHandlerWithContext(handler toolscache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errStarted
	}
	for _, p := range i.partitions {
		p.onError = handler
	}
	return nil
}

// SetTransform implements toolscache.SharedInformer. It replaces the transform of the cache's options
// for the kind; Options.DefaultTransform says what a transform may do.
func (i *informer) SetTransform(transform toolscache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errStarted
	}
	i.transform.Store(&transform)
	return nil
}

// informerController is an informer as a toolscache.Controller.
type informerController struct{ *informer }

// Run implements toolscache.Controller. It does nothing.
func (informerController) Run(<-chan struct{}) {}

// RunWithContext implements toolscache.Controller. It does nothing.
func (informerController) RunWithContext(context.Context) {}
