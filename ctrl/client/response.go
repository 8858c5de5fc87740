package client

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/internal/protobuf"
)

// response is what the server's response is decoded into. It records the kind in the response, as
// an object of another kind may be decoded into the target or into a new object.
type response struct {
	// Object is the target.
	runtime.Object
	// kind is the kind in the response, and decoded the decoded object: the target, or a new object
	// if the kind has another Go type.
	kind    schema.GroupVersionKind
	decoded runtime.Object
	// versionOf, if not empty, is the kind of the objects; only their resource version is decoded. versionOnly is set if
	// that was done.
	versionOf   schema.GroupVersionKind
	versionOnly bool
}

// responseSerializer is a serializer that can decode into a response.
type responseSerializer struct{ runtime.NegotiatedSerializer }

func (s responseSerializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return responseDecoder{s.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

// responseDecoder decodes into the object of a response, and records the kind of what was decoded.
type responseDecoder struct{ decoder runtime.Decoder }

func (d responseDecoder) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	r, ok := into.(*response)
	if !ok {
		return d.decoder.Decode(data, defaults, into)
	}
	if r.decodeVersion(data) {
		return r, &r.kind, nil
	}
	out, gvk, err := d.decoder.Decode(data, defaults, r.Object)
	if err != nil {
		return out, gvk, err
	}
	r.decoded = out
	if gvk != nil {
		r.kind = *gvk
	}
	if out == r.Object {
		out = r
	}
	return out, gvk, nil
}

// decodeVersion sets the resource version of the target to the one in the response, if nothing else of the response is to
// be decoded. It returns false if the response must be decoded.
func (r *response) decodeVersion(data []byte) bool {
	obj, ok := r.Object.(Object)
	if !ok || r.versionOf.Empty() {
		return false
	}
	version, ok := protobuf.ResourceVersion(data, r.versionOf.GroupVersion().String(), r.versionOf.Kind)
	if !ok {
		return false
	}
	obj.SetResourceVersion(version)
	r.kind, r.decoded, r.versionOnly = r.versionOf, r.Object, true
	return true
}
