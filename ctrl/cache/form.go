package cache

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// errIncomplete is returned if the form of an object may lack fields of another form.
var errIncomplete = errors.New("the form of the object lacks fields")

// convert returns a copy of an object in a form. It fails with errIncomplete if the
// object's own form may lack something: metadata the rest of the object, a Go type
// the fields that it does not know.
func convert(obj client.Object, gvk schema.GroupVersionKind, to form, scheme *runtime.Scheme) (client.Object, error) {
	from := formOf(obj)
	switch {
	case from == to:
		return obj.DeepCopyObject().(client.Object), nil
	case to == metadataForm:
		return metadataOf(obj), nil
	case from == metadataForm, to == unstructuredForm:
		return nil, errIncomplete
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
