package client

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// answer is what the server's answer is decoded into. It records the kind of the
// answer, as an object of another kind may be decoded into the target, or beside it.
type answer struct {
	// Object is the target.
	runtime.Object
	// kind is the kind in the answer, and decoded the object that was decoded: the
	// target, or a new object if the kind has another Go type.
	kind    schema.GroupVersionKind
	decoded runtime.Object
}

// answers is a serializer that decodes into answers too.
type answers struct{ runtime.NegotiatedSerializer }

func (s answers) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return answerDecoder{s.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

type answerDecoder struct{ plain runtime.Decoder }

func (d answerDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	a, ok := into.(*answer)
	if !ok {
		return d.plain.Decode(data, defaults, into)
	}
	out, gvk, err := d.plain.Decode(data, defaults, a.Object)
	if err != nil {
		return out, gvk, err
	}
	a.decoded = out
	if gvk != nil {
		a.kind = *gvk
	}
	if out == a.Object {
		out = a
	}
	return out, gvk, nil
}
