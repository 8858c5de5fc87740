package compact

import (
	"math/big"
	"reflect"
	"slices"
	"unsafe"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantity is the memory layout of a resource.Quantity. Its fields say more than its value: 0.5 and
// 500m are equal, and a program that compares or hashes objects tells them apart.
type quantity struct {
	value  int64
	scale  int32
	dec    *inf.Dec
	text   string
	format resource.Format
}

// quantitiesArePacked is false if the apimachinery that the program is built with has another
// layout.
var quantitiesArePacked = slices.Equal(layout(reflect.TypeFor[resource.Quantity](), 0), layout(reflect.TypeFor[quantity](), 0))

// word is a field that is no struct itself: its offset, and its kind or, if it is a pointer, its type.
type word struct {
	offset uintptr
	kind   reflect.Kind
	typ    reflect.Type
}

// layout returns the words of a type.
func layout(t reflect.Type, offset uintptr) (words []word) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			words = append(words, layout(f.Type, offset+f.Offset)...)
		}
		return words
	case reflect.Pointer:
		return []word{{offset, t.Kind(), t}}
	default:
		return []word{{offset, t.Kind(), nil}}
	}
}

// quantityCodec packs each field of quantities: first which there are, with the format.
//
// Unsafe: the methods rely on the contract of codec, and on the layout that quantitiesArePacked
// has compared.
type quantityCodec struct{}

const (
	quantityFormat byte = 7 // the index in quantityFormats, or unusualFormat
	quantityAmount byte = 1 << 3
	quantityText   byte = 1 << 4
	quantityDec    byte = 1 << 5

	unusualFormat = 7
)

var quantityFormats = []resource.Format{"", resource.DecimalSI, resource.BinarySI, resource.DecimalExponent}

// encode writes what there is, and before it a byte that says what that is.
func (quantityCodec) encode(e *encoder, p unsafe.Pointer) {
	q := (*quantity)(p)
	kind := byte(unusualFormat)
	if i := slices.Index(quantityFormats, q.format); i >= 0 {
		kind = byte(i)
	}
	if q.value != 0 || q.scale != 0 {
		kind |= quantityAmount
	}
	if q.text != "" {
		kind |= quantityText
	}
	if q.dec != nil {
		kind |= quantityDec
	}
	e.byte(kind)
	if kind&quantityFormat == unusualFormat {
		e.string(string(q.format))
	}
	if kind&quantityAmount != 0 {
		e.int(q.value)
		e.int(int64(q.scale))
	}
	if kind&quantityText != 0 {
		e.string(q.text)
	}
	if kind&quantityDec != 0 {
		e.dec(q.dec)
	}
}

func (quantityCodec) decode(d *decoder, p unsafe.Pointer) {
	q := (*quantity)(p)
	kind := d.byte()
	if i := kind & quantityFormat; i != unusualFormat {
		q.format = quantityFormats[i]
	} else {
		q.format = resource.Format(d.string())
	}
	if kind&quantityAmount != 0 {
		q.value, q.scale = d.int(), int32(d.int())
	}
	if kind&quantityText != 0 {
		q.text = d.string()
	}
	if kind&quantityDec != 0 {
		q.dec = d.dec()
	}
}

func (quantityCodec) unalias(_ *decoder, p unsafe.Pointer) {
	if q := (*quantity)(p); q.dec != nil {
		unscaled := q.dec.UnscaledBig()
		q.dec = newDec(slices.Clone(unscaled.Bits()), unscaled.Sign() < 0, q.dec.Scale())
	}
}

// dec writes a number of any size: its sign, its words and its scale.
func (e *encoder) dec(x *inf.Dec) {
	e.variables++
	unscaled := x.UnscaledBig()
	e.bool(unscaled.Sign() < 0)
	if words := unscaled.Bits(); words == nil {
		e.byte(0)
	} else {
		e.length(len(words))
		for _, w := range words {
			e.uint(uint64(w))
		}
	}
	e.int(int64(x.Scale()))
}

func (d *decoder) dec() *inf.Dec {
	negative := d.bool()
	var words []big.Word
	if n, ok := d.length(); ok {
		words = make([]big.Word, n)
		for i := range words {
			words[i] = big.Word(d.uint())
		}
	}
	return newDec(words, negative, inf.Scale(d.int()))
}

func newDec(words []big.Word, negative bool, scale inf.Scale) *inf.Dec {
	x := new(inf.Dec).SetScale(scale)
	unscaled := x.UnscaledBig().SetBits(words)
	if negative {
		unscaled.Neg(unscaled)
	}
	return x
}
