package client

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// answer is where the server's answer is decoded into. The target alone does not
// tell what came: what is of another kind may overwrite it, or leave it as it was.
type answer struct {
	// Object is the target.
	runtime.Object
	// kind is what the answer says that it is, and decoded is what it became: the
	// target, unless it is of a Go type of its own.
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
