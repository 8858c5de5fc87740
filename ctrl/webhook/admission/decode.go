package admission

import (
	"errors"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Decoder decodes the objects of requests. It is safe for concurrent use.
type Decoder interface {
	// Decode decodes the object of req into into. It returns an error if req has none: for requests to
	// delete, use DecodeRaw with OldObject.
	Decode(req Request, into runtime.Object) error

	// DecodeRaw decodes rawObj into into. It returns an error if rawObj is empty.
	DecodeRaw(rawObj runtime.RawExtension, into runtime.Object) error
}

// NewDecoder returns a decoder for the types in scheme and for unstructured objects. It panics if
// scheme is nil.
func NewDecoder(scheme *runtime.Scheme) Decoder {
	if scheme == nil {
		panic("scheme should never be nil")
	}
	return &decoder{scheme, serializer.NewCodecFactory(scheme).UniversalDeserializer()}
}

// decoder decodes with the types of a scheme.
type decoder struct {
	scheme    *runtime.Scheme
	universal runtime.Decoder
}

var errNoContent = errors.New("there is no content to decode")

func (d *decoder) Decode(req Request, into runtime.Object) error {
	return d.DecodeRaw(req.Object, into)
}

func (d *decoder) DecodeRaw(rawObj runtime.RawExtension, into runtime.Object) error {
	if len(rawObj.Raw) == 0 {
		return errNoContent
	}
	if u, ok := into.(runtime.Unstructured); ok {
		// Embedded objects may come without apiVersion and kind, which the decoder for unstructured
		// objects insists on.
		var content map[string]any
		if err := utiljson.Unmarshal(rawObj.Raw, &content); err != nil {
			return err
		}
		u.SetUnstructuredContent(content)
		return nil
	}
	if d.decodeKnown(rawObj.Raw, into) {
		return nil
	}
	return runtime.DecodeInto(d.universal, rawObj.Raw, into)
}

// decodeKnown decodes JSON of the very kind that into is for in one pass. If it returns false, into
// is as it was.
func (d *decoder) decodeKnown(data []byte, into runtime.Object) bool {
	kinds, _, err := d.scheme.ObjectKinds(into)
	if err != nil {
		return false
	}
	kind, ok := into.GetObjectKind().(*metav1.TypeMeta)
	if !ok {
		return false // the type may not decode the kind, which could then not be compared
	}
	target := reflect.ValueOf(into).Elem()
	if !target.IsZero() {
		return false // the content could not be restored if decoding fails
	}
	if utiljson.Unmarshal(data, into) == nil && slices.Contains(kinds, kind.GroupVersionKind()) {
		return true
	}
	target.SetZero()
	return false
}
