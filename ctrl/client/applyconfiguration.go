package client

import (
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
)

// ApplyConfigurationFromUnstructured returns an apply configuration that refers to u: the response
// to Apply overwrites u.
//
// u must contain only the fields to apply. One that was converted from a typed object also
// contains zero values that were never set.
func ApplyConfigurationFromUnstructured(u *unstructured.Unstructured) runtime.ApplyConfiguration {
	return &unstructuredApplyConfiguration{u}
}

// unstructuredApplyConfiguration is an unstructured object as an apply configuration.
type unstructuredApplyConfiguration struct {
	*unstructured.Unstructured
}

func (*unstructuredApplyConfiguration) IsApplyConfiguration() {}

// applyIdentity is the getters that every generated apply configuration has.
type applyIdentity interface {
	GetName() *string
	GetNamespace() *string
	GetKind() *string
	GetAPIVersion() *string
}

// identify returns the kind and key in an apply configuration.
func identify(ac runtime.ApplyConfiguration) (schema.GroupVersionKind, ObjectKey, error) {
	switch ac := ac.(type) {
	case *unstructuredApplyConfiguration:
		return ac.GroupVersionKind(), ObjectKeyFromObject(ac.Unstructured), nil
	case applyIdentity:
		gv, err := schema.ParseGroupVersion(ptr.Deref(ac.GetAPIVersion(), ""))
		if err != nil {
			return schema.GroupVersionKind{}, ObjectKey{},
				fmt.Errorf("failed to parse apiVersion of apply configuration %T: %w", ac, err)
		}
		key := ObjectKey{Namespace: ptr.Deref(ac.GetNamespace(), ""), Name: ptr.Deref(ac.GetName(), "")}
		return gv.WithKind(ptr.Deref(ac.GetKind(), "")), key, nil
	default:
		return schema.GroupVersionKind{}, ObjectKey{},
			fmt.Errorf("object %T is not a valid apply configuration: it has no methods for its kind and name", ac)
	}
}

// fillConfiguration decodes the response to an apply of a subresource into the configuration of the
// object, which is of kind gvk. If the response is of a kind of the subresource, such as Scale,
// only its metadata concerns the object.
func fillConfiguration(ac runtime.ApplyConfiguration, gvk schema.GroupVersionKind, response []byte) error {
	var header struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(response, &header); err != nil {
		return err
	}
	if header.GroupVersionKind() == gvk {
		return replaceConfiguration(ac, response)
	}
	if header.Metadata == nil {
		return nil
	}
	u, ok := ac.(*unstructuredApplyConfiguration)
	if !ok {
		metadata, err := json.Marshal(map[string]any{"metadata": header.Metadata})
		if err != nil {
			return err
		}
		return json.Unmarshal(metadata, ac)
	}
	var metadata map[string]any
	if err := utiljson.Unmarshal(header.Metadata, &metadata); err != nil {
		return err
	}
	merged, _, err := unstructured.NestedMap(u.Object, "metadata")
	if err != nil {
		return err
	}
	if merged == nil {
		merged = metadata
	} else {
		maps.Copy(merged, metadata)
	}
	return unstructured.SetNestedMap(u.Object, merged, "metadata")
}
