package apiserver

import (
	"context"
	stderrors "errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
)

// requirement returns the Requirement for the creation of objects, or nil if the plugin NamespaceLifecycle is disabled.
func (s *Server) requirement() store.Requirement {
	if slices.Contains(s.options.Admission.Disable, admission.NamespaceLifecycle) {
		return nil
	}
	resource := corev1.Resource("namespaces")
	return (&namespaces{s.options.Storage, store.Path(resource), store.Transformer(s.options.Transformers, resource)}).require
}

// namespaces checks the namespaces of new objects: when an object is written, its namespace must exist and must not be
// terminating. The plugin NamespaceLifecycle checks the same earlier. A webhook may answer much later, and by then the
// namespace controller may have found the namespace empty and removed it.
type namespaces struct {
	storage     storage.Store
	path        string // of the namespaces' keys
	transformer value.Transformer
}

// require is a [store.Requirement]: the namespace must not change until the object is written.
func (n *namespaces) require(ctx context.Context, resource schema.GroupResource, namespace, name string) ([]storage.Condition, error) {
	if namespace == "" {
		return nil, nil
	}
	key := n.path + namespace
	record, err := n.storage.Get(ctx, key)
	switch {
	case stderrors.Is(err, storage.ErrNotFound):
		return nil, errors.NewNotFound(corev1.Resource("namespaces"), namespace)
	case err != nil:
		return nil, err
	}
	state, err := n.state(ctx, record)
	switch {
	case err != nil:
		return nil, err
	case state.terminating:
		return nil, admission.NamespaceTerminating(namespace, func(err error) error {
			return errors.NewForbidden(resource, name, err)
		})
	}
	return state.unchanged, nil
}

// namespaceState is the state of a namespace in a record.
type namespaceState struct {
	terminating bool
	unchanged   []storage.Condition // that the record is the latest
}

// state returns the state of a namespace. It is cached with the record.
func (n *namespaces) state(ctx context.Context, r *storage.Record) (*namespaceState, error) {
	if cached, ok := r.Cached(n).(*namespaceState); ok {
		return cached, nil
	}
	data, _, err := store.Unseal(ctx, n.transformer, r)
	if err != nil {
		return nil, err
	}
	ns := &corev1.Namespace{}
	if err := runtime.DecodeInto(builtin.StorageCodec(corev1.Resource("namespaces")), data, ns); err != nil {
		return nil, err
	}
	return r.SetCached(n, &namespaceState{admission.IsTerminating(ns), []storage.Condition{{Key: r.Key, If: r.Revision}}}).(*namespaceState), nil
}
