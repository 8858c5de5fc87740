package controllertest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// UnconventionalListType is a kind. Its list, UnconventionalListTypeList, has pointers as items.
type UnconventionalListType struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              string `json:"spec,omitempty"`
}

var _ runtime.Object = &UnconventionalListType{}

// DeepCopy returns a copy that shares nothing with u.
func (u *UnconventionalListType) DeepCopy() *UnconventionalListType {
	c := *u
	u.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is DeepCopy.
func (u *UnconventionalListType) DeepCopyObject() runtime.Object { return u.DeepCopy() }

// UnconventionalListTypeList is a list of pointers.
type UnconventionalListTypeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []*UnconventionalListType `json:"items"`
}

var _ runtime.Object = &UnconventionalListTypeList{}

// DeepCopy returns a copy that shares nothing with u.
func (u *UnconventionalListTypeList) DeepCopy() *UnconventionalListTypeList {
	c := *u
	u.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for _, item := range u.Items {
		c.Items = append(c.Items, item.DeepCopy())
	}
	return &c
}

// DeepCopyObject is DeepCopy.
func (u *UnconventionalListTypeList) DeepCopyObject() runtime.Object { return u.DeepCopy() }

// ErrorType is a runtime.Object that has no kind and no metadata, and no copy.
type ErrorType struct{}

var _ runtime.Object = ErrorType{}

// GetObjectKind returns nil.
func (ErrorType) GetObjectKind() schema.ObjectKind { return nil }

// DeepCopyObject returns nil.
func (ErrorType) DeepCopyObject() runtime.Object { return nil }
