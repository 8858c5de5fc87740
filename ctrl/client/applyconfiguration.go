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

// ApplyConfigurationFromUnstructured makes an apply configuration of u, which it
// refers to: the server's answer to Apply overwrites u.
//
// u must hold only what is to be applied. What was made from a typed object also
// holds the zero values that nobody meant.
func ApplyConfigurationFromUnstructured(u *unstructured.Unstructured) runtime.ApplyConfiguration {
	return &unstructuredApplyConfiguration{u}
}

type unstructuredApplyConfiguration struct {
	*unstructured.Unstructured
}

func (*unstructuredApplyConfiguration) IsApplyConfiguration() {}

// applyIdentity is what every generated apply configuration can tell of itself.
type applyIdentity interface {
	GetName() *string
	GetNamespace() *string
	GetKind() *string
	GetAPIVersion() *string
}

// identify returns the kind and key that an apply configuration names.
func identify(ac runtime.ApplyConfiguration) (schema.GroupVersionKind, ObjectKey, error) {
	switch ac := ac.(type) {
	case *unstructuredApplyConfiguration:
		return ac.GroupVersionKind(), ObjectKeyFromObject(ac.Unstructured), nil
	case applyIdentity:
		gv, err := schema.ParseGroupVersion(ptr.Deref(ac.GetAPIVersion(), ""))
		if err != nil {
			return schema.GroupVersionKind{}, ObjectKey{}, fmt.Errorf("apply configuration %T: %w", ac, err)
		}
		key := ObjectKey{Namespace: ptr.Deref(ac.GetNamespace(), ""), Name: ptr.Deref(ac.GetName(), "")}
		return gv.WithKind(ptr.Deref(ac.GetKind(), "")), key, nil
	default:
		return schema.GroupVersionKind{}, ObjectKey{}, fmt.Errorf("%T does not tell its kind and name as generated apply configurations do", ac)
	}
}

// fillConfiguration puts the answer to an apply of a subresource into the
// configuration of the object, which is of kind gvk. If the answer is of a kind
// that only the subresource has, such as Scale, nothing but the metadata is about
// the object.
func fillConfiguration(ac runtime.ApplyConfiguration, gvk schema.GroupVersionKind, answer []byte) error {
	var says struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(answer, &says); err != nil {
		return err
	}
	if says.GroupVersionKind() == gvk {
		return replaceConfiguration(ac, answer)
	}
	if says.Metadata == nil {
		return nil
	}
	u, ok := ac.(*unstructuredApplyConfiguration)
	if !ok {
		metadata, err := json.Marshal(map[string]any{"metadata": says.Metadata})
		if err != nil {
			return err
		}
		return json.Unmarshal(metadata, ac)
	}
	var metadata map[string]any
	if err := utiljson.Unmarshal(says.Metadata, &metadata); err != nil {
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
