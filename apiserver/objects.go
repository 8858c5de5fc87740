package apiserver

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/admission/stored"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/store"
	"flyball.dev/apiserver/webhook"
	"flyball.dev/storage"
)

// objects gives authenticators, authorizers and admission plugins access to stored objects.
type objects struct {
	server *Server

	mu      sync.Mutex // costly plugins are made by the requests that need them
	changes []*changes
	closed  bool
}

// Storage implements [stored.Objects].
func (o *objects) Storage(gvr schema.GroupVersionResource) rest.Storage {
	r, ok := o.server.catalog.Snapshot().Lookup(gvr)
	if !ok {
		return nil
	}
	return r.Storage
}

// Status implements [stored.Objects].
func (o *objects) Status(gvr schema.GroupVersionResource) rest.Storage {
	r, ok := o.server.catalog.Snapshot().Lookup(gvr)
	if !ok {
		return nil
	}
	status := r.Subresource("status")
	if status == nil {
		return nil
	}
	return status.Storage
}

// Kind implements [stored.Objects].
func (o *objects) Kind(gvk schema.GroupVersionKind) (stored.Kind, bool) {
	for r := range o.server.catalog.Snapshot().Group(gvk.Group) {
		if r.Kind == gvk {
			return stored.Kind{Resource: r.GroupVersionResource(), Namespaced: r.Namespaced, TypeConverter: r.TypeConverter}, true
		}
	}
	return stored.Kind{}, false
}

// namespace returns a namespace. The caller must not change it.
func (o *objects) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespaces, ok := o.Storage(corev1.SchemeGroupVersion.WithResource("namespaces")).(rest.Getter)
	if !ok {
		return nil, errors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	obj, err := namespaces.Get(request.WithNamespace(ctx, metav1.NamespaceNone), name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Namespace), nil
}

// connections returns what leads from the server to nodes and pods.
func (s *Server) connections() *core.Connections {
	return &core.Connections{
		Kubelet:        s.options.Kubelet,
		EndpointSlices: webhook.Services{Storage: s.objects.Storage}.EndpointSlices,
		Node: func(ctx context.Context, name string) (*corev1.Node, error) {
			return storedObject[*corev1.Node](ctx, s.objects, corev1.SchemeGroupVersion.WithResource("nodes"), metav1.NamespaceNone, name)
		},
		Pod: func(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
			return storedObject[*corev1.Pod](ctx, s.objects, corev1.SchemeGroupVersion.WithResource("pods"), namespace, name)
		},
	}
}

// storedObject returns an object. The caller must not change it.
func storedObject[T any](ctx context.Context, o *objects, gvr schema.GroupVersionResource, namespace, name string) (none T, err error) {
	getter, ok := o.Storage(gvr).(rest.Getter)
	if !ok {
		return none, errors.NewNotFound(gvr.GroupResource(), name)
	}
	obj, err := getter.Get(request.WithNamespace(ctx, namespace), name, &metav1.GetOptions{})
	if err != nil {
		return none, err
	}
	return obj.(T), nil
}

// Changed implements [stored.Objects].
func (o *objects) Changed(r schema.GroupResource) func() bool {
	changed, _ := o.Observe(r)
	return changed
}

// Observe implements [rbac.Objects].
func (o *objects) Observe(r schema.GroupResource) (changed, unchanged func() bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := &changes{storage: o.server.options.Storage, path: store.Path(r), closed: o.closed}
	o.changes = append(o.changes, c)
	return c.any, c.none
}

// close ends the watches of all functions that Changed has returned.
func (o *objects) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, c := range o.changes {
		c.close()
	}
}

// changes reports whether anything below a path was written. Each call drains a watcher, so changes needs no goroutine
// and is never stale.
type changes struct {
	storage storage.Store
	path    string

	mu      sync.Mutex
	watcher storage.Watcher
	drained bool // the watcher has no events until it is ready again
	closed  bool
}

// any reports whether there may have been a write since the last call. Without a write, it does not lock the storage.
func (c *changes) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watcher != nil {
		if c.drained && !isReady(c.watcher) {
			return false
		}
		events, _, err := c.watcher.Next()
		if err == nil {
			c.drained = len(events) == 0
			return !c.drained
		}
		c.watcher.Close()
		c.watcher = nil
	}
	c.drained = false
	if !c.closed {
		c.watcher, _ = c.storage.Watch(context.Background(), c.path, 0) // on an error, the next call returns true again
	}
	return true
}

// none reports whether there was no write since the last call of any, as far as the watcher knows without being read.
func (c *changes) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watcher != nil && c.drained && isReady(c.watcher) {
		c.drained = false
	}
	return c.watcher != nil && c.drained
}

// isReady reports whether a watcher has become ready. The next call returns false, until the watcher is ready again.
func isReady(w storage.Watcher) bool {
	select {
	case <-w.Ready():
		return true
	default:
		return false
	}
}

func (c *changes) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.watcher != nil {
		c.watcher.Close()
		c.watcher = nil
	}
}
