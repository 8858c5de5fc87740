// Package representation distinguishes the Go types in which a program holds the objects of a kind.
package representation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MetadataKind and MetadataListKind are the kinds of the API for metadata only.
var (
	MetadataKind     = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
	MetadataListKind = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")
)

// AcceptMetadata returns the Accept header of a request for metadata only: MetadataKind for an
// object or MetadataListKind for a list, as protobuf or JSON. A server that does not support them
// returns whole objects as JSON.
func AcceptMetadata(gvk schema.GroupVersionKind) string {
	as := fmt.Sprintf(";as=%s;g=%s;v=%s,", gvk.Kind, gvk.Group, gvk.Version)
	return runtime.ContentTypeProtobuf + as + runtime.ContentTypeJSON + as + runtime.ContentTypeJSON
}

// Representation is how the objects of a kind are represented in Go.
type Representation uint8

const (
	// Typed is a Go type of the kind's own, which is in the scheme.
	Typed Representation = iota
	// Unstructured is any runtime.Unstructured, such as unstructured.Unstructured.
	Unstructured
	// Metadata is metav1.PartialObjectMetadata: nothing but the object's metadata.
	Metadata
)

// Of returns the representation of an object or of the items of a list.
func Of(obj runtime.Object) Representation {
	switch obj.(type) {
	case runtime.Unstructured:
		return Unstructured
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return Metadata
	default:
		return Typed
	}
}

// String returns typed, unstructured or metadata.
func (r Representation) String() string {
	return [...]string{"typed", "unstructured", "metadata"}[r]
}
