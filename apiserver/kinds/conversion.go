package kinds

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
)

// convertor returns the converter between a kind's stored and served version, which are nearly
// always the same.
func convertor(scheme *runtime.Scheme, stored, served schema.GroupVersion) runtime.ObjectConvertor {
	same := keepsKind{runtime.UnsafeObjectConvertor(scheme)}
	if stored == served {
		return same
	}
	return crossGroup{same, scheme, [2]schema.GroupVersion{stored, served}}
}

// keepsKind converts into objects that keep their kind. Admission converts the result of webhooks and policies into the object of
// the request, and a scheme's conversion of a type to itself clears the kind. Stored objects have one, so the object of the
// request would equal none, and an update that changes nothing would be written. Kubernetes has no kind in the objects that it compares.
type keepsKind struct{ runtime.ObjectConvertor }

func (c keepsKind) Convert(in, out, context any) error {
	obj, ok := out.(runtime.Object)
	if !ok {
		return c.ObjectConvertor.Convert(in, out, context)
	}
	kind := obj.GetObjectKind().GroupVersionKind()
	err := c.ObjectConvertor.Convert(in, out, context)
	if !kind.Empty() {
		obj.GetObjectKind().SetGroupVersionKind(kind)
	}
	return err
}

// crossGroup converts between Go types of different groups, which a scheme does not.
type crossGroup struct {
	runtime.ObjectConvertor
	scheme   *runtime.Scheme
	versions [2]schema.GroupVersion
}

func (c crossGroup) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	kinds, _, err := c.scheme.ObjectKinds(in)
	if err != nil {
		return nil, err
	}
	if _, ok := target.KindForGroupVersionKinds(kinds); ok {
		return c.ObjectConvertor.ConvertToVersion(in, target)
	}
	for _, gv := range c.versions {
		gvk, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{gv.WithKind(kinds[0].Kind)})
		if !ok {
			continue
		}
		out, err := c.scheme.New(gvk)
		if err != nil {
			return nil, err
		}
		if err := c.scheme.Convert(in, out, nil); err != nil {
			return nil, err
		}
		out.GetObjectKind().SetGroupVersionKind(gvk)
		return out, nil
	}
	return nil, fmt.Errorf("no conversion of %s to %s", kinds[0], target.Identifier())
}

// serializerFor returns codecs that convert with convert.
func serializerFor(codecs runtime.NegotiatedSerializer, convert runtime.ObjectConvertor) runtime.NegotiatedSerializer {
	if c, ok := convert.(crossGroup); ok {
		return convertingSerializer{codecs, c}
	}
	return codecs
}

// convertingSerializer encodes and decodes objects of a kind that is served by two groups.
type convertingSerializer struct {
	runtime.NegotiatedSerializer
	convert crossGroup
}

func (s convertingSerializer) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	scheme := s.convert.scheme
	return versioning.NewCodec(e, nil, s.convert, scheme, scheme, scheme, gv, nil, "crossgroup")
}

func (s convertingSerializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	scheme := s.convert.scheme
	return versioning.NewCodec(nil, d, s.convert, scheme, scheme, scheme, nil, gv, "crossgroup")
}
