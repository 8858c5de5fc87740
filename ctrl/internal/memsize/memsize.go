// Package memsize estimates how much memory a value takes.
package memsize

import (
	"math/bits"
	"reflect"
	"time"
)

// Of returns about how many bytes a value takes with all that it refers to. What it refers to twice counts twice, so the
// result is rather too large. Functions, channels and the locations of times do not count. It stops at limit: a result above
// the limit says only that the value is larger.
func Of(value any, limit int) int {
	if value == nil {
		return 0
	}
	w := walker{limit: limit}
	w.boxed(reflect.ValueOf(value))
	return w.size
}

// walker adds up sizes.
type walker struct{ size, limit int }

// block adds a block of memory, which the allocator rounds up.
func (w *walker) block(n int) {
	if n > 0 {
		w.size += (n + 15) &^ 15
	}
}

// boxed adds a value that is in an interface.
func (w *walker) boxed(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer: // is in the interface itself
	default:
		w.block(int(v.Type().Size()))
	}
	w.behind(v)
}

var timeType = reflect.TypeFor[time.Time]()

// behind adds what a value refers to.
func (w *walker) behind(v reflect.Value) {
	if w.size > w.limit {
		return
	}
	switch v.Kind() {
	case reflect.String:
		w.block(v.Len())
	case reflect.Pointer:
		if !v.IsNil() {
			w.block(int(v.Type().Elem().Size()))
			w.behind(v.Elem())
		}
	case reflect.Interface:
		if !v.IsNil() {
			w.boxed(v.Elem())
		}
	case reflect.Slice:
		w.block(v.Cap() * int(v.Type().Elem().Size()))
		w.elements(v)
	case reflect.Array:
		w.elements(v)
	case reflect.Map:
		w.table(v)
	case reflect.Struct:
		if v.Type() == timeType {
			return
		}
		for i := range v.NumField() {
			w.behind(v.Field(i))
		}
	}
}

// elements adds what the elements of a slice or an array refer to.
func (w *walker) elements(v reflect.Value) {
	if isScalar(v.Type().Elem().Kind()) {
		return
	}
	for i := 0; i < v.Len() && w.size <= w.limit; i++ {
		w.behind(v.Index(i))
	}
}

func isScalar(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Complex128 }

// table adds a map: a header, and groups of eight slots; at most seven eighths are in use.
func (w *walker) table(v reflect.Value) {
	if v.IsNil() {
		return
	}
	const header, group = 48, 8
	slots := group
	if n := v.Len(); n > group {
		slots = 1 << bits.Len(uint(n*8/7))
	}
	typ := v.Type()
	w.block(header)
	w.block(slots * int(typ.Key().Size()+typ.Elem().Size()+1))
	if isScalar(typ.Key().Kind()) && isScalar(typ.Elem().Kind()) {
		return
	}
	for entries := v.MapRange(); w.size <= w.limit && entries.Next(); {
		w.behind(entries.Key())
		w.behind(entries.Value())
	}
}
