package fake

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"flyball.dev/ctrl/client"
)

// convert sets an object to another one, of any representation, by way of its JSON.
func convert(from, to runtime.Object) error {
	data, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("failed to encode %T: %w", from, err)
	}
	return decode(data, to)
}

// decode sets an object to the content of a JSON document.
func decode(data []byte, to runtime.Object) error {
	zero(to)
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("failed to decode into %T: %w", to, err)
	}
	return nil
}

// zero sets what a pointer refers to to its zero value.
func zero(pointer any) { reflect.ValueOf(pointer).Elem().SetZero() }

// content returns an object as in JSON. The content of an unstructured object is not a copy.
func content(obj runtime.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(data, &m)
}

// copyStatus sets the status of an object to the status of another one.
func copyStatus(from, to client.Object) error {
	f, t := reflect.ValueOf(from), reflect.ValueOf(to)
	if _, unstructured := from.(runtime.Unstructured); !unstructured && f.Type() == t.Type() {
		if field, ok := f.Type().Elem().FieldByName("Status"); ok && len(field.Index) == 1 {
			t.Elem().FieldByIndex(field.Index).Set(f.Elem().FieldByIndex(field.Index))
			return nil
		}
	}
	have, err := content(from)
	if err != nil {
		return err
	}
	result, err := content(to)
	if err != nil {
		return err
	}
	if status, ok := have["status"]; ok {
		result["status"] = status
	} else {
		delete(result, "status")
	}
	if u, ok := to.(*unstructured.Unstructured); ok {
		u.Object = result
		return nil
	}
	data, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return decode(data, to)
}

// itemsOf returns a function that returns a new item of a list.
func itemsOf(list client.ObjectList) (func() client.Object, error) {
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, err
	}
	t := reflect.TypeOf(items).Elem().Elem()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, ok := reflect.New(t).Interface().(client.Object); !ok {
		return nil, fmt.Errorf("the items of %T are %s, which are no objects with metadata", list, t)
	}
	return func() client.Object { return reflect.New(t).Interface().(client.Object) }, nil
}

// setItems sets the items of a list, which are of the type that itemsOf returns.
func setItems(list client.ObjectList, items []client.Object) error {
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	to := reflect.ValueOf(pointer).Elem()
	slice := reflect.MakeSlice(to.Type(), len(items), len(items))
	for i, item := range items {
		v := reflect.ValueOf(item)
		if slice.Type().Elem().Kind() != reflect.Pointer {
			v = v.Elem()
		}
		slice.Index(i).Set(v)
	}
	to.Set(slice)
	return nil
}
