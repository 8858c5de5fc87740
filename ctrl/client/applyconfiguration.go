package client

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
