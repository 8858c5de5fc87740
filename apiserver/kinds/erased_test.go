package kinds

import (
	"context"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// TestErased checks that the description without the Go type has every field, and that no old object is a nil pointer.
func TestErased(t *testing.T) {
	full := &Of[*corev1.ConfigMap]{}
	fill(reflect.ValueOf(full).Elem())
	checkFilled(t, reflect.ValueOf(full.erased()).Elem(), "kind")

	created := false
	full.Prepare = func(_ context.Context, obj, old *corev1.ConfigMap) { created = obj != nil && old == nil }
	if full.erased().Prepare(t.Context(), &corev1.ConfigMap{}, nil); !created {
		t.Error("Prepare is called with an old object on create")
	}
	empty := (&Of[*corev1.ConfigMap]{}).erased()
	if empty.Type = nil; !reflect.ValueOf(*empty).IsZero() { // it was a pointer that is nil
		t.Errorf("the erased empty description is %+v", empty)
	}
}

// fill gives each variable of a type of this package a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { panic("not to be called") }))
	case reflect.Interface:
		if v.Type() == reflect.TypeFor[fieldpath.Filter]() {
			v.Set(reflect.ValueOf(fieldpath.NewExcludeSetFilter(fieldpath.NewSet())))
		} else {
			v.Set(reflect.ValueOf(&corev1.ConfigMap{}))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(elem)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, elem)
	case reflect.Struct:
		for i := range v.NumField() {
			if isOurs(v) {
				fill(v.Field(i))
			}
		}
	}
}

// isOurs reports whether a struct has a type of this package.
func isOurs(v reflect.Value) bool { return v.Type().PkgPath() == reflect.TypeFor[kind]().PkgPath() }

// checkFilled expects that no variable of a type of this package is zero.
func checkFilled(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	if v.Kind() == reflect.Struct && !isOurs(v) {
		return
	}
	if v.IsZero() {
		t.Errorf("%s is zero", path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		checkFilled(t, v.Elem(), path)
	case reflect.Slice:
		checkFilled(t, v.Index(0), path)
	case reflect.Map:
		for _, key := range v.MapKeys() {
			checkFilled(t, v.MapIndex(key), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			checkFilled(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	}
}
