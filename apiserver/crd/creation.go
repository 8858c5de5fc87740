package crd

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// creation knows which fields belong to the one who creates a resource of one version. It compares the
// resource with an empty one as the general field manager does, and leaves out what matters only where
// others own fields already.
type creation struct {
	types managedfields.TypeConverter
	empty func() (*typed.TypedValue, error)
	reset *fieldpath.Set // with all that is in them
}

func newCreation(types managedfields.TypeConverter, kind schema.GroupVersionKind, reset *fieldpath.Set) *creation {
	if reset == nil {
		reset = fieldpath.NewSet()
	}
	return &creation{types: types, reset: reset, empty: sync.OnceValues(func() (*typed.TypedValue, error) {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		return types.ObjectToTyped(u, typed.AllowDuplicates)
	})}
}

// serverFields have no owner.
var serverFields = func() *fieldpath.Set {
	paths := []fieldpath.Path{fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"), fieldpath.MakePathOrDie("metadata")}
	for _, name := range []string{"clusterName", "creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion", "selfLink", "uid"} {
		paths = append(paths, fieldpath.MakePathOrDie("metadata", name))
	}
	return fieldpath.NewSet(paths...)
}()

// own does what [resource.Resource.Own] asks for.
func (c *creation) own(obj metav1.Object, apiVersion, manager string) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || manager == "" {
		return false
	}
	metadata, ok := u.Object["metadata"].(map[string]any)
	if !ok || metadata["managedFields"] != nil {
		return false
	}
	set, err := c.fields(u)
	if err != nil {
		return false
	}
	if set.Empty() {
		return true
	}
	fields, err := fieldsV1(set)
	if err != nil {
		return false
	}
	metadata["managedFields"] = []any{map[string]any{
		"manager": manager, "operation": string(metav1.ManagedFieldsOperationUpdate), "apiVersion": apiVersion,
		"time": time.Now().UTC().Format(time.RFC3339), "fieldsType": "FieldsV1", "fieldsV1": fields,
	}}
	return true
}

func (c *creation) fields(u *unstructured.Unstructured) (*fieldpath.Set, error) {
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

// fieldsV1 writes a set of fields as what FieldsV1 is in JSON.
func fieldsV1(set *fieldpath.Set) (map[string]any, error) {
	fields := make(map[string]any, set.Members.Size()+set.Children.Size())
	for member := range set.Members.All() {
		key, err := fieldpath.SerializePathElement(member)
		if err != nil {
			return nil, err
		}
		fields[key] = map[string]any{}
	}
	for parent := range set.Children.All() {
		key, err := fieldpath.SerializePathElement(parent)
		if err != nil {
			return nil, err
		}
		inside, _ := set.Children.Get(parent)
		parts, err := fieldsV1(inside)
		if err != nil {
			return nil, err
		}
		if fields[key] != nil {
			parts["."] = map[string]any{}
		}
		fields[key] = parts
	}
	return fields, nil
}
