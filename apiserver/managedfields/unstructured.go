package managedfields

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// unstructuredUpdater compares a new object with an empty one, like the field manager, but without version conversion
// and without the steps that matter only for fields that already have an owner.
type unstructuredUpdater struct {
	updates
	types upstream.TypeConverter
	kind  schema.GroupVersionKind
	empty func() (*typed.TypedValue, error)
	reset *fieldpath.Set // with all below its members
}

// ForUnstructured returns the updater for unstructured objects of a kind. types has the schema of the kind. reset has
// the fields that the strategy resets; it may be nil.
func ForUnstructured(types upstream.TypeConverter, kind schema.GroupVersionKind, reset *fieldpath.Set) Updater {
	if reset == nil {
		reset = fieldpath.NewSet()
	}
	u := &unstructuredUpdater{types: types, kind: kind, reset: reset,
		empty: sync.OnceValues(func() (*typed.TypedValue, error) {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(kind)
			return types.ObjectToTyped(u, typed.AllowDuplicates)
		})}
	u.updates = updates{identity: &identity{}, apiVersion: kind.GroupVersion().String(), filter: fieldpath.NewExcludeSetFilter(reset),
		compare: u.compare, current: u.current}
	return u
}

//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.FieldManager.UpdateNoErrors
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.structuredMergeManager.Update
func (c *unstructuredUpdater) Update(old, obj metav1.Object, w Write) bool {
	if old != nil {
		return c.update(old, obj, w)
	}
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
	entryList{}.set(u, []metav1.ManagedFieldsEntry{w.owner(c.apiVersion, fields)})
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

// compare compares the parts in which two objects differ.
func (c *unstructuredUpdater) compare(old, obj metav1.Object) (*typed.Comparison, error) {
	a, ok := old.(*unstructured.Unstructured)
	b, isToo := obj.(*unstructured.Unstructured)
	if !ok || !isToo {
		return nil, fmt.Errorf("%T and %T are not both unstructured", old, obj)
	}
	x, y := reduceMaps(a.Object, b.Object, []string{"metadata"})
	before, _ := a.Object["metadata"].(map[string]any)
	after, _ := b.Object["metadata"].(map[string]any)
	x["metadata"], y["metadata"] = reduceMaps(before, after, serverMetadata)
	from, err := c.typed(x)
	if err != nil {
		return nil, err
	}
	to, err := c.typed(y)
	if err != nil {
		return nil, err
	}
	return from.Compare(to)
}

func (c *unstructuredUpdater) typed(content map[string]any) (*typed.TypedValue, error) {
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(c.kind)
	return c.types.ObjectToTyped(u, typed.AllowDuplicates)
}

// current implements updates.current.
func (c *unstructuredUpdater) current(set *fieldpath.Set) bool {
	empty, err := c.empty()
	if err != nil {
		return false
	}
	migrated, err := typed.ReconcileFieldSetWithSchema(set, empty)
	return err == nil && migrated == nil
}
