package cache

import (
	"context"
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
)

// part is what an informer holds of one namespace, or of all: it takes what a
// reflector learns, stores it and notifies the listeners. It implements reflector.Sink.
type part struct {
	informer  *informer
	namespace string
	config    Config
	scope     *store.Scope
	remote    *remote
	onError   toolscache.WatchErrorHandlerWithContext
	contact   contact

	// transforming is shared by all parts of the kind, in all forms.
	transforming transformLock
	liveReads    liveReads

	// source fills the part until a context is done.
	source interface{ Run(context.Context) }

	// synced and missing are whether a list was ever complete, and whether the
	// server is known not to have the kind.
	synced, missing bool
}

func (c *informerCache) newPart(i *informer, namespace string, config Config) (*part, error) {
	r, err := c.server.remote(i.gvk, i.resource, i.representation, namespace, config)
	if err != nil {
		return nil, err
	}
	p := &part{
		informer:     i,
		namespace:    namespace,
		config:       config,
		scope:        i.store.Scope(namespace),
		remote:       r,
		onError:      c.opts.DefaultWatchErrorHandler,
		transforming: c.transformLock(i.gvk),
	}
	if c.opts.NewInformer != nil {
		p.source = c.foreign(p, r)
		return p, nil
	}
	p.source = &reflector.Reflector{
		Source:    noticed{r, &p.contact},
		Sink:      p,
		Bookmarks: config.EnableWatchBookmarks == nil || *config.EnableWatchBookmarks,
		OnError:   p.failed,
	}
	return p, nil
}

// Begin implements reflector.Sink.
func (p *part) Begin() {
	p.contact.heard(false)
	if p.synced {
		p.informer.tally.relists.Add(1)
	}
	p.scope.Begin()
}

// Listed implements reflector.Sink.
func (p *part) Listed(obj client.Object) {
	p.contact.heard(false)
	p.apply(obj, p.scope.Listed)
}

// Changed implements reflector.Sink.
func (p *part) Changed(obj client.Object) {
	p.told()
	p.apply(obj, p.scope.Changed)
}

// Idle implements reflector.Sink.
func (p *part) Idle() { p.scope.Idle() }

// Deleted implements reflector.Sink.
func (p *part) Deleted(obj client.Object) {
	p.told()
	p.apply(obj, p.scope.Deleted)
}

// told notes that the watch told of something.
func (p *part) told() {
	p.contact.heard(true)
	p.informer.tally.events.Add(1)
}

// apply prepares an object, stores it and notifies the listeners.
func (p *part) apply(obj client.Object, put func(client.Object) store.Change) {
	obj, err := p.prepare(p.informer.ctx, obj, 0)
	if err != nil {
		if p.informer.ctx.Err() == nil {
			p.log().Error(err, "an object was left out of the cache")
		}
		return
	}
	p.informer.mu.Lock()
	defer p.informer.mu.Unlock()
	p.informer.distribute(put(obj))
}

// Progress implements reflector.Sink.
func (p *part) Progress(version string) {
	p.contact.heard(true)
	p.scope.Progress(version)
}

// Complete implements reflector.Sink.
func (p *part) Complete(version string) {
	p.contact.heard(true)
	i := p.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, obj := range p.scope.Complete(version) {
		for _, l := range i.listeners {
			l.NotifyDelete(obj, true)
		}
	}
	if !p.synced {
		p.synced = true
		i.partSynced()
	}
	p.missing = false
}

// prepare makes an object ready for the store: it sets its kind, which items of lists
// lack, and transforms it. The kind of typed objects is empty, as in what a client
// returns, so that the object of an event equals the one that was written. The timeout
// is how long it waits for the lock of the transform; zero means until ctx is done.
func (p *part) prepare(ctx context.Context, obj client.Object, timeout time.Duration) (client.Object, error) {
	if p.informer.representation == representation.Typed {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	} else {
		obj.GetObjectKind().SetGroupVersionKind(p.informer.gvk)
	}
	if p.config.Transform == nil {
		return obj, nil
	}
	key := client.ObjectKeyFromObject(obj)
	transformed, err := p.transform(ctx, obj, timeout)
	if err != nil {
		return nil, fmt.Errorf("the transform of %s %s failed: %w", p.informer.gvk.Kind, key, err)
	}
	obj, ok := transformed.(client.Object)
	if !ok || representation.Of(obj) != p.informer.representation || client.ObjectKeyFromObject(obj) != key {
		return nil, fmt.Errorf("the transform of %s %s returned a %T that is not that object", p.informer.gvk.Kind, key, transformed)
	}
	return obj, nil
}

func (p *part) noteError(err error) {
	p.contact.failed(err)
	p.informer.tally.error(err)
}

// failed is told of errors before the reflector tries again.
func (p *part) failed(ctx context.Context, err error) {
	p.noteError(err)
	if p.onError != nil {
		card := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{}, nil, nil,
			toolscache.ReflectorOptions{Name: "flyball", TypeDescription: p.informer.gvk.String()})
		p.onError(ctx, card, err)
		return
	}
	switch {
	case !apierrors.IsNotFound(err):
		p.log().Error(err, "cannot list or watch; trying again")
	case !p.missing:
		p.missing = true
		p.log().Info("the server does not have the kind; waiting for it")
	}
}

func (p *part) log() logr.Logger {
	return log.Log.WithName("cache").WithValues("kind", p.informer.gvk, "namespace", p.namespace)
}
