package observe

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// Cache is a cache that can be looked at.
type Cache interface {
	// ObservedKinds returns the informers, in no order.
	ObservedKinds() []CachedKind
	// ObservedKind returns the informer that reads of obj use, or nil. It starts none.
	ObservedKind(gvk schema.GroupVersionKind, obj client.Object) CachedKind
}

// FindCache returns the Cache that a reader is, or that a struct embeds which the reader is, or nil.
func FindCache(reader any) Cache {
	for range 8 {
		if c, ok := reader.(Cache); ok {
			return c
		}
		v := reflect.ValueOf(reader)
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return nil
		}
		reader = nil
		for i := range v.NumField() {
			if f := v.Field(i); v.Type().Field(i).Anonymous && f.CanInterface() && f.Kind() == reflect.Interface {
				reader = f.Interface()
			}
		}
	}
	return nil
}

// CachedKind is an informer.
type CachedKind interface {
	// Contact returns when the server last sent anything for a namespace, and whether a watch is open.
	Contact(namespace string) (last time.Time, open bool)
	// State returns the object that a read returns, with its resource version.
	State(key types.NamespacedName) (state State, version string, ok bool)
	// States returns up to limit objects of a namespace, or of all if it is empty, and how many there are.
	States(namespace string, limit int) (states []State, total int)
	// Summary returns the figures.
	Summary() KindSummary
	// IsStopped reports whether the informer has ended.
	IsStopped() bool
}

// KindSummary has the figures of an informer.
type KindSummary struct {
	GVK                        schema.GroupVersionKind
	Form                       string // typed, unstructured or metadata
	Namespaces                 []string
	Objects, Bytes             int
	Synced                     bool
	Watches                    int
	Contact                    time.Time
	Indexes                    []string
	Handlers                   int
	Events, Relists, LiveReads int64
	Failing                    string // the last error while it fails
}
