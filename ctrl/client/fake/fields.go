package fake

import (
	"cmp"
	"errors"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	quick "flyball.dev/apiserver/managedfields"
	kindschema "flyball.dev/apiserver/schema"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/fake/internal/converters"
)

// unnamedManager is the manager of writes that name none.
const unnamedManager = "unknown"

// fieldManagers set the managed fields of writes, as the API server does, and apply configurations.
// The lock of the client is held.
type fieldManagers struct {
	newObject func(schema.GroupVersionKind) client.Object
	builtin   bool // the converters are the default ones
	converter managedfields.TypeConverter
	managers  map[managed]*managedfields.FieldManager
}

// managed is what has a field manager: a kind or a subresource of it.
type managed struct {
	gvk         schema.GroupVersionKind
	subresource string
}

// newFieldManagers returns the field managers of a client, with the default converters if there are
// none.
func newFieldManagers(c *fakeClient, chain converters.Chain) *fieldManagers {
	builtin := len(chain) == 0
	if builtin {
		chain = converters.Chain{kindschema.TypeConverter(builtinScheme()), managedfields.NewDeducedTypeConverter()}
	}
	return &fieldManagers{newObject: c.newObject, builtin: builtin, converter: chain,
		managers: map[managed]*managedfields.FieldManager{}}
}

// builtinScheme returns a scheme of client-go's kinds and no others, while programs may add to that
// of client-go.
var builtinScheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err) // unreachable: the kinds are client-go's own
	}
	return scheme
})

// manager returns the field manager of a kind, or of its subresource.
func (f *fieldManagers) manager(m managed) (*managedfields.FieldManager, error) {
	if manager := f.managers[m]; manager != nil {
		return manager, nil
	}
	manager, err := managedfields.NewDefaultFieldManager(f.converter, oneVersion{m.gvk}, noDefaults{},
		creater{f}, m.gvk, m.gvk.GroupVersion(), m.subresource, nil)
	if err != nil {
		return nil, err
	}
	f.managers[m] = manager
	return manager, nil
}

// update returns obj, which replaces old, with its managed fields. old is nil for a creation.
func (f *fieldManagers) update(
	m managed, old, obj client.Object, manager string,
) (client.Object, error) {
	if f.builtin && updateBuiltin(m, old, obj, manager) {
		return obj, nil
	}
	fieldManager, err := f.manager(m)
	if err != nil {
		return nil, err
	}
	if old == nil {
		old = f.empty(m.gvk)
	}
	updated, err := fieldManager.Update(old, obj, cmp.Or(manager, unnamedManager))
	if err != nil {
		return nil, err
	}
	return updated.(client.Object), nil
}

// updaters has the [quick.Updater] of each built-in kind that was written.
var updaters sync.Map // schema.GroupVersionKind → quick.Updater

// updateBuiltin sets the managed fields of an object of a built-in kind as the field manager
// would. It returns false if that has to do it.
func updateBuiltin(m managed, old, obj client.Object, manager string) bool {
	t := builtinScheme().AllKnownTypes()[m.gvk]
	if t == nil || reflect.TypeOf(obj).Elem() != t || old != nil && reflect.TypeOf(old).Elem() != t {
		return false
	}
	updater, ok := updaters.Load(m.gvk)
	if !ok {
		updater, _ = updaters.LoadOrStore(m.gvk, quick.ForType(t, m.gvk.GroupVersion().String(), nil))
	}
	w := quick.Write{Manager: cmp.Or(manager, unnamedManager), Operation: metav1.ManagedFieldsOperationUpdate,
		Subresource: m.subresource}
	if old == nil {
		return updater.(quick.Updater).Update(nil, obj, w)
	}
	if old.GetUID() == "" {
		if len(old.GetManagedFields()) == 0 {
			return false // tracked from now on, as a new object
		}
		old.SetUID("any") // only to say that it exists
		defer old.SetUID("")
	}
	return updater.(quick.Updater).Update(old, obj, w)
}

// apply returns an object with the fields of a configuration and its managed fields. old is nil if
// the configuration describes a new object.
func (f *fieldManagers) apply(
	m managed, old client.Object, config *unstructured.Unstructured, manager string, force bool,
) (runtime.Object, error) {
	fieldManager, err := f.manager(m)
	if err != nil {
		return nil, err
	}
	if old == nil {
		old = f.empty(m.gvk)
	}
	return fieldManager.Apply(old, config, manager, force)
}

// empty returns a new object that has nothing but its kind.
func (f *fieldManagers) empty(gvk schema.GroupVersionKind) client.Object {
	obj := f.newObject(gvk)
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj
}

// creater is a [runtime.ObjectCreater].
type creater struct{ managers *fieldManagers }

func (c creater) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return c.managers.empty(gvk), nil
}

// noDefaults is a [runtime.ObjectDefaulter].
type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}

// oneVersion is the [runtime.ObjectConvertor] of a kind that has no other versions.
type oneVersion struct{ gvk schema.GroupVersionKind }

func (o oneVersion) ConvertToVersion(
	in runtime.Object, target runtime.GroupVersioner,
) (runtime.Object, error) {
	kind, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{o.gvk})
	if !ok || kind != o.gvk {
		return nil, runtime.NewNotRegisteredErrForTarget("fake", nil, target)
	}
	return in, nil
}

func (oneVersion) Convert(any, any, any) error { return errors.ErrUnsupported }

func (oneVersion) ConvertFieldLabel(
	_ schema.GroupVersionKind, label, value string,
) (string, string, error) {
	return label, value, nil
}
