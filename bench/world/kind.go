// Package world is what the runtimes work on: objects such as clusters hold, and
// servers that hold them.
package world

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/bench/runtimes"
)

// Scheme knows the kinds of this package.
var Scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		panic(err)
	}
	s.AddKnownTypes(widgetVersion, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(s, widgetVersion)
	return s
}()

// Mapper knows the resources of the kinds without asking a server.
func Mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	m.Add(widgetVersion.WithKind("Widget"), meta.RESTScopeNamespace)
	return m
}

// Kind is a kind of objects in the form in which a program reads them.
type Kind struct {
	// Name says what it is in a report, Resource what it is in a path.
	Name, Resource string
	// Make makes the nth object.
	Make func(n int) runtimes.Object
	// One and List return an empty object and an empty list to read into.
	One  func() runtimes.Object
	List func() runtimes.ObjectList
}

// The kinds.
var (
	Pods = Kind{
		Name: "pods", Resource: "pods",
		Make: func(n int) runtimes.Object { return Pod(n) },
		One:  func() runtimes.Object { return &corev1.Pod{} },
		List: func() runtimes.ObjectList { return &corev1.PodList{} },
	}
	ConfigMaps = Kind{
		Name: "configmaps", Resource: "configmaps",
		Make: func(n int) runtimes.Object { return ConfigMap(n) },
		One:  func() runtimes.Object { return &corev1.ConfigMap{} },
		List: func() runtimes.ObjectList { return &corev1.ConfigMapList{} },
	}
	Widgets = Kind{
		Name: "widgets", Resource: "widgets",
		Make: func(n int) runtimes.Object { return NewWidget(n) },
		One:  func() runtimes.Object { return &Widget{} },
		List: func() runtimes.ObjectList { return &WidgetList{} },
	}
	UnstructuredWidgets = Kind{
		Name: "widgets-unstructured", Resource: "widgets",
		Make: Widgets.Make,
		One:  func() runtimes.Object { return untyped(&unstructured.Unstructured{}, "Widget") },
		List: func() runtimes.ObjectList { return untyped(&unstructured.UnstructuredList{}, "WidgetList") },
	}
)

func untyped[T schema.ObjectKind](obj T, kind string) T {
	obj.SetGroupVersionKind(widgetVersion.WithKind(kind))
	return obj
}

// Served returns the nth object as a server sends it, of that version.
func (k Kind) Served(n int, version string) runtimes.Object {
	obj := k.Make(n)
	obj.SetResourceVersion(version)
	return obj
}
