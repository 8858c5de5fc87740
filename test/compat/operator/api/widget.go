// Package api defines a kind in two versions. v1 is the hub of conversion.
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

// Group is the group of the kind.
const Group = "compat.flyball.dev"

// AddToScheme adds both versions.
func AddToScheme(s *runtime.Scheme) error {
	//lint:ignore SA1019 operators of Kubebuilder use it
	hub := &scheme.Builder{GroupVersion: schema.GroupVersion{Group: Group, Version: "v1"}}
	if err := hub.Register(&Widget{}, &WidgetList{}).AddToScheme(s); err != nil {
		return err
	}
	spoke := schema.GroupVersion{Group: Group, Version: "v1beta1"}
	s.AddKnownTypeWithName(spoke.WithKind("Widget"), &OldWidget{})
	metav1.AddToGroupVersion(s, spoke)
	return nil
}

// Widget is the kind in v1.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   WidgetSpec   `json:"spec"`
	Status WidgetStatus `json:"status"`
}

// WidgetSpec is the desired state.
type WidgetSpec struct {
	Color string `json:"color,omitempty"`
	Size  int    `json:"size,omitempty"`
}

// WidgetStatus is the actual state.
type WidgetStatus struct {
	Phase string `json:"phase,omitempty"`
}

// WidgetList is a list of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Widget `json:"items"`
}

// OldWidget is the kind in v1beta1, where the color had another name.
type OldWidget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec OldWidgetSpec `json:"spec"`
}

// OldWidgetSpec is the desired state in v1beta1.
type OldWidgetSpec struct {
	Paint string `json:"paint,omitempty"`
	Size  int    `json:"size,omitempty"`
}

// Hub marks v1 as the hub.
func (*Widget) Hub() {}

// ConvertTo implements conversion.Convertible.
func (w *OldWidget) ConvertTo(to conversion.Hub) error {
	hub := to.(*Widget)
	hub.ObjectMeta, hub.Spec = w.ObjectMeta, WidgetSpec{Color: w.Spec.Paint, Size: w.Spec.Size}
	return nil
}

// ConvertFrom implements conversion.Convertible.
func (w *OldWidget) ConvertFrom(from conversion.Hub) error {
	hub := from.(*Widget)
	w.ObjectMeta, w.Spec = hub.ObjectMeta, OldWidgetSpec{Paint: hub.Spec.Color, Size: hub.Spec.Size}
	return nil
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	out := *w
	w.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for _, item := range l.Items {
		out.Items = append(out.Items, *item.DeepCopyObject().(*Widget))
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (w *OldWidget) DeepCopyObject() runtime.Object {
	out := *w
	w.DeepCopyInto(&out.ObjectMeta)
	return &out
}
