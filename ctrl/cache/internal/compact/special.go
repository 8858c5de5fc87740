package compact

import (
	"reflect"
	"strings"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// timesAndQuantities returns the plans of types whose exported fields do not tell
// it all.
func timesAndQuantities(t reflect.Type) codec {
	switch t {
	case reflect.TypeFor[time.Time]():
		return timeCodec{}
	case reflect.TypeFor[resource.Quantity]():
		return quantityCodec{}
	default:
		return nil
	}
}

// mapCodec returns the plan of a map type. The common ones have plans that need no
// reflection.
func (made builder) mapCodec(t reflect.Type) codec {
	switch t {
	case reflect.TypeFor[map[string]string]():
		return stringMapCodec{}
	case reflect.TypeFor[map[string]any]():
		return anyMapCodec{}
	case reflect.TypeFor[map[string][]byte]():
		return &typedMapCodec[string, []byte]{made.of(t.Elem())}
	case reflect.TypeFor[corev1.ResourceList]():
		return &typedMapCodec[corev1.ResourceName, resource.Quantity]{made.of(t.Elem())}
	default:
		key := made.of(t.Key())
		if hasPointers(t.Key()) {
			key = &node{codec: unsupportedCodec{}}
		}
		return &mapCodec{t, key, made.of(t.Elem())}
	}
}

// hasPointers tells whether values of a type are, or have in them, pointers that make one
// key of a map another one than its copy.
func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Chan, reflect.UnsafePointer:
		return true
	case reflect.Array:
		return hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// timeCodec packs times in UTC or local time, without their monotonic part.
type timeCodec struct{ plain }

func (timeCodec) encode(e *encoder, p unsafe.Pointer) {
	t := *(*time.Time)(p)
	switch t.Location() {
	case time.UTC:
		e.byte(0)
	case time.Local:
		e.byte(1)
	default:
		e.fail()
	}
	e.int(t.Unix())
	e.uint(uint64(t.Nanosecond()))
}

func (timeCodec) decode(d *decoder, p unsafe.Pointer) {
	local := d.bool()
	t := time.Unix(d.int(), int64(d.uint()))
	if !local {
		t = t.UTC()
	}
	*(*time.Time)(p) = t
}

// quantityCodec packs quantities as their text and, if that says something else,
// their format.
type quantityCodec struct{}

const (
	quantityZero byte = iota
	quantityText
	quantityFormat
)

func (quantityCodec) encode(e *encoder, p unsafe.Pointer) {
	said := e.quantity(*(*resource.Quantity)(p))
	e.byte(said.how)
	switch said.how {
	case quantityText:
		e.string(said.text)
	case quantityFormat:
		e.string(said.text)
		e.string(said.format)
	}
}

// quantity is what is said of a quantity.
type quantity struct {
	how          byte
	text, format string
}

// quantitiesAtMost is how many quantities are remembered.
const quantitiesAtMost = 1024

// quantity finds out what to say of a quantity.
func (e *encoder) quantity(q resource.Quantity) quantity {
	if q == (resource.Quantity{}) {
		return quantity{how: quantityZero}
	}
	if said, ok := e.quantities[q]; ok {
		return said
	}
	known := q // asking for the text changes q
	said := quantity{how: quantityText, text: q.String()}
	parsed, err := resource.ParseQuantity(said.text)
	if err != nil || parsed.Cmp(q) != 0 {
		e.fail()
		return said
	}
	if parsed.Format != q.Format {
		said.how, said.format = quantityFormat, string(q.Format)
	}
	// One that leads to a number elsewhere is not known again.
	if known.DeepCopy() == known {
		if e.quantities == nil || len(e.quantities) == quantitiesAtMost {
			e.quantities = map[resource.Quantity]quantity{}
		}
		e.quantities[known] = said
	}
	return said
}

func (quantityCodec) decode(d *decoder, p unsafe.Pointer) {
	said := d.byte()
	if said == quantityZero {
		return
	}
	// It was parsed before.
	q, _ := resource.ParseQuantity(d.string())
	if said == quantityFormat {
		q.Format = resource.Format(d.string())
	}
	*(*resource.Quantity)(p) = q
}

func (quantityCodec) unalias(_ *decoder, p unsafe.Pointer) {
	q := (*resource.Quantity)(p)
	*q = q.DeepCopy()
}

// fieldsCodec packs the fields that a manager owns. Their text differs from object
// to object in a few keys of list items only, such as an IP address, so it is cut
// before each key. Copies share it: apimachinery takes it for immutable, and never
// writes into it.
type fieldsCodec struct{ plain }

const cut = `"k:{`

func (fieldsCodec) encode(e *encoder, p unsafe.Pointer) {
	raw := (*metav1.FieldsV1)(p).GetRawBytes()
	if raw == nil {
		e.byte(0)
		return
	}
	text := unsafe.String(unsafe.SliceData(raw), len(raw))
	e.length(len(text))
	for text != "" {
		n := strings.Index(text[1:], cut) + 1
		if n == 0 {
			n = len(text)
		}
		e.string(text[:n])
		text = text[n:]
	}
}

func (fieldsCodec) decode(d *decoder, p unsafe.Pointer) {
	length, ok := d.length()
	if !ok {
		return
	}
	text := d.fieldsText(length)
	for len(text) < length {
		text = append(text, d.string()...)
	}
	setFields((*metav1.FieldsV1)(p), text)
}
