package crd

import (
	stdjson "encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	kjson "sigs.k8s.io/json"
)

// textSerializer is a JSON serializer that encodes unstructured objects faster, to the same bytes. For strict decoding
// it parses a document once, whereas the embedded serializer first parses it for the kind.
type textSerializer struct{ *json.Serializer }

func (s textSerializer) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if u, ok := into.(*unstructured.Unstructured); ok && s.IsStrict() {
		if content, kind := decodeObject(data); content != nil {
			u.Object = content
			return u, kind, nil
		}
	}
	return s.Serializer.Decode(data, defaults, into)
}

// decodeObject decodes an object strictly. It returns nil if there is an error, or if a field could be mistaken for the
// kind.
func decodeObject(data []byte) (map[string]any, *schema.GroupVersionKind) {
	var content map[string]any
	if strict, err := kjson.UnmarshalStrict(data, &content); err != nil || len(strict) > 0 {
		return nil, nil
	}
	for name := range content {
		if strings.EqualFold(name, "kind") && name != "kind" || strings.EqualFold(name, "apiVersion") && name != "apiVersion" {
			return nil, nil
		}
	}
	version, isText := content["apiVersion"].(string)
	kind, isTextToo := content["kind"].(string)
	gv, err := schema.ParseGroupVersion(version)
	if !isText || !isTextToo || kind == "" || err != nil {
		return nil, nil
	}
	return content, &schema.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: kind}
}

func (s textSerializer) Encode(obj runtime.Object, w io.Writer) error {
	if c, ok := obj.(runtime.CacheableObject); ok {
		return c.CacheEncode(s.Identifier(), s.encode, w)
	}
	return s.encode(obj, w)
}

func (s textSerializer) encode(obj runtime.Object, w io.Writer) error {
	switch obj := obj.(type) {
	case *unstructured.Unstructured:
		return encodeObject(obj, w)
	case *unstructured.UnstructuredList:
		return encodeList(obj, w)
	}
	return s.Serializer.Encode(obj, w)
}

func encodeObject(u *unstructured.Unstructured, w io.Writer) error {
	e := encoders.Get().(*encoder)
	defer e.free()
	if err := e.value(u.Object); err != nil {
		return err
	}
	e.bytes('\n')
	return e.flush(w)
}

// flushSize is the number of bytes of a list that are written at a time.
const flushSize = 64 << 10

// encodeList encodes a list in chunks of about flushSize.
func encodeList(l *unstructured.UnstructuredList, w io.Writer) error {
	e := encoders.Get().(*encoder)
	defer e.free()
	fields := make(map[string]any, len(l.Object)+1)
	for k, v := range l.Object {
		fields[k] = v
	}
	fields["items"] = nil
	err := e.object(fields, func(key string) error {
		if key != "items" {
			return e.value(fields[key])
		}
		e.bytes('[')
		for i := range l.Items {
			if i > 0 {
				e.bytes(',')
			}
			if err := e.value(l.Items[i].Object); err != nil {
				return err
			}
			if len(e.out) > flushSize {
				if err := e.flush(w); err != nil {
					return err
				}
			}
		}
		e.bytes(']')
		return nil
	})
	if err != nil {
		return err
	}
	e.bytes('\n')
	return e.flush(w)
}

// encoder encodes the values of unstructured objects in the same format as encoding/json, without reflection.
type encoder struct {
	out  []byte
	keys []string // of the maps that are being encoded, the outermost first
}

var encoders = sync.Pool{New: func() any { return &encoder{} }}

// free returns the encoder to the pool, unless its buffer is large.
func (e *encoder) free() {
	if cap(e.out) > 4*flushSize {
		return
	}
	clear(e.keys[:cap(e.keys)])
	e.out, e.keys = e.out[:0], e.keys[:0]
	encoders.Put(e)
}

func (e *encoder) flush(w io.Writer) error {
	_, err := w.Write(e.out)
	e.out = e.out[:0]
	return err
}

func (e *encoder) bytes(b ...byte) { e.out = append(e.out, b...) }

// value encodes a value of an unstructured object. It leaves types that do not occur in unstructured objects to
// encoding/json.
func (e *encoder) value(v any) error {
	switch v := v.(type) {
	case nil:
		e.out = append(e.out, "null"...)
	case bool:
		e.out = strconv.AppendBool(e.out, v)
	case string:
		return e.text(v)
	case int64:
		e.out = strconv.AppendInt(e.out, v, 10)
	case map[string]any:
		if v == nil {
			return e.value(nil)
		}
		return e.object(v, nil)
	case []any:
		if v == nil {
			return e.value(nil)
		}
		e.bytes('[')
		for i, item := range v {
			if i > 0 {
				e.bytes(',')
			}
			if err := e.value(item); err != nil {
				return err
			}
		}
		e.bytes(']')
	default:
		return e.other(v)
	}
	return nil
}

// object writes the members of a map in the order of their keys. If value is not nil, it writes the value of a member.
func (e *encoder) object(m map[string]any, value func(key string) error) error {
	first := len(e.keys)
	for key := range m {
		e.keys = append(e.keys, key)
	}
	last := len(e.keys)
	slices.Sort(e.keys[first:last])
	e.bytes('{')
	for i := first; i < last; i++ {
		if i > first {
			e.bytes(',')
		}
		if err := e.text(e.keys[i]); err != nil {
			return err
		}
		e.bytes(':')
		var err error
		if key := e.keys[i]; value != nil {
			err = value(key)
		} else {
			err = e.value(m[key])
		}
		if err != nil {
			return err
		}
	}
	e.bytes('}')
	e.keys = e.keys[:first]
	return nil
}

func (e *encoder) text(s string) error {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return e.other(s)
		}
	}
	e.bytes('"')
	e.out = append(e.out, s...)
	e.bytes('"')
	return nil
}

func (e *encoder) other(v any) error {
	b, err := stdjson.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	e.out = append(e.out, b...)
	return nil
}
