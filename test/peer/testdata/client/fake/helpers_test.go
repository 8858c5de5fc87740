package fake_test

//lint:file-ignore U1000 controller-runtime's tests use these names

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"flyball.dev/ctrl/client/fake/internal/converters"
)

const (
	trackerAddResourceVersion = "999"
	maxNameLength             = 63
	subResourceScale          = "scale"
)

// multiTypeConverter is the chain of converters of a client.
type multiTypeConverter struct{ upstream []managedfields.TypeConverter }

func (m multiTypeConverter) ObjectToTyped(obj runtime.Object, o ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return converters.Chain(m.upstream).ObjectToTyped(obj, o...)
}

func (m multiTypeConverter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	return converters.Chain(m.upstream).TypedToObject(v)
}
