// Package arena allocates Go variables in slabs: several of a type in one allocation.
//
// Variables of one slab stay in memory together, for as long as one of them is referenced.
package arena

import (
	"reflect"
	"sync/atomic"
	"unsafe"
)

// Type is a Go type whose variables are allocated. Use NewType to make one.
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
	// Dedicated makes every allocation one of its own, as is right for what stays for long.
	Dedicated bool
	// Allocated counts the bytes that were allocated.
	Allocated int

	// slabs are what is left of slabs, by the ID of the type.
	slabs []slab
	text  []byte
}

// slab is the unused rest of an allocation: next points to left zero variables, and size is how
// many variables the allocation had.
type slab struct {
	next       unsafe.Pointer
	left, size int
}

const (
	// A slab has twice as many variables as the last one of the type, so that not many are left
	// over. It begins with slabFrom and ends with slabTo, or with as many as fit in slabBytes.
	slabFrom, slabTo = 4, 16
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
		return a.fromSlab(t, count)
	default:
		return reflect.MakeSlice(t.slice, count, count).UnsafePointer()
	}
}

// fromSlab takes variables from the type's slab, or from a new one if too few are left.
//
// Unsafe: slab.next points to slab.left variables that nobody else was given. It is nil if none is
// left, so that it never points past the end of the allocation, which the garbage collector would
// take for a pointer to the next one.
func (a *Arena) fromSlab(t *Type, count int) unsafe.Pointer {
	if t.id >= len(a.slabs) {
		a.slabs = append(a.slabs, make([]slab, t.id+1-len(a.slabs))...)
	}
	s := &a.slabs[t.id]
	if s.left < count {
		s.size = min(max(slabFrom, 2*s.size), slabTo, slabBytes/max(1, int(t.Size)))
		s.left = max(count, s.size)
		s.next = reflect.MakeSlice(t.slice, s.left, s.left).UnsafePointer()
	}
	p := s.next
	s.left -= count
	if s.next = nil; s.left > 0 {
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

// CountMap adds to Allocated about what a map of n entries takes that the caller has made: entries
// are in groups of eight, an eighth of them empty.
func (a *Arena) CountMap(n int, entry uintptr) {
	a.Allocated += 48
	if n > 0 {
		a.Allocated += (n + n/7 + 7) / 8 * 8 * int(entry+1)
	}
}
