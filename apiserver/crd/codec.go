package crd

import (
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/util/json"

	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/store"
)

// storageCodec is the storage codec for one version of a custom kind. It encodes objects as JSON or CBOR in the storage
// version, and decodes both to the served version.
type storageCodec struct {
	shape          *shape
	stored, served schema.GroupVersion
	convertor      runtime.ObjectConvertor // copies its input
	unsafe         runtime.ObjectConvertor
	webhook        bool // converts
	cbor           bool // encode as CBOR
}

// binary reads and writes stored objects as CBOR.
var binary = cbor.NewSerializer(creator{}, typer{})

// textCodec is the storage codec for the storage version, with objects as JSON.
type textCodec struct{ *storageCodec }

var _ store.TextCodec = textCodec{}

// AppendText implements [store.TextCodec].
func (textCodec) AppendText(to []byte, obj runtime.Object) ([]byte, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return to, fmt.Errorf("%T is no custom resource", obj)
	}
	e := encoders.Get().(*encoder)
	defer e.free()
	err := e.value(u.Object)
	return append(to, e.out...), err
}

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

// Decode implements [runtime.Decoder]. It sets the defaults of the stored version.
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

var (
	_ store.Converter = (*storageCodec)(nil)
	_ store.Copier    = (*storageCodec)(nil)
)

// Converts reports whether a webhook converts stored objects of a kind to the served version.
func (c *storageCodec) Converts(stored schema.GroupVersionKind) bool {
	return c.webhook && stored.GroupVersion() != c.served
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

// CopyStored returns the same object as decoding the encoding of obj, without decoding. It returns false for objects
// with an encoding that may differ from the object. The copy shares equal parts with last, the previously stored object
// or nil. The caller must not change last.
func (c *storageCodec) CopyStored(obj, last runtime.Object) (runtime.Object, bool) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || c.cbor || c.stored != c.served || u.GroupVersionKind() != c.shape.kind.WithVersion(c.stored.Version) {
		return nil, false
	}
	if u.GetGeneration() != 0 && c.shape.normalized(u, c.shape.kind.WithVersion(c.stored.Version)) {
		before, _ := last.(*unstructured.Unstructured)
		if before == nil {
			before = &unstructured.Unstructured{}
		}
		content, ok := copyObject(u.Object, before.Object)
		return &unstructured.Unstructured{Object: content}, ok
	}
	content, ok := copyExact(u.Object)
	if !ok {
		return nil, false
	}
	stored := &unstructured.Unstructured{Object: content.(map[string]any)}
	if _, err := c.shape.apply(stored, shapeOptions{stored: true}); err != nil {
		return nil, false
	}
	c.shape.Default(stored)
	return stored, true
}

// copyObject copies an object in the same way as copyExact. The maps of the object and its metadata are new, and share
// equal fields with last.
func copyObject(object, last map[string]any) (map[string]any, bool) {
	out := make(map[string]any, len(object))
	for key, value := range object {
		before := last[key]
		var ok bool
		if metadata, isMap := value.(map[string]any); key == "metadata" && isMap {
			lastMetadata, _ := before.(map[string]any)
			out[key], ok = copyFields(metadata, lastMetadata)
		} else {
			out[key], ok = share(value, before)
		}
		if !ok || !utf8.ValidString(key) {
			return nil, false
		}
	}
	return out, true
}

func copyFields(fields, last map[string]any) (map[string]any, bool) {
	out := make(map[string]any, len(fields))
	for key, value := range fields {
		var ok bool
		if out[key], ok = share(value, last[key]); !ok || !utf8.ValidString(key) {
			return nil, false
		}
	}
	return out, true
}

// maxShared is the maximum length of a list for sharing single elements, which requires comparing all elements.
const maxShared = 16

// share returns last if it equals value, or else a copy of value. For a short list, such as the managed fields, the
// copy shares equal elements with last.
func share(value, last any) (any, bool) {
	if managedfields.EqualJSON(value, last) {
		return last, true
	}
	list, isList := value.([]any)
	before, isListToo := last.([]any)
	if !isList || !isListToo || list == nil || max(len(list), len(before)) > maxShared {
		return copyExact(value)
	}
	out := make([]any, len(list))
	for i, item := range list {
		var ok bool
		if j := slices.IndexFunc(before, func(other any) bool { return managedfields.EqualJSON(item, other) }); j >= 0 {
			out[i] = before[j]
		} else if out[i], ok = copyExact(item); !ok {
			return nil, false
		}
	}
	return out, true
}

// copyExact copies a value that JSON preserves exactly. It returns false for all other values.
func copyExact(v any) (any, bool) {
	switch v := v.(type) {
	case nil, bool, int64:
		return v, true
	case string:
		return v, utf8.ValidString(v)
	case map[string]any:
		if v == nil {
			return nil, false
		}
		out := make(map[string]any, len(v))
		for key, value := range v {
			item, ok := copyExact(value)
			if !ok || !utf8.ValidString(key) {
				return nil, false
			}
			out[key] = item
		}
		return out, true
	case []any:
		if v == nil {
			return nil, false
		}
		out := make([]any, len(v))
		for i, value := range v {
			var ok bool
			if out[i], ok = copyExact(value); !ok {
				return nil, false
			}
		}
		return out, true
	}
	return nil, false
}
