package transcode

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// findInexact finds the fields that [Type.Exact] examines in the new messages.
func (c *compiler) findInexact() {
	for changed := true; changed; {
		changed = false
		for _, m := range c.made {
			before := len(m.inexact)
			m.inexact = m.inexact[:0]
			for i := range m.fields {
				if f := &m.fields[i]; f.typeMeta || f.dropsEmpty() || f.shape == mapped && f.kind == kindBytes || f.kind == kindRaw ||
					f.kind == kindMessage && len(f.message.inexact) > 0 {
					m.inexact = append(m.inexact, f)
				}
			}
			changed = changed || len(m.inexact) != before
		}
	}
}

// dropsEmpty reports whether JSON shows that a list or a map is empty and not nil, which protobuf does not have.
func (f *field) dropsEmpty() bool { return (f.shape == list || f.shape == mapped) && !f.omitEmpty }

// exact is [Type.Exact] for a part of an object.
func (m *message) exact(v reflect.Value, root bool) bool {
	for _, f := range m.inexact {
		if !f.exact(v.Field(f.index), root) {
			return false
		}
	}
	return true
}

// exact is [Type.Exact] for a field of an object, or of a part of it.
func (f *field) exact(v reflect.Value, root bool) bool {
	if f.typeMeta {
		return root || v.IsZero()
	}
	switch f.shape {
	case pointer:
		return v.IsNil() || f.value.exact(v.Elem())
	case list:
		if f.dropsEmpty() && !v.IsNil() && v.Len() == 0 {
			return false
		}
		for i := range v.Len() {
			if !f.value.exact(v.Index(i)) {
				return false
			}
		}
		return true
	case mapped:
		if f.dropsEmpty() && !v.IsNil() && v.Len() == 0 {
			return false
		}
		for entries := v.MapRange(); entries.Next(); {
			if f.kind == kindBytes && entries.Value().IsNil() || !f.value.exact(entries.Value()) {
				return false
			}
		}
		return true
	}
	return f.value.exact(v)
}

func (t value) exact(v reflect.Value) bool {
	switch t.kind {
	case kindMessage:
		return t.message.exact(v, false)
	case kindRaw:
		return v.Interface().(runtime.RawExtension).Object == nil
	}
	return true
}
