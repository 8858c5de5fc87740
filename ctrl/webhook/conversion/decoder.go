package conversion

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Decoder decodes objects of the kinds in a scheme. It is safe for concurrent use.
type Decoder struct {
	universal runtime.Decoder
}

// NewDecoder returns a decoder. It panics if scheme is nil.
func NewDecoder(scheme *runtime.Scheme) *Decoder {
	if scheme == nil {
		panic("scheme should never be nil")
	}
	return &Decoder{serializer.NewCodecFactory(scheme).UniversalDeserializer()}
}

// Decode decodes an object into the type of its kind.
func (d *Decoder) Decode(content []byte) (runtime.Object, *schema.GroupVersionKind, error) {
	return d.universal.Decode(content, nil, nil)
}

// DecodeInto decodes an object into into.
func (d *Decoder) DecodeInto(content []byte, into runtime.Object) error {
	return runtime.DecodeInto(d.universal, content, into)
}
