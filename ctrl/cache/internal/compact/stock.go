package compact

import (
	"reflect"
	"unsafe"
)

// slabs makes variables in batches. Variables that were made one after the other
// stay in memory together.
type slabs struct {
	// shelves are what is left of batches, by the number of the node.
	shelves []shelf
	text    []byte
	// made is how many bytes were taken.
	made int
	// single makes every variable for itself, as what stays for long must be.
	single bool
}

type shelf struct {
	next       unsafe.Pointer
	left, last int
}

const (
	// A batch has twice as many variables as the last one of the type, so that
	// not many are left over. It begins with batchFrom and ends with batchTo, or
	// with as many as fit in batchBytes.
	batchFrom, batchTo = 4, 16
	batchBytes         = 4096
	textBatch          = 16 << 10
)

// empty is where empty slices point to.
var empty struct{}

// variables returns zero variables, one after the other.
func (s *slabs) variables(n *node, count int) unsafe.Pointer {
	s.made += count * int(n.size)
	switch {
	case count == 0:
		return unsafe.Pointer(&empty)
	case !s.single && uintptr(count+1)*n.size <= batchBytes:
		return s.fromBatch(n, count)
	default:
		return reflect.MakeSlice(n.slice, count, count).UnsafePointer()
	}
}

func (s *slabs) fromBatch(n *node, count int) unsafe.Pointer {
	if n.number >= len(s.shelves) {
		s.shelves = append(s.shelves, make([]shelf, n.number+1-len(s.shelves))...)
	}
	sh := &s.shelves[n.number]
	if sh.left < count {
		sh.last = min(max(batchFrom, 2*sh.last), batchTo, batchBytes/max(1, int(n.size)))
		sh.left = max(count, sh.last)
		sh.next = reflect.MakeSlice(n.slice, sh.left, sh.left).UnsafePointer()
	}
	p := sh.next
	sh.left -= count
	if sh.next = nil; sh.left > 0 {
		sh.next = unsafe.Add(p, uintptr(count)*n.size)
	}
	return p
}

// tookMap counts about what a map takes: eight entries together, an eighth of them
// empty.
func (s *slabs) tookMap(n int, entry uintptr) {
	s.made += 48
	if n > 0 {
		s.made += (n + n/7 + 7) / 8 * 8 * int(entry+1)
	}
}

// bytes returns an empty slice that has room for that many bytes and no more.
func (s *slabs) bytes(n int) []byte {
	s.made += n
	if s.single || n == 0 || n > textBatch/4 {
		return make([]byte, 0, n)
	}
	if len(s.text) < n {
		s.text = make([]byte, textBatch)
	}
	b := s.text[:0:n]
	s.text = s.text[n:]
	return b
}
