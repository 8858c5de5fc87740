package managedfields

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// unstructuredUpdater compares a new object with an empty one as the field manager does, without
// the conversions between versions and without the steps that matter only if a field has an owner
// already.
type unstructuredUpdater struct {
	types      upstream.TypeConverter
	apiVersion string
	empty      func() (*typed.TypedValue, error)
	reset      *fieldpath.Set // with all below its members
}

// ForUnstructured returns the updater for unstructured objects of a kind whose strategy resets some
// fields, none if reset is nil. types has the kind's schema.
func ForUnstructured(types upstream.TypeConverter, kind schema.GroupVersionKind, reset *fieldpath.Set) Updater {
	if reset == nil {
		reset = fieldpath.NewSet()
	}
	return &unstructuredUpdater{types: types, apiVersion: kind.GroupVersion().String(), reset: reset,
		empty: sync.OnceValues(func() (*typed.TypedValue, error) {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(kind)
			return types.ObjectToTyped(u, typed.AllowDuplicates)
		})}
}

// serverFields are the fields that have no manager.
var serverFields = func() *fieldpath.Set {
	set := fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
		fieldpath.MakePathOrDie("metadata"))
	for _, name := range serverMetadata {
		set.Insert(fieldpath.MakePathOrDie("metadata", name))
	}
	return set
}()

func (c *unstructuredUpdater) Update(old, obj metav1.Object, w Write) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || !w.creates(old) {
		return false
	}
	metadata, ok := u.Object["metadata"].(map[string]any)
	if !ok || metadata["managedFields"] != nil {
		return false
	}
	set, err := c.created(u)
	if err != nil {
		return false
	}
	if set.Empty() {
		return true
	}
	fields, err := set.ToJSON()
	if err != nil {
		return false
	}
	setOwner(u, c.apiVersion, w, fields)
	return true
}

// created returns the fields that the creation of u sets.
func (c *unstructuredUpdater) created(u *unstructured.Unstructured) (*fieldpath.Set, error) {
	empty, err := c.empty()
	if err != nil {
		return nil, err
	}
	whole, err := c.types.ObjectToTyped(u, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	difference, err := empty.Compare(whole)
	if err != nil {
		return nil, err
	}
	return difference.Added.Union(difference.Modified).RecursiveDifference(c.reset).Difference(serverFields), nil
}
