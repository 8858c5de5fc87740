package crd

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/util/json"
)

// storageCodec is the storage encoding for one version of a custom kind: objects are stored as JSON
// or CBOR in the storage version, and decoded from either to the served version.
type storageCodec struct {
	shape          *shape
	stored, served schema.GroupVersion
	convertor      runtime.ObjectConvertor // copies its input
	unsafe         runtime.ObjectConvertor
	cbor           bool // encode as CBOR
}

// binary reads and writes stored objects as CBOR.
var binary = cbor.NewSerializer(creator{}, typer{})

// Encode implements [runtime.Encoder].
func (c *storageCodec) Encode(obj runtime.Object, w io.Writer) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("cannot store a %T as a custom resource", obj)
	}
	if u.GroupVersionKind().GroupVersion() != c.stored {
		var err error
		if u, err = c.convert(c.convertor, u, c.stored); err != nil {
			return err
		}
	}
	if c.cbor {
		return binary.Encode(u, w)
	}
	return encodeObject(u, w)
}

// Identifier implements [runtime.Encoder].
func (c *storageCodec) Identifier() runtime.Identifier {
	if c.cbor {
		return runtime.Identifier("custom-cbor:" + c.stored.String())
	}
	return runtime.Identifier("custom:" + c.stored.String())
}

// Decode implements [runtime.Decoder]. Defaults are those of the version that is stored.
func (c *storageCodec) Decode(data []byte, _ *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	u := &unstructured.Unstructured{}
	if isCBOR, _, _ := binary.RecognizesData(data); isCBOR {
		if _, _, err := binary.Decode(data, nil, u); err != nil {
			return nil, nil, err
		}
	} else if err := json.Unmarshal(data, &u.Object); err != nil {
		return nil, nil, err
	}
	gvk := u.GroupVersionKind()
	if gvk.Kind == "" {
		return nil, &gvk, runtime.NewMissingKindErr(string(data))
	}
	if _, err := c.shape.apply(u, shapeOptions{stored: true}); err != nil {
		return nil, &gvk, err
	}
	c.shape.Default(u)
	if gvk.GroupVersion() != c.served {
		var err error
		if u, err = c.convert(c.unsafe, u, c.served); err != nil {
			return nil, &gvk, err
		}
	}
	if out, ok := into.(*unstructured.Unstructured); ok {
		out.Object = u.Object
		return out, &gvk, nil
	}
	return u, &gvk, nil
}

func (c *storageCodec) convert(convertor runtime.ObjectConvertor, u *unstructured.Unstructured,
	to schema.GroupVersion) (*unstructured.Unstructured, error) {
	obj, err := convertor.ConvertToVersion(u, to)
	if err != nil {
		return nil, err
	}
	converted, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("converted to %s, a custom resource is a %T", to, obj)
	}
	_, err = c.shape.apply(converted, shapeOptions{})
	return converted, err
}
