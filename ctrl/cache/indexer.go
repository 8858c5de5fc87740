package cache

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache/cacheapi"
	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
)

// errReadOnly is returned by all methods of an indexer that would change it.
var errReadOnly = errors.New("the store of a cache's informer is read-only: the watch changes it")

// indexer is the view of an informer's objects that client-go's listers read. It has what Get and List
// of the cache read, with the writes of this process, but requests nothing from the server: after a
// write with an unknown result, it has the object as it was before.
//
// As in client-go, the objects are shared with all other readers and must not be modified, and typed
// ones have no kind. The slices are the caller's own. Get and List of the cache return objects that the
// caller owns.
type indexer struct{ informer *informer }

var _ toolscache.Indexer = indexer{}

// unnamedIndex is the error for an index that does not exist, in client-go's words.
func unnamedIndex(name string) error { return fmt.Errorf("Index with name %s does not exist", name) }

// shared returns the shared values of objects.
func (x indexer) shared(objs []store.Object) []any {
	values := make([]any, len(objs))
	for n, o := range objs {
		values[n] = x.share(o)
	}
	return values
}

func (x indexer) share(o store.Object) client.Object {
	obj := o.Shared()
	if d := x.informer.mutations; d != nil {
		d.addObject(obj, "a reader of the informer's store")
	}
	return obj
}

// query returns the objects that match a query by existing indexes.
func (x indexer) query(q store.Query) []store.Object {
	objs, _ := x.informer.store.List(q)
	return objs
}

// keyOf returns the key of an object in client-go's form.
func keyOf(o store.Object) string {
	return toolscache.NewObjectName(o.Key().Namespace, o.Key().Name).String()
}

func keysOf(objs []store.Object) []string {
	keys := make([]string, len(objs))
	for n, o := range objs {
		keys[n] = keyOf(o)
	}
	return keys
}

// List implements toolscache.Store.
func (x indexer) List() []any { return x.shared(x.query(store.Query{})) }

// ListKeys implements toolscache.Store.
func (x indexer) ListKeys() []string { return keysOf(x.query(store.Query{})) }

// Get implements toolscache.Store.
func (x indexer) Get(obj any) (item any, exists bool, err error) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, toolscache.KeyError{Obj: obj, Err: err}
	}
	return x.GetByKey(key)
}

// GetByKey implements toolscache.Store.
func (x indexer) GetByKey(key string) (item any, exists bool, err error) {
	namespace, name, err := toolscache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, false, nil //nolint:nilerr // there is no object with such a key
	}
	o, ok := x.informer.store.Get(store.Key{Namespace: namespace, Name: name}, false)
	if !ok {
		return nil, false, nil
	}
	return x.share(o), true, nil
}

// LastStoreSyncResourceVersion implements toolscache.Store.
func (x indexer) LastStoreSyncResourceVersion() string { return x.informer.LastSyncResourceVersion() }

// Add implements toolscache.Store. It returns an error.
func (x indexer) Add(any) error { return errReadOnly }

// Update implements toolscache.Store. It returns an error.
func (x indexer) Update(any) error { return errReadOnly }

// Delete implements toolscache.Store. It returns an error.
func (x indexer) Delete(any) error { return errReadOnly }

// Replace implements toolscache.Store. It returns an error.
func (x indexer) Replace([]any, string) error { return errReadOnly }

// Bookmark implements toolscache.Store. It does nothing: the watch knows its resource version.
func (x indexer) Bookmark(string) {}

// Resync implements toolscache.Store. It does nothing, as in client-go.
func (x indexer) Resync() error { return nil }

// Index implements toolscache.Indexer.
func (x indexer) Index(name string, obj any) ([]any, error) {
	function, ok := x.GetIndexers()[name]
	if !ok {
		return nil, unnamedIndex(name)
	}
	values, err := function(obj)
	if err != nil {
		return nil, err
	}
	if len(values) == 1 {
		return x.ByIndex(name, values[0])
	}
	matches := map[store.Key]store.Object{}
	for _, value := range values {
		for _, o := range x.byIndex(name, value) {
			matches[o.Key()] = o
		}
	}
	return x.shared(slices.Collect(maps.Values(matches))), nil
}

