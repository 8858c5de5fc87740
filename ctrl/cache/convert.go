package cache

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/representation"
)

// errIncomplete is returned if an object may lack fields that another representation has.
var errIncomplete = errors.New("the object's representation lacks fields")

// convert returns a copy of an object in another representation. It fails with errIncomplete if the
// object may lack fields: metadata lacks all others, and a Go type lacks undeclared ones.
func convert(
	obj client.Object, gvk schema.GroupVersionKind, to representation.Representation, scheme *runtime.Scheme,
) (client.Object, error) {
	from := representation.Of(obj)
	switch {
	case from == to:
		return obj.DeepCopyObject().(client.Object), nil
	case to == representation.Metadata:
		return metadataOf(obj), nil
	case from == representation.Metadata, to == representation.Unstructured:
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

// metadataOf returns a copy of an object's metadata.
func metadataOf(obj client.Object) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name:                       obj.GetName(),
		GenerateName:               obj.GetGenerateName(),
		Namespace:                  obj.GetNamespace(),
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
	}}
	m.SetSelfLink(obj.GetSelfLink())
	return m.DeepCopy()
}
