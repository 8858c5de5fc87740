package fake

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
)

// newScalable returns a new typed object of a kind that has a scale, or nil.
func newScalable(gvk schema.GroupVersionKind) client.Object {
	switch gvk {
	case appsv1.SchemeGroupVersion.WithKind("Deployment"):
		return &appsv1.Deployment{}
	case appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):
		return &appsv1.ReplicaSet{}
	case appsv1.SchemeGroupVersion.WithKind("StatefulSet"):
		return &appsv1.StatefulSet{}
	case corev1.SchemeGroupVersion.WithKind("ReplicationController"):
		return &corev1.ReplicationController{}
	}
	return nil
}

func errNoScale(gvk schema.GroupVersionKind) error {
	return fmt.Errorf("unimplemented scale subresource for resource %s", gvk)
}

// replicas are the fields of a scalable object that its scale has.
type replicas struct {
	wanted   **int32
	actual   int32
	selector string
}

// replicasOf returns the fields of a typed scalable object.
func replicasOf(obj client.Object) (r replicas, err error) {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		r = replicas{&obj.Spec.Replicas, obj.Status.Replicas, ""}
		r.selector, err = format(obj.Spec.Selector)
	case *appsv1.ReplicaSet:
		r = replicas{&obj.Spec.Replicas, obj.Status.Replicas, ""}
		r.selector, err = format(obj.Spec.Selector)
	case *appsv1.StatefulSet:
		r = replicas{&obj.Spec.Replicas, obj.Status.Replicas, ""}
		r.selector, err = format(obj.Spec.Selector)
	case *corev1.ReplicationController:
		r = replicas{&obj.Spec.Replicas, obj.Status.Replicas, labels.Set(obj.Spec.Selector).String()}
	default:
		err = fmt.Errorf("unimplemented scale subresource for resource %T", obj)
	}
	return r, err
}

// format returns a selector as a scale has it.
func format(s *metav1.LabelSelector) (string, error) {
	if s == nil {
		return "", nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "", err
	}
	return selector.String(), nil
}

// scaleOf returns the scale of an object.
func scaleOf(obj client.Object) (*autoscalingv1.Scale, error) {
	typed := obj
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if typed = newScalable(u.GroupVersionKind()); typed == nil {
			return nil, errNoScale(u.GroupVersionKind())
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
			return nil, err
		}
	}
	r, err := replicasOf(typed)
	if err != nil {
		return nil, err
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: ptr.Deref(*r.wanted, 1)},
		Status: autoscalingv1.ScaleStatus{Replicas: r.actual, Selector: r.selector},
	}, nil
}

// setReplicas sets the replicas that an object should have.
func setReplicas(obj client.Object, n int32) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if newScalable(u.GroupVersionKind()) == nil {
			return errNoScale(u.GroupVersionKind())
		}
		return unstructured.SetNestedField(u.Object, int64(n), "spec", "replicas")
	}
	r, err := replicasOf(obj)
	if err == nil {
		*r.wanted = &n
	}
	return err
}
