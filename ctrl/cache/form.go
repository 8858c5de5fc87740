package cache

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
)

// form is how the objects of a kind are represented in Go.
type form uint8

const (
	typedForm form = iota
	unstructuredForm
	metadataForm
	forms
)

func formOf(obj runtime.Object) form {
	switch obj.(type) {
	case runtime.Unstructured:
		return unstructuredForm
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadataForm
	default:
		return typedForm
	}
}

// convert returns a copy of an object in a form. It fails if the object's own
// form says too little.
func convert(obj client.Object, gvk schema.GroupVersionKind, to form, scheme *runtime.Scheme) (client.Object, error) {
	from := formOf(obj)
	switch {
	case from == to:
		return obj.DeepCopyObject().(client.Object), nil
	case to == metadataForm:
		return metadataOf(obj), nil
	case from == metadataForm:
		return nil, fmt.Errorf("the metadata of %s %s do not make the object", gvk.Kind, client.ObjectKeyFromObject(obj))
	case to == unstructuredForm:
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		return &unstructured.Unstructured{Object: content}, err
	default:
		typed, err := scheme.New(gvk)
		if err != nil {
			return nil, err
		}
		content := obj.(runtime.Unstructured).UnstructuredContent()
		return typed.(client.Object), runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed)
	}
}

func metadataOf(obj client.Object) *metav1.PartialObjectMetadata {
	return (&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name:                       obj.GetName(),
		GenerateName:               obj.GetGenerateName(),
		Namespace:                  obj.GetNamespace(),
		SelfLink:                   obj.GetSelfLink(),
		UID:                        obj.GetUID(),
		ResourceVersion:            obj.GetResourceVersion(),
		Generation:                 obj.GetGeneration(),
		CreationTimestamp:          obj.GetCreationTimestamp(),
		DeletionTimestamp:          obj.GetDeletionTimestamp(),
		DeletionGracePeriodSeconds: obj.GetDeletionGracePeriodSeconds(),
		Labels:                     obj.GetLabels(),
		Annotations:                obj.GetAnnotations(),
		OwnerReferences:            obj.GetOwnerReferences(),
		Finalizers:                 obj.GetFinalizers(),
		ManagedFields:              obj.GetManagedFields(),
	}}).DeepCopy()
}
