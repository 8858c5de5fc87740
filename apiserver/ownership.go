package apiserver

import (
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	kindschema "flyball.dev/apiserver/schema"
)

// creations are the walks that find the fields of new objects, by Go type. They depend on nothing but
// the type, and are shared by all servers in the process.
var creations sync.Map // of func() *kindschema.Creation

// ownership finds out about a kind only when the first object of it is created.
func ownership(kind reflect.Type, reset *fieldpath.Set) func(metav1.Object, string, string) bool {
	find, _ := creations.LoadOrStore(kind, sync.OnceValue(func() *kindschema.Creation {
		return kindschema.NewCreation(kind, reset)
	}))
	return func(obj metav1.Object, apiVersion, manager string) bool {
		c := find.(func() *kindschema.Creation)()
		return c != nil && c.Own(obj, apiVersion, manager)
	}
}
