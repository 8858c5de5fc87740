package world

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var widgetVersion = schema.GroupVersion{Group: "bench.flyball.dev", Version: "v1"}

// Widget is a custom kind of common size.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec"`
	Status WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec is what is wanted.
type WidgetSpec struct {
	Replicas int32             `json:"replicas"`
	Image    string            `json:"image"`
	Settings map[string]string `json:"settings,omitempty"`
	Routes   []WidgetRoute     `json:"routes,omitempty"`
}

// WidgetRoute is a part of it.
type WidgetRoute struct {
	Host  string   `json:"host"`
	Paths []string `json:"paths,omitempty"`
	Port  int32    `json:"port"`
}

// WidgetStatus is what there is.
type WidgetStatus struct {
	ReadyReplicas      int32              `json:"readyReplicas"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// WidgetList is a list of Widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Widget `json:"items"`
}

// NewWidget is the nth Widget, as its operator leaves it.
func NewWidget(n int) *Widget {
	condition := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: 3, LastTransitionTime: at(n), Reason: "AsWanted", Message: "All replicas run what is wanted"}
	}
	w := &Widget{
		TypeMeta: metav1.TypeMeta{APIVersion: widgetVersion.String(), Kind: "Widget"},
		ObjectMeta: metadata(n,
			managedBy("kubectl-client-side-apply", "", widgetVersion.String(), `{"f:metadata":{"f:annotations":{".":{},"f:example.org/checksum":{},"f:example.org/restarted-at":{}},"f:labels":{".":{},"f:app.kubernetes.io/instance":{},"f:app.kubernetes.io/managed-by":{},"f:app.kubernetes.io/name":{},"f:tier":{}}},"f:spec":{".":{},"f:image":{},"f:replicas":{},"f:routes":{},"f:settings":{".":{},"f:cache":{},"f:level":{},"f:mode":{},"f:region":{}}}}`, n),
			managedBy("widget-operator", "status", widgetVersion.String(), `{"f:status":{".":{},"f:conditions":{},"f:observedGeneration":{},"f:readyReplicas":{}}}`, n)),
		Spec: WidgetSpec{
			Replicas: 3, Image: "registry.example.org/team/" + App(n) + ":1.24.3",
			Settings: map[string]string{"cache": "256Mi", "level": "info", "mode": "production", "region": "eu-central-1"},
			Routes: []WidgetRoute{
				{Host: App(n) + ".example.org", Paths: []string{"/", "/api", "/static"}, Port: 8080},
				{Host: "admin." + App(n) + ".example.org", Paths: []string{"/"}, Port: 9090},
			},
		},
		Status: WidgetStatus{ReadyReplicas: 3, ObservedGeneration: 3, Conditions: []metav1.Condition{condition("Ready"), condition("Progressing")}},
	}
	w.Generation = 3
	return w
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	out := &Widget{}
	w.copyInto(out)
	return out
}

func (w *Widget) copyInto(out *Widget) {
	*out = *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Settings = maps.Clone(w.Spec.Settings)
	out.Spec.Routes = slices.Clone(w.Spec.Routes)
	for i, r := range w.Spec.Routes {
		out.Spec.Routes[i].Paths = slices.Clone(r.Paths)
	}
	out.Status.Conditions = slices.Clone(w.Status.Conditions)
}

// DeepCopyObject implements runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Widget, len(l.Items))
	for i := range l.Items {
		l.Items[i].copyInto(&out.Items[i])
	}
	return &out
}
