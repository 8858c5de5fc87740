// Package arena allocates Go variables in slabs: several of a type in one allocation.
//
// Variables of one slab stay in memory together, for as long as one of them is referenced.
package arena

import (
	"reflect"
	"sync/atomic"
	"unsafe"
)

// Type allocates variables of a Go type. Use NewType to make one.
type Type struct {
	// Size is the size of a variable in bytes.
	Size uintptr

	slice reflect.Type
	// id indexes the slabs of an arena.
	id int
}

var types atomic.Int64

// NewType returns the type for allocations. It is to be called once a Go type, as each call
// makes arenas keep slabs of their own.
func NewType(t reflect.Type) Type {
	return Type{Size: t.Size(), slice: reflect.SliceOf(t), id: int(types.Add(1)) - 1}
}

// ID is a small number that no other Type has.
func (t *Type) ID() int { return t.id }

// Arena allocates variables. The zero value is ready for use, by one goroutine at a time.
type Arena struct {
	// Dedicated makes every allocation one of its own, as is right for variables that stay for long.
	Dedicated bool
	// Allocated counts the bytes that were allocated.
	Allocated int

	// slabs are the current slabs, by the ID of the type.
	slabs []slab
	text  []byte
}

// slab is an allocation of some variables. next points to the variables that are left, which are
// zero. size is the least number of variables that the slab was allocated with.
type slab struct {
	variables  reflect.Value // the slice of all variables, unset once none is left
	next       unsafe.Pointer
	left, size int
}

const (
	// A slab has twice as many variables as the last one of the type, so that not many are left
	// over. It begins with minSlab and ends with maxSlab, or with as many as fit in slabBytes.
	minSlab, maxSlab = 4, 16
	slabBytes        = 4096
	textSlab         = 16 << 10
)

// empty is where empty slices point to.
var empty struct{}

// New returns zero variables, one after the other.
//
// Unsafe: the pointer is to the first of count variables of the type; the caller accesses no more
// than those. It keeps the allocation that they are in reachable.
func (a *Arena) New(t *Type, count int) unsafe.Pointer {
	a.Allocated += count * int(t.Size)
	switch {
	case count == 0:
		return unsafe.Pointer(&empty)
	case !a.Dedicated && uintptr(count+1)*t.Size <= slabBytes:
		return a.slab(t, count).take(t, count)
	default:
		return reflect.MakeSlice(t.slice, count, count).UnsafePointer()
	}
}

// NewValue returns one zero variable as a value that can be set. Unlike reflect.NewAt, it does not
// look up the type of pointers to the variable, which takes a map for types made at run time.
func (a *Arena) NewValue(t *Type) reflect.Value {
	a.Allocated += int(t.Size)
	if a.Dedicated || 2*t.Size > slabBytes {
		return reflect.MakeSlice(t.slice, 1, 1).Index(0)
	}
	s := a.slab(t, 1)
	v := s.variables.Index(s.variables.Len() - s.left)
	s.take(t, 1)
	return v
}

// slab returns the type's slab, or a new one if fewer than count variables of it are left.
func (a *Arena) slab(t *Type, count int) *slab {
	if t.id >= len(a.slabs) {
		a.slabs = append(a.slabs, make([]slab, t.id+1-len(a.slabs))...)
	}
	s := &a.slabs[t.id]
	if s.left < count {
		s.size = min(max(minSlab, 2*s.size), maxSlab, slabBytes/max(1, int(t.Size)))
		s.left = max(count, s.size)
		s.variables = reflect.MakeSlice(t.slice, s.left, s.left)
		s.next = s.variables.UnsafePointer()
	}
	return s
}

// take takes variables of a slab that has as many left.
//
// Unsafe: next points to left variables that nobody else was given. It is nil if none is left, so
// that it never points past the end of the allocation, which the garbage collector would take for a
// pointer to the next one.
func (s *slab) take(t *Type, count int) unsafe.Pointer {
	p := s.next
	if s.left -= count; s.left == 0 {
		s.variables, s.next = reflect.Value{}, nil
	} else {
		s.next = unsafe.Add(p, uintptr(count)*t.Size)
	}
	return p
}

// Bytes returns an empty slice with a capacity of n bytes.
func (a *Arena) Bytes(n int) []byte {
	a.Allocated += n
	if a.Dedicated || n == 0 || n > textSlab/4 {
		return make([]byte, 0, n)
	}
	if len(a.text) < n {
		a.text = make([]byte, textSlab)
	}
	b := a.text[:0:n]
	a.text = a.text[n:]
	return b
}

// CountMap adds to Allocated the approximate size of a map of n entries that the caller has made.
// Entries are in groups of eight, and an eighth of the entries is empty.
func (a *Arena) CountMap(n int, entry uintptr) {
	a.Allocated += 48
	if n > 0 {
		a.Allocated += (n + n/7 + 7) / 8 * 8 * int(entry+1)
	}
}
