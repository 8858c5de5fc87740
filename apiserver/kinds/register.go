package kinds

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Register adds the kind's defaults and selectable fields to the scheme.
func (k Of[T]) Register(scheme *runtime.Scheme) { k.erased().register(scheme) }

func (k *kind) register(scheme *runtime.Scheme) {
	if k.Default != nil {
		scheme.AddTypeDefaultingFunc(k.Type, func(obj any) { k.Default(obj.(Object)) })
		scheme.AddTypeDefaultingFunc(k.List, defaultItems(k.Default))
	}
	known := map[string]string{}
	for label := range k.fields(k.Type) {
		known[label] = label
	}
	maps.Copy(known, k.FieldAliases)
	selectable(scheme, k.Type, known)
	for _, alias := range k.AlsoServed {
		labels := known
		if alias.Fields != nil {
			labels = maps.Clone(alias.Fields)
			labels["metadata.name"], labels["metadata.namespace"] = "metadata.name", "metadata.namespace"
		}
		selectable(scheme, alias.Type, labels)
		if alias.Default != nil {
			scheme.AddTypeDefaultingFunc(alias.Type, func(obj any) { alias.Default(obj.(runtime.Object)) })
		}
	}
}

// selectable registers the field labels of a type, each with its key in the kind's fields. The error
// for other labels is kube-apiserver's: it lists the labels only if the type has no labels of its own.
func selectable(scheme *runtime.Scheme, served runtime.Object, keys map[string]string) {
	gvks, _, err := scheme.ObjectKinds(served)
	utilruntime.Must(err)
	own := false // whether the kind has fields besides those that all have
	for label := range keys {
		own = own || !strings.HasPrefix(label, "metadata.")
	}
	utilruntime.Must(scheme.AddFieldLabelConversionFunc(gvks[0], func(label, value string) (string, string, error) {
		key, ok := keys[label]
		if !ok && !own {
			return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
		}
		if !ok {
			return "", "", fmt.Errorf("field label not supported: %s", label)
		}
		return key, value, nil
	}))
}

// defaultItems applies a default to every item of a typed list.
func defaultItems(one func(Object)) func(any) {
	return func(list any) {
		items := reflect.ValueOf(list).Elem().FieldByName("Items")
		for i := range items.Len() {
			one(items.Index(i).Addr().Interface().(Object))
		}
	}
}

func (k *kind) fields(obj Object) fields.Set {
	var set fields.Set
	if k.Fields != nil {
		set = k.Fields(obj)
	} else {
		set = fields.Set{}
	}
	set["metadata.name"] = obj.GetName()
	if !k.Cluster {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	return set
}

// attributes returns the function that gets the labels and fields of an object for selectors.
//
//upstream:k8s.io/apiserver/pkg/registry/generic.ObjectMetaFieldsSet
func attributes(k *kind) storage.AttrFunc {
	typ := reflect.TypeOf(k.Type)
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		o, ok := obj.(Object)
		if !ok || reflect.TypeOf(obj) != typ {
			return nil, nil, fmt.Errorf("%T is no %T", obj, k.Type)
		}
		return o.GetLabels(), k.fields(o), nil
	}
}

// indexed returns the fields that the storage indexes.
//
//upstream:pkg/registry/core/pod.NodeNameTriggerFunc
func indexed(k *kind) storage.IndexerFuncs {
	funcs := storage.IndexerFuncs{}
	for _, field := range k.Indexed {
		funcs[field] = func(obj runtime.Object) string { return k.fields(obj.(Object))[field] }
	}
	return funcs
}

func predicate(k *kind) func(labels.Selector, fields.Selector) storage.SelectionPredicate {
	return func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
		return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attributes(k)}
	}
}
