package fake

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
)

// AddIndex adds an index to a fake client, or to the one that an interceptor wraps, as
// [ClientBuilder.WithIndex] does. It returns an error if the kind is not registered or has an index
// of that name, and panics if the client is no fake one.
func AddIndex(
	c client.Client, obj runtime.Object, field string, extractValue client.IndexerFunc,
) error {
	for {
		if f, ok := c.(interface{ indexer() *indexes }); ok {
			gvk, err := apiutil.GVKForObject(obj, c.Scheme())
			if err != nil {
				return fmt.Errorf("failed to get the kind of %T: %w", obj, err)
			}
			return f.indexer().add(gvk, field, extractValue)
		}
		wrapper, ok := c.(interface{ Unwrap() client.WithWatch })
		if !ok {
			panic("AddIndex can only be used with a fake client")
		}
		c = wrapper.Unwrap()
	}
}

// indexes are functions by kind and name. The zero value has none. They are safe for concurrent
// use.
type indexes struct {
	mu     sync.RWMutex
	byKind map[schema.GroupVersionKind]map[string]client.IndexerFunc
}

// add adds an index. The error is that there is one of that name.
func (x *indexes) add(gvk schema.GroupVersionKind, field string, f client.IndexerFunc) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.byKind[gvk][field]; ok {
		return fmt.Errorf("indexer conflict: field %s of %s is already indexed", field, gvk)
	}
	if x.byKind == nil {
		x.byKind = map[schema.GroupVersionKind]map[string]client.IndexerFunc{}
	}
	if x.byKind[gvk] == nil {
		x.byKind[gvk] = map[string]client.IndexerFunc{}
	}
	x.byKind[gvk][field] = f
	return nil
}

// selector returns a function that reports whether an object has the values that a field selector
// requires. Fields in builtin need no index.
func (x *indexes) selector(gvk schema.GroupVersionKind, s fields.Selector,
	builtin map[string]client.IndexerFunc) (func(client.Object) bool, error) {
	if s == nil || s.Empty() {
		return func(client.Object) bool { return true }, nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	requirements := s.Requirements()
	if len(requirements) == 0 {
		return func(client.Object) bool { return false }, nil
	}
	functions := make([]client.IndexerFunc, len(requirements))
	for i, r := range requirements {
		if r.Operator != selection.Equals && r.Operator != selection.DoubleEquals {
			return nil, fmt.Errorf("the field selector %s requires more than exact matches", s)
		}
		if functions[i] = x.byKind[gvk][r.Field]; functions[i] == nil {
			functions[i] = builtin[r.Field]
		}
		if functions[i] == nil {
			return nil, fmt.Errorf("the selector of %s has the field %s, but "+
				"no index with name %s has been registered for it", gvk, r.Field, r.Field)
		}
	}
	return func(obj client.Object) bool {
		for i, r := range requirements {
			if !slices.Contains(functions[i](obj), r.Value) {
				return false
			}
		}
		return true
	}, nil
}

// covers reports whether there are indexes for all fields of a selector.
func (x *indexes) covers(gvk schema.GroupVersionKind, s fields.Selector) bool {
	if s == nil || s.Empty() {
		return false
	}
	_, err := x.selector(gvk, s, nil)
	return err == nil
}

// metadataFields are the fields of every object that a watch can be selected by.
var metadataFields = map[string]client.IndexerFunc{
	"metadata.name":      func(obj client.Object) []string { return []string{obj.GetName()} },
	"metadata.namespace": func(obj client.Object) []string { return []string{obj.GetNamespace()} },
}
