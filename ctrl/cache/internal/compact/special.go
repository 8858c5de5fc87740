package compact

import (
	"strings"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// timeCodec packs times in UTC or local time, without their monotonic part.
//
// Unsafe: the methods rely on the contract of codec.
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

// quantityCodec packs quantities as their text and, if that implies another one, their format.
//
// Unsafe: the methods rely on the contract of codec.
type quantityCodec struct{}

const (
	quantityZero byte = iota
	quantityText
	quantityFormat
)

func (quantityCodec) encode(e *encoder, p unsafe.Pointer) {
	encoding := e.quantity(*(*resource.Quantity)(p))
	e.byte(encoding.kind)
	switch encoding.kind {
	case quantityText:
		e.string(encoding.text)
	case quantityFormat:
		e.string(encoding.text)
		e.string(encoding.format)
	}
}

// maxQuantities is how many encodings of quantities are cached.
const maxQuantities = 1024

// quantity returns how a quantity is encoded. It fails if its text does not say all of it.
func (e *encoder) quantity(q resource.Quantity) quantityEncoding {
	if q == (resource.Quantity{}) {
		return quantityEncoding{kind: quantityZero}
	}
	if encoding, ok := e.quantities[q]; ok {
		return encoding
	}
	key := q // String changes q
	encoding := quantityEncoding{kind: quantityText, text: q.String()}
	parsed, err := resource.ParseQuantity(encoding.text)
	if err != nil || parsed.Cmp(q) != 0 {
		e.fail()
		return encoding
	}
	if parsed.Format != q.Format {
		encoding.kind, encoding.format = quantityFormat, string(q.Format)
	}
	// One that refers to a big number has another key each time.
	if key.DeepCopy() == key {
		if e.quantities == nil || len(e.quantities) == maxQuantities {
			e.quantities = map[resource.Quantity]quantityEncoding{}
		}
		e.quantities[key] = encoding
	}
	return encoding
}

func (quantityCodec) decode(d *decoder, p unsafe.Pointer) {
	kind := d.byte()
	if kind == quantityZero {
		return
	}
	// It was parsed before.
	q, _ := resource.ParseQuantity(d.string())
	if kind == quantityFormat {
		q.Format = resource.Format(d.string())
	}
	*(*resource.Quantity)(p) = q
}

func (quantityCodec) unalias(_ *decoder, p unsafe.Pointer) {
	q := (*resource.Quantity)(p)
	*q = q.DeepCopy()
}

// fieldsCodec packs the fields that a manager owns. Their text differs from object to object in a
// few keys of list items only, such as an IP address, so it is cut before each key. Copies share
// the text: apimachinery treats it as immutable, and never writes into it.
//
// Unsafe: the methods rely on the contract of codec, and encode on the text not being
// changed until the value is packed, as the encoder refers to it as strings.
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
