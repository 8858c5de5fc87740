package compact

import (
	"reflect"
	"strings"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// timeCodec packs times in UTC, in local time and in zones that are only a name and an offset, as
// decoders make of an offset.
//
// Unsafe: the methods rely on the contract of codec.
type timeCodec struct{ plain }

const (
	timeUTC byte = iota
	timeLocal
	timeOffset
)

// encode fails for times of other zones, and for those with a monotonic clock reading, which only
// the process that took them has.
func (timeCodec) encode(e *encoder, p unsafe.Pointer) {
	t := *(*time.Time)(p)
	switch t.Location() {
	case time.UTC:
		e.byte(timeUTC)
	case time.Local:
		e.byte(timeLocal)
	default:
		name, offset := t.Zone()
		if !reflect.DeepEqual(t.Location(), time.FixedZone(name, offset)) {
			e.fail()
		}
		e.byte(timeOffset)
		e.string(name)
		e.int(int64(offset))
	}
	if t != t.Round(0) {
		e.fail()
	}
	e.int(t.Unix())
	e.uint(uint64(t.Nanosecond()))
}

func (timeCodec) decode(d *decoder, p unsafe.Pointer) {
	zone := time.UTC
	switch d.byte() {
	case timeLocal:
		zone = time.Local
	case timeOffset:
		name := d.string()
		zone = time.FixedZone(name, int(d.int()))
	}
	*(*time.Time)(p) = time.Unix(d.int(), int64(d.uint())).In(zone)
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
