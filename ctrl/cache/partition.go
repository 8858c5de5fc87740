package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache/internal/reflector"
	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/representation"
	"flyball.dev/ctrl/log"
	"flyball.dev/internal/inprocess"
)

// partition is the share of an informer that one list and watch covers: one namespace, or all
// namespaces without a partition of their own. It stores the objects that a reflector passes to it
// and notifies the informer's listeners. It implements reflector.Sink.
type partition struct {
	informer      *informer
	namespace     string
	config        Config
	scope         *store.Scope
	listerWatcher *listerWatcher
	onError       toolscache.WatchErrorHandlerWithContext
	status        watchStatus

	// transformLock is shared by all partitions of the kind, in all representations.
	transformLock transformLock
	liveReads     liveReads

	// source runs the reflector or the custom informer until a context is done.
	source interface{ Run(context.Context) }

	// arrivals wakes the goroutines that wait for the watch.
	arrivals arrivals

	// synced is set once a list is complete, missing while the server is known not to have the kind.
	synced, missing bool
}

// newPartition returns a partition of an informer that is not running yet.
func (c *informerCache) newPartition(i *informer, namespace string, config Config) (*partition, error) {
	lw, err := c.server.newListerWatcher(i.gvk, i.resource, i.representation, namespace, config)
	if err != nil {
		return nil, err
	}
	p := &partition{
		informer:      i,
		namespace:     namespace,
		config:        config,
		scope:         i.store.Scope(namespace),
		listerWatcher: lw,
		onError:       c.opts.DefaultWatchErrorHandler,
		transformLock: c.transformLock(i.gvk),
	}
	if c.opts.NewInformer != nil {
		p.source = c.newCustomInformer(p, lw)
		return p, nil
	}
	p.source = &reflector.Reflector{
		Source:    instrumentedSource{lw, &p.status},
		Sink:      p,
		Bookmarks: config.EnableWatchBookmarks == nil || *config.EnableWatchBookmarks,
		InProcess: inprocess.Serves(c.server.config),
		OnError:   p.failed,
	}
	return p, nil
}

// Begin implements reflector.Sink.
func (p *partition) Begin() {
	p.status.received(false)
	if p.synced {
		p.informer.stats.relists.Add(1)
	}
	p.scope.Begin()
}

// Listed implements reflector.Sink.
func (p *partition) Listed(obj client.Object) {
	p.status.received(false)
	p.apply(obj, p.scope.Listed)
}

// Changed implements reflector.Sink.
func (p *partition) Changed(obj client.Object) {
	p.eventReceived()
	p.apply(obj, p.scope.Changed)
}

// Deleted implements reflector.Sink.
func (p *partition) Deleted(obj client.Object) {
	p.eventReceived()
	p.apply(obj, p.scope.Deleted)
}

// eventReceived records that the watch delivered a change.
func (p *partition) eventReceived() {
	p.status.received(true)
	p.informer.stats.events.Add(1)
}

// apply prepares an object, stores it and notifies the listeners.
func (p *partition) apply(obj client.Object, put func(client.Object) store.Change) {
	obj, err := p.prepare(p.informer.ctx, obj, 0)
	if err != nil {
		if p.informer.ctx.Err() == nil {
			p.log().Error(err, "Could not prepare an object; it is not cached")
		}
		return
	}
	defer p.arrivals.signal()
	p.informer.mu.Lock()
	defer p.informer.mu.Unlock()
	p.informer.distribute(put(obj))
}

// Progress implements reflector.Sink.
func (p *partition) Progress(version string) {
	p.status.received(true)
	p.scope.Progress(version)
	p.arrivals.signal()
}

// Complete implements reflector.Sink.
func (p *partition) Complete(version string) {
	defer p.arrivals.signal()
	p.status.received(true)
	i := p.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, obj := range p.scope.Complete(version) {
		i.deleted(obj)
		for _, l := range i.listeners {
			l.NotifyDelete(obj, true)
		}
	}
	if !p.synced {
		p.synced = true
		i.partitionSynced()
	}
	p.missing = false
}

// prepare prepares an object for the store: it sets its kind, which items of lists lack, and
// transforms it. The kind of typed objects is cleared, as in the objects that a client returns, so
// that the object of an event equals the one that was written. The timeout is how long to wait for
// the lock of the transform; zero means until ctx is done.
func (p *partition) prepare(ctx context.Context, obj client.Object, timeout time.Duration) (client.Object, error) {
	if p.informer.representation == representation.Typed {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	} else {
		obj.GetObjectKind().SetGroupVersionKind(p.informer.gvk)
	}
	transform := p.config.Transform
	if set := p.informer.transform.Load(); set != nil {
		transform = *set
	}
	if transform == nil {
		return obj, nil
	}
	key := client.ObjectKeyFromObject(obj)
	transformed, err := p.transform(ctx, transform, obj, timeout)
	if err != nil {
		return nil, fmt.Errorf("the transform of %s %s failed: %w", p.informer.gvk.Kind, key, err)
	}
	obj, ok := transformed.(client.Object)
	if !ok || representation.Of(obj) != p.informer.representation || client.ObjectKeyFromObject(obj) != key {
		return nil, fmt.Errorf("the transform of %s %s returned a %T, want the same object",
			p.informer.gvk.Kind, key, transformed)
	}
	return obj, nil
}

// recordError records an error of a list or watch in the status and in the stats.
func (p *partition) recordError(err error) {
	p.status.failed(err)
	p.informer.stats.error(err)
}

// failed reports an error of a list or watch before the reflector backs off.
func (p *partition) failed(ctx context.Context, err error) {
	p.recordError(err)
	if p.onError != nil {
		// The handler gets a reflector that has a name and a type only.
		named := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{}, nil, nil,
			toolscache.ReflectorOptions{Name: "flyball", TypeDescription: p.informer.gvk.String()})
		p.onError(ctx, named, err)
		return
	}
	_, short := errors.AsType[*toolscache.VeryShortWatchError](err)
	switch {
	case short: // as when a server stops; client-go does not take it for an error either
		p.log().V(1).Info("The watch ended early; retrying", "reason", err.Error())
	case !apierrors.IsNotFound(err):
		p.log().Error(err, "Failed to watch; retrying")
	case !p.missing:
		p.missing = true
		p.log().Info("The server does not have the kind; retrying")
	}
}

func (p *partition) log() logr.Logger {
	return log.Current().WithName("cache").WithValues("kind", p.informer.gvk, "namespace", p.namespace)
}
