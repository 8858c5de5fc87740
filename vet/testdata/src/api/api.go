// Package api has the kind that the operators of these tests are for.
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type App struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   AppSpec
	Status AppStatus
}

type AppSpec struct {
	Namespace, Image string
	Target           *string
}

type AppStatus struct {
	Phase              string
	ObservedGeneration int64
	Conditions         []metav1.Condition
}

func (o *App) DeepCopyObject() runtime.Object { return o.DeepCopy() }
func (o *App) DeepCopy() *App                 { c := *o; return &c }

func (s *AppStatus) DeepCopy() *AppStatus { c := *s; return &c }

type AppList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []App
}

func (o *AppList) DeepCopyObject() runtime.Object { return o }
