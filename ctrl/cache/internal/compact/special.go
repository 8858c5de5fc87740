package compact

import (
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// special are the plans of types whose exported fields do not tell it all.
var special = map[reflect.Type]plan{
	reflect.TypeFor[time.Time]():         timePlan{},
	reflect.TypeFor[resource.Quantity](): quantityPlan{},
	reflect.TypeFor[metav1.FieldsV1]():   fieldsPlan{},
	reflect.TypeFor[any]():               anyPlan{},
}

// timePlan packs times in UTC or local time, without their monotonic part.
type timePlan struct{}

func (timePlan) encode(e *encoder, v reflect.Value) {
	t := *v.Addr().Interface().(*time.Time)
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

func (timePlan) decode(d *decoder, v reflect.Value) {
	local := d.byte() == 1
	t := time.Unix(d.int(), int64(d.uint()))
	if !local {
		t = t.UTC()
	}
	*v.Addr().Interface().(*time.Time) = t
}

// quantityPlan packs quantities as their text and, if that says something else,
// their format.
type quantityPlan struct{}

func (quantityPlan) encode(e *encoder, v reflect.Value) {
	q := *v.Addr().Interface().(*resource.Quantity)
	text := q.String()
	parsed, err := resource.ParseQuantity(text)
	if err != nil || parsed.Cmp(q) != 0 {
		e.fail()
	}
	e.string(text)
	if parsed.Format == q.Format {
		e.string("")
	} else {
		e.string(string(q.Format))
	}
}

func (quantityPlan) decode(d *decoder, v reflect.Value) {
	// It was parsed before.
	q, _ := resource.ParseQuantity(d.string())
	if format := d.string(); format != "" {
		q.Format = resource.Format(format)
	}
	*v.Addr().Interface().(*resource.Quantity) = q
}

// fieldsPlan packs the fields that a manager owns. Their text differs from object
// to object in a few keys of list items only, such as an IP address, so it is cut
// before each key.
type fieldsPlan struct{}

const cut = `"k:{`

var pieces = sync.Pool{New: func() any { return new([]byte) }}

func (fieldsPlan) encode(e *encoder, v reflect.Value) {
	text := v.Addr().Interface().(*metav1.FieldsV1).GetRawString()
	e.uint(uint64(len(text)))
	for text != "" {
		n := strings.Index(text[1:], cut) + 1
		if n == 0 {
			n = len(text)
		}
		e.string(text[:n])
		text = text[n:]
	}
}

func (fieldsPlan) decode(d *decoder, v reflect.Value) {
	length := int(d.uint())
	// The text is put together elsewhere, as SetRawBytes takes a copy.
	text := pieces.Get().(*[]byte)
	for *text = (*text)[:0]; len(*text) < length; {
		*text = append(*text, d.string()...)
	}
	v.Addr().Interface().(*metav1.FieldsV1).SetRawBytes(*text)
	pieces.Put(text)
}
