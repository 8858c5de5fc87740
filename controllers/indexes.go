package controllers

import (
	"context"
	"reflect"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
)

// indexingManager is a manager with shared indexes. If several controllers add an index of the same kind and name, there
// is one index. They must add the same function.
type indexingManager struct {
	manager.Manager
	indexes map[index]bool
}

// index identifies an index of the cache.
type index struct {
	kind reflect.Type
	name string
}

func newIndexingManager(mgr manager.Manager) manager.Manager {
	return &indexingManager{mgr, map[index]bool{}}
}

// WrappedManager returns the manager, which may have a console.
func (m *indexingManager) WrappedManager() manager.Manager { return m.Manager }

// GetFieldIndexer returns the manager itself.
func (m *indexingManager) GetFieldIndexer() client.FieldIndexer { return m }

// IndexField adds an index unless it was added before. It is not safe for concurrent use.
func (m *indexingManager) IndexField(ctx context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	i := index{reflect.TypeOf(obj), field}
	if m.indexes[i] {
		return nil
	}
	m.indexes[i] = true
	return m.Manager.GetFieldIndexer().IndexField(ctx, obj, field, values)
}
