package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type Pod struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   PodSpec
	Status PodStatus
}

type PodSpec struct{ Namespace, Image string }

type PodStatus struct {
	Phase              string
	ObservedGeneration int64
	Conditions         []metav1.Condition
}

func (o *Pod) DeepCopyObject() runtime.Object { return o.DeepCopy() }
func (o *Pod) DeepCopy() *Pod                 { c := *o; return &c }

type PodList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Pod
}

func (o *PodList) DeepCopyObject() runtime.Object { return o }

type Secret struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   SecretSpec
	Status SecretStatus
}

type SecretSpec struct{ Namespace, Image string }

type SecretStatus struct {
	Phase              string
	ObservedGeneration int64
	Conditions         []metav1.Condition
}

func (o *Secret) DeepCopyObject() runtime.Object { return o.DeepCopy() }
func (o *Secret) DeepCopy() *Secret              { c := *o; return &c }

type SecretList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Secret
}

func (o *SecretList) DeepCopyObject() runtime.Object { return o }

type ConfigMap struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ConfigMapSpec
	Status ConfigMapStatus
}

type ConfigMapSpec struct{ Namespace, Image string }

type ConfigMapStatus struct {
	Phase              string
	ObservedGeneration int64
	Conditions         []metav1.Condition
}

func (o *ConfigMap) DeepCopyObject() runtime.Object { return o.DeepCopy() }
func (o *ConfigMap) DeepCopy() *ConfigMap           { c := *o; return &c }

type ConfigMapList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []ConfigMap
}

func (o *ConfigMapList) DeepCopyObject() runtime.Object { return o }

type Service struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ServiceSpec
	Status ServiceStatus
}

type ServiceSpec struct{ Namespace, Image string }

type ServiceStatus struct {
	Phase              string
	ObservedGeneration int64
	Conditions         []metav1.Condition
}

func (o *Service) DeepCopyObject() runtime.Object { return o.DeepCopy() }
func (o *Service) DeepCopy() *Service             { c := *o; return &c }

type ServiceList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Service
}

func (o *ServiceList) DeepCopyObject() runtime.Object { return o }

type Node struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   NodeSpec
	Status NodeStatus
}

type NodeSpec struct{ Namespace, Image string }

type NodeStatus struct {
	Phase              string
	ObservedGeneration int64
	Conditions         []metav1.Condition
}

func (o *Node) DeepCopyObject() runtime.Object { return o.DeepCopy() }
func (o *Node) DeepCopy() *Node                { c := *o; return &c }

type NodeList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Node
}

func (o *NodeList) DeepCopyObject() runtime.Object { return o }

type Event struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (o *Event) DeepCopyObject() runtime.Object { return o }
