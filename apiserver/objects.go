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
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
)

// objects gives the admission plugins access to stored objects.
type objects struct {
	server  *Server
	changes []*changes
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
	for _, g := range o.server.catalog.Snapshot().Groups {
		if g.Name != gvk.Group {
			continue
		}
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				if r.Kind == gvk {
					return stored.Kind{Resource: r.GroupVersionResource(), Namespaced: r.Namespaced, TypeConverter: r.TypeConverter}, true
				}
			}
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

// Changed implements [stored.Objects].
func (o *objects) Changed(r schema.GroupResource) func() bool {
	c := &changes{storage: o.server.options.Storage, path: store.Path(r)}
	o.changes = append(o.changes, c)
	return c.any
}

func (o *objects) close() {
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
	closed  bool
}

// any reports whether there may have been a write since the last call.
func (c *changes) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watcher != nil {
		events, _, err := c.watcher.Next()
		if err == nil {
			return len(events) > 0
		}
		c.watcher.Close()
		c.watcher = nil
	}
	if !c.closed {
		c.watcher, _ = c.storage.Watch(context.Background(), c.path, 0) // on an error, the next call returns true again
	}
	return true
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
