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
	return (&namespaces{s.options.Storage, store.Transformer(s.options.Transformers, corev1.Resource("namespaces"))}).require
}

// namespaces checks the namespaces of new objects: when an object is written, its namespace must exist and must not be
// terminating. The plugin NamespaceLifecycle checks the same earlier. A webhook may answer much later, and by then the
// namespace controller may have found the namespace empty and removed it.
type namespaces struct {
	storage     storage.Store
	transformer value.Transformer
}

// require is a [store.Requirement]: the namespace must not change until the object is written.
func (n *namespaces) require(ctx context.Context, resource schema.GroupResource, namespace, name string) ([]storage.Condition, error) {
	if namespace == "" {
		return nil, nil
	}
	key := store.Key(corev1.Resource("namespaces"), "", namespace)
	record, err := n.storage.Get(ctx, key)
	switch {
	case stderrors.Is(err, storage.ErrNotFound):
		return nil, errors.NewNotFound(corev1.Resource("namespaces"), namespace)
	case err != nil:
		return nil, err
	}
	terminating, err := n.terminating(ctx, record)
	switch {
	case err != nil:
		return nil, err
	case terminating:
		return nil, admission.NamespaceTerminating(namespace, func(err error) error {
			return errors.NewForbidden(resource, name, err)
		})
	}
	return []storage.Condition{{Key: key, If: record.Revision}}, nil
}

// terminating reports whether a namespace is terminating. The result is cached with the record.
func (n *namespaces) terminating(ctx context.Context, r *storage.Record) (bool, error) {
	if cached, ok := r.Cached(n).(bool); ok {
		return cached, nil
	}
	data, _, err := store.Unseal(ctx, n.transformer, r)
	if err != nil {
		return false, err
	}
	ns := &corev1.Namespace{}
	if err := runtime.DecodeInto(builtin.StorageCodec(corev1.Resource("namespaces")), data, ns); err != nil {
		return false, err
	}
	return r.SetCached(n, admission.IsTerminating(ns)).(bool), nil
}
