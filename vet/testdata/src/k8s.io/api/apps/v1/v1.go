package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type Deployment struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   DeploymentSpec
	Status DeploymentStatus
}

type DeploymentSpec struct{ Namespace, Image string }

type DeploymentStatus struct {
	Phase              string
	ObservedGeneration int64
	Conditions         []metav1.Condition
}

func (o *Deployment) DeepCopyObject() runtime.Object { return o.DeepCopy() }
func (o *Deployment) DeepCopy() *Deployment          { c := *o; return &c }

type DeploymentList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Deployment
}

func (o *DeploymentList) DeepCopyObject() runtime.Object { return o }
