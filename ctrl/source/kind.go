package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/optional"
	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// retryInterval is the time between attempts to get an informer. The CRD of the kind may not be
// installed yet.
const retryInterval = 10 * time.Second

// Kind is a source of the events of the objects of obj's kind, from a cache. If the cache cannot
// provide an informer, as while the CRD is missing, it retries until the controller's
// CacheSyncTimeout, unless the kind is not in the scheme.
func Kind[object client.Object](
	cache cache.Cache,
	obj object,
	handler handler.TypedEventHandler[object, reconcile.Request],
	predicates ...predicate.TypedPredicate[object],
) SyncingSource {
	return TypedKind(cache, obj, handler, predicates...)
}

// TypedKind is Kind for requests of any type.
func TypedKind[object client.Object, request comparable](
	cache cache.Cache,
	obj object,
	handler handler.TypedEventHandler[object, request],
	predicates ...predicate.TypedPredicate[object],
) TypedSyncingSource[request] {
	return &kind[object, request]{cache: cache, of: obj, handler: handler, predicates: predicates}
}

// kind is a source of the events of one kind in a cache.
type kind[object client.Object, request comparable] struct {
	cache      cache.Cache
	of         object
	handler    handler.TypedEventHandler[object, request]
	predicates []predicate.TypedPredicate[object]

	// started is closed when the source is in sync or has failed with err; giveUp cancels the
	// attempt.
	started chan struct{}
	err     error
	giveUp  context.CancelFunc
	// failure is why the cache could not provide the informer the last time.
	failure atomic.Pointer[error]
}

// Start implements TypedSource.
func (k *kind[object, request]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	switch {
	case reflectutil.IsNil(k.of):
		return errors.New("must create Kind with a non-nil object")
	case reflectutil.IsNil(k.cache):
		return errors.New("must create Kind with a non-nil cache")
	case reflectutil.IsNil(k.handler):
		return errors.New("must create Kind with non-nil handler")
	case slices.ContainsFunc(k.predicates, isNil[object]):
		return errors.New("must create Kind with non-nil predicates")
	case k.started != nil:
		return fmt.Errorf("%s was started before", k)
	}
	ctx, k.giveUp = context.WithCancel(ctx)
	k.started = make(chan struct{})
	go func() {
		defer close(k.started)
		k.err = k.run(ctx, queue)
	}()
	return nil
}

// run subscribes to the informer, and waits until it has synced and the handler has been called for
// the initial list.
func (k *kind[object, request]) run(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	informer, err := k.informer(ctx)
	if err != nil {
		return err
	}
	d := newDelivery(ctx, queue, informer, k.handler, k.predicates)
	if err := d.subscribe(ctx, informer); err != nil {
		return err
	}
	if !k.waitForInformer(ctx, informer) {
		return errors.New("cache did not sync")
	}
	select {
	case <-d.registration.HasSyncedChecker().Done():
		return nil
	case <-ctx.Done():
		return errors.New("handler did not sync")
	}
}

// waitForInformer waits until the informer has synced. It returns false if ctx is done, or the
// informer has ended, before that. It does not wait for the other informers of the cache, one of
// which may never sync, unless the informer has no WaitForSync method.
func (k *kind[object, request]) waitForInformer(ctx context.Context, informer cache.Informer) bool {
	if i, ok := informer.(optional.SyncWaiter); ok {
		return i.WaitForSync(ctx)
	}
	return k.cache.WaitForCacheSync(ctx)
}

// informer gets the informer, and retries until ctx is done. A kind that is not in the scheme is an
// error at once. A cache that has stopped is no error to log: the manager stops then.
func (k *kind[object, request]) informer(ctx context.Context) (cache.Informer, error) {
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	for {
		// Blocking until synced would delay the handler until then.
		informer, err := k.cache.GetInformer(ctx, k.of, cache.BlockUntilSynced(false))
		if err == nil {
			return informer, nil
		}
		if runtime.IsNotRegisteredError(err) {
			return nil, fmt.Errorf("%s: %s: %w", k, informerErrorMessage(err), err)
		}
		if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			log.Current().WithName("source").Error(err, informerErrorMessage(err))
		}
		k.failure.Store(&err)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("failed to get informer from cache: %w", err)
		case <-retry.C:
		}
	}
}

// informerErrorMessage says what to do about an error of GetInformer.
func informerErrorMessage(err error) string {
	var noMatch *meta.NoKindMatchError
	switch {
	case errors.As(err, &noMatch):
		return fmt.Sprintf("if kind %s is a CRD, it should be installed before calling Start", noMatch.GroupKind)
	case runtime.IsNotRegisteredError(err):
		return "kind must be registered to the Scheme"
	default:
		return "failed to get informer from cache"
	}
}

// WaitForSync implements TypedSyncingSource.
func (k *kind[object, request]) WaitForSync(ctx context.Context) error {
	select {
	case <-k.started:
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil
		}
		return k.err
	case <-ctx.Done():
		k.giveUp()
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil
		}
		if err := k.failure.Load(); err != nil {
			return fmt.Errorf("timed out waiting for cache to be synced for %s: %s: %w", k, informerErrorMessage(*err), *err)
		}
		return fmt.Errorf("timed out waiting for cache to be synced for %s", k)
	}
}

// String names the source in logs.
func (k *kind[object, request]) String() string {
	if reflectutil.IsNil(k.of) {
		return "kind source: unknown type"
	}
	switch obj := any(k.of).(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		apiVersion, kind := obj.(client.Object).GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		return fmt.Sprintf("kind source: %T[%s %s]", obj, apiVersion, kind)
	default:
		return fmt.Sprintf("kind source: %T", obj)
	}
}