// IndexKeys implements toolscache.Indexer.
func (x indexer) IndexKeys(name, value string) ([]string, error) {
	if !x.informer.hasIndex(name) {
		return nil, unnamedIndex(name)
	}
	return keysOf(x.byIndex(name, value)), nil
}

// ByIndex implements toolscache.Indexer.
func (x indexer) ByIndex(name, value string) ([]any, error) {
	if !x.informer.hasIndex(name) {
		return nil, unnamedIndex(name)
	}
	return x.shared(x.byIndex(name, value)), nil
}

// byIndex returns the objects with a value in an index that exists.
func (x indexer) byIndex(name, value string) []store.Object {
	switch {
	case name != toolscache.NamespaceIndex:
		equal := fields.Requirement{Operator: selection.Equals, Field: name, Value: value}
		return x.query(store.Query{Fields: fields.Requirements{equal}})
	case x.informer.namespaced == (value == ""):
		return nil // no object is there
	default:
		return x.query(store.Query{Namespace: value})
	}
}

// ListIndexFuncValues implements toolscache.Indexer.
func (x indexer) ListIndexFuncValues(name string) []string {
	if name == toolscache.NamespaceIndex {
		return x.informer.store.Namespaces()
	}
	return x.informer.store.IndexValues(name)
}

// GetIndexers implements toolscache.Indexer. The map is the caller's own.
func (x indexer) GetIndexers() toolscache.Indexers {
	x.informer.indexing.Lock()
	defer x.informer.indexing.Unlock()
	all := maps.Clone(x.informer.indexers)
	if all == nil {
		all = toolscache.Indexers{}
	}
	all[toolscache.NamespaceIndex] = toolscache.MetaNamespaceIndexFunc
	return all
}

// AddIndexers implements toolscache.Indexer.
func (x indexer) AddIndexers(indexers toolscache.Indexers) error {
	return x.informer.AddIndexers(indexers)
}

// hasIndex reports whether there is an index.
func (i *informer) hasIndex(name string) bool {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	return name == toolscache.NamespaceIndex || i.indexers[name] != nil
}

// AddIndexers implements Informer. An index is queried by List with a field selector for its name.
// If there is an index by one of the names, none is added.
func (i *informer) AddIndexers(indexers toolscache.Indexers) error {
	if i.ctx.Err() != nil {
		return fmt.Errorf("cannot add an index: the informer of %s has stopped", i.gvk)
	}
	i.indexing.Lock()
	defer i.indexing.Unlock()
	names := slices.Sorted(maps.Keys(indexers))
	for _, name := range names {
		if i.indexers[name] != nil || name == toolscache.NamespaceIndex {
			return fmt.Errorf("indexer conflict: an index by %q exists already", name)
		}
	}
	for _, name := range names {
		if err := i.addIndex(name, indexers[name]); err != nil {
			return err
		}
	}
	return nil
}

// indexField adds an index for IndexField.
func (i *informer) indexField(field string, extractValue cacheapi.IndexerFunc) error {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	return i.addIndex(field, func(obj any) ([]string, error) {
		o, ok := obj.(client.Object)
		if !ok {
			return nil, fmt.Errorf("the index by %q is of objects, not of a %T", field, obj)
		}
		return extractValue(o), nil
	})
}

// inheritIndexes adds the indexes that an informer that was removed, nil for none, has and this one has
// not.
func (i *informer) inheritIndexes(removed *informer) error {
	if removed == nil || removed == i {
		return nil
	}
	removed.indexing.Lock()
	indexers := maps.Clone(removed.indexers)
	removed.indexing.Unlock()
	i.indexing.Lock()
	defer i.indexing.Unlock()
	for name, function := range indexers {
		if i.indexers[name] != nil {
			continue
		}
		if err := i.addIndex(name, function); err != nil {
			return err
		}
	}
	return nil
}

// addIndex adds an index by a function. An object is not in the index if the function cannot compute its
// values. The caller holds indexing.
func (i *informer) addIndex(name string, function toolscache.IndexFunc) error {
	err := i.store.AddIndex(name, func(obj client.Object) []string {
		values, _ := function(obj)
		return values
	})
	if err != nil {
		return err
	}
	if i.indexers == nil {
		i.indexers = toolscache.Indexers{}
	}
	i.indexers[name] = function
	return nil
}
