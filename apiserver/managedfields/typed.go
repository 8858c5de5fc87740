package managedfields

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"flyball.dev/apiserver/schema"
)

// typedUpdater finds the fields of a new typed object in one walk, without comparing it with an empty object.
type typedUpdater struct {
	updates
	typ  reflect.Type
	skip []string          // top-level fields that have no manager
	root func() *mergeType // the fields that have; nil if the type is not supported
}

// ForType returns the updater for objects of a Go type in an API version. reset has the fields that the strategy
// resets; it may be nil. The updater leaves all objects to the field manager if any part of the type has no schema, or if
// reset has other members than fields. It leaves creations and applies to the field manager if reset has fields below the top
// level.
// It analyzes the type with the first object.
func ForType(t reflect.Type, apiVersion string, reset *fieldpath.Set) Updater {
	u := &typedUpdater{typ: t, root: func() *mergeType { return nil }}
	u.updates = updates{identity: &identity{}, apiVersion: apiVersion, compare: u.compare, current: u.current}
	skip, ok := topLevel(reset)
	if !ok {
		return u
	}
	if reset != nil && !reset.Children.Empty() {
		u.filter = fieldpath.NewExcludeSetFilter(reset)
	}
	skip = append(skip, "apiVersion", "kind")
	u.skip = skip
	u.root = sync.OnceValue(func() *mergeType {
		whole := mergeTypeOf(t)
		if whole == nil {
			return nil
		}
		owned := withoutFields(whole, skip)
		for i, f := range owned.fields {
			if f.JsonName == "metadata" {
				metadata := *f
				metadata.typ = withoutFields(f.typ, serverMetadata)
				owned.fields[i] = &metadata
			}
		}
		return owned
	})
	return u
}

// topLevel returns the names of the fields in a set, without the fields below them. ok is false if one is no field.
func topLevel(set *fieldpath.Set) (names []string, ok bool) {
	if set == nil {
		return nil, true
	}
	for pe := range set.Members.All() {
		if pe.FieldName == nil {
			return nil, false
		}
		names = append(names, *pe.FieldName)
	}
	return names, true
}

// withoutFields returns a copy of a struct's merge type without some of its fields.
func withoutFields(m *mergeType, names []string) *mergeType {
	c := *m
	c.fields = slices.DeleteFunc(slices.Clone(m.fields), func(f *structField) bool {
		return slices.Contains(names, f.JsonName)
	})
	return &c
}

// Update implements [Updater]. It returns false for objects that the walk does not support, such as a list with two
// elements of the same key, or a key that needs escaping.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.FieldManager.UpdateNoErrors
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.structuredMergeManager.Update
func (u *typedUpdater) Update(old, obj metav1.Object, w Write) bool {
	if old != nil {
		return u.root() != nil && u.update(old, obj, w)
	}
	if !w.creates(old) || obj.GetManagedFields() != nil || u.filter != nil {
		return false
	}
	fields, ok := u.created(obj)
	if fields != nil {
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{w.owner(u.apiVersion, fields)})
	}
	return ok
}

// compare compares the managed fields of two objects. It uses the field manager's schema if comparer does not support
// the difference.
func (u *typedUpdater) compare(old, obj metav1.Object) (*typed.Comparison, error) {
	x, y := reflect.ValueOf(old), reflect.ValueOf(obj)
	if t := reflect.PointerTo(u.typ); x.Type() == t && y.Type() == t {
		if difference, ok := compareValues(u.root(), x.Elem(), y.Elem()); ok {
			return difference, nil
		}
	}
	return u.compareBySchema(old, obj)
}

// compareBySchema compares two objects by the schema of their type.
func (u *typedUpdater) compareBySchema(old, obj metav1.Object) (*typed.Comparison, error) {
	a, err := u.managed(old)
	if err != nil {
		return nil, err
	}
	b, err := u.managed(obj)
	if err != nil {
		return nil, err
	}
	u.root().reduce(a.Elem(), b.Elem())
	schema := schema.Mergeable(u.typ)
	x, err := schema.FromStructured(a.Interface(), typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	y, err := schema.FromStructured(b.Interface(), typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	return x.Compare(y)
}

// managed returns a pointer to a shallow copy of obj without the unmanaged fields.
func (u *typedUpdater) managed(obj metav1.Object) (reflect.Value, error) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != u.typ {
		return reflect.Value{}, fmt.Errorf("%T is no %s", obj, u.typ)
	}
	c := reflect.New(u.typ)
	c.Elem().Set(v.Elem())
	whole := mergeTypeOf(u.typ)
	for _, f := range whole.fields {
		switch {
		case slices.Contains(u.skip, f.JsonName):
			f.GetFrom(c.Elem()).SetZero()
		case f.JsonName == "metadata":
			metadata := f.GetFrom(c.Elem())
			for _, inner := range f.typ.fields {
				if slices.Contains(serverMetadata, inner.JsonName) {
					inner.GetFrom(metadata).SetZero()
				}
			}
		}
	}
	return c, nil
}

// current implements updates.current.
func (u *typedUpdater) current(set *fieldpath.Set) bool {
	return isCurrent(set, schema.Mergeable(u.typ))
}

// isCurrent reports whether a set fits a schema. It needs no object.
func isCurrent(set *fieldpath.Set, of *typed.ParseableType) bool {
	empty, err := typed.AsTyped(value.NewValueInterface(map[string]any{}), of.Schema, of.TypeRef)
	if err != nil {
		return false
	}
	migrated, err := typed.ReconcileFieldSetWithSchema(set, empty)
	return err == nil && migrated == nil
}

// created returns the fields that the creation of obj sets, or nil if there are none. It returns false if the walk does
// not support obj.
func (u *typedUpdater) created(obj metav1.Object) ([]byte, bool) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != u.typ {
		return nil, false
	}
	root := u.root()
	if root == nil {
		return nil, false
	}
	w := writer{out: make([]byte, 0, 1024)}
	w.out = append(w.out, '{')
	w.changed(root, v.Elem())
	if w.failed {
		return nil, false
	}
	if len(w.out) == 1 {
		return nil, true
	}
	return append(w.out, '}'), true
}
