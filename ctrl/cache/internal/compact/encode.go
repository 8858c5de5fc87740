package compact

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"
)

// encoder takes a value apart into data, and a mark for each string and each subtree that may be
// interned. It decides nothing about interning, and knows no types: codecs call it.
type encoder struct {
	data   []byte
	marks  []mark
	keys   []string
	depth  int
	failed bool
	// variables is how many variables the value consists of that are allocated by themselves.
	variables int
}

// mark is a string, or a subtree of the value with the marks in it.
type mark struct {
	text string
	// hash is the hash of the text, zero if it is not computed yet.
	hash uint64
	// codec is the codec of a subtree, nil for a string.
	codec any
	// The subtree's data is from data to dataEnd, and the marks in it are before end.
	data, dataEnd, end int
	// variables are the variables of the value before the subtree.
	variables int
	// kept is the variable of the subtree, a map, if that is to be kept as a Go value.
	kept unsafe.Pointer
	// slow is the weight of the subtree's steps if unpacking it takes longer than copying it, and else zero.
	slow int
}

// steps is about how many steps unpacking a subtree takes that has ended, which is mark i: one for each
// byte of data, each string and each subtree in it.
func (m *mark) steps(i int) int { return m.dataEnd - m.data + m.end - i }

func (e *encoder) reset() {
	clear(e.marks)
	clear(e.keys[:cap(e.keys)])
	e.data, e.marks, e.keys, e.depth, e.failed, e.variables = e.data[:0], e.marks[:0], e.keys[:0], 0, false, 0
	if cap(e.data) > maxRetained || cap(e.marks) > maxRetained/64 {
		*e = encoder{}
	}
}

const (
	// What refers to itself, or to one thing on very many paths, is not packed: its encoding would
	// be infinite, or very large.
	maxDepth, maxData, maxMarks = 1000, 8 << 20, 1 << 20
	// maxRetained is about how many bytes of buffers are retained for the next value.
	maxRetained = 1 << 20
)

// enter goes one level deeper, into a subtree. It returns false if the value is too deep or too
// large, and so fails.
func (e *encoder) enter() bool {
	if e.depth == maxDepth || len(e.data) > maxData || len(e.marks) > maxMarks {
		e.fail()
	}
	if e.failed {
		return false
	}
	e.depth++
	return true
}

func (e *encoder) fail() { e.failed = true }

func (e *encoder) byte(b byte) { e.data = append(e.data, b) }

func (e *encoder) bool(b bool) {
	if b {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (e *encoder) uint(x uint64) { e.data = binary.AppendUvarint(e.data, x) }

// length writes the length of something that could be nil, for which it writes
// zero otherwise.
func (e *encoder) length(n int) { e.uint(uint64(n) + 1) }

func (e *encoder) int(x int64) { e.data = binary.AppendVarint(e.data, x) }

func (e *encoder) float(x float64) {
	e.data = binary.BigEndian.AppendUint64(e.data, math.Float64bits(x))
}

func (e *encoder) float32(x float32) {
	e.data = binary.BigEndian.AppendUint32(e.data, math.Float32bits(x))
}

func (e *encoder) string(s string) { e.marks = append(e.marks, mark{text: s}) }

// sorted calls a function with the keys of a map in order. The function may call
// sorted in turn.
func sorted[K ~string, V any](e *encoder, m map[K]V, do func(key string)) {
	from := len(e.keys)
	for key := range m {
		e.keys = append(e.keys, string(key))
	}
	to := len(e.keys)
	slices.Sort(e.keys[from:to])
	for i := from; i < to; i++ {
		do(e.keys[i])
	}
	e.keys = e.keys[:from]
}

// begin begins a subtree and returns its mark, end ends it.
func (e *encoder) begin(codec any) int {
	e.marks = append(e.marks, mark{codec: codec, data: len(e.data), variables: e.variables})
	return len(e.marks) - 1
}

func (e *encoder) end(subtree int) {
	e.depth--
	e.marks[subtree].dataEnd, e.marks[subtree].end = len(e.data), len(e.marks)
}

// keeps reports whether a subtree, or one in it, is to be kept as a Go value.
func (e *encoder) keeps(subtree int) bool {
	marks := e.marks[subtree:e.marks[subtree].end]
	return slices.ContainsFunc(marks, func(m mark) bool { return m.kept != nil })
}

const (
	// A slice or map of fewer elements than minKept is never kept nor slow, and one of fewer than
	// minDecoded is packed however long unpacking it takes.
	minKept, minDecoded = 64, 256
	// Unpacking takes no longer than copying if there are at most stepsPerVariable bytes of data,
	// strings and subtrees for each variable that is allocated.
	stepsPerVariable = 3
	// blockWeight is the weight of the steps of a slice that is copied as one block of memory, in a fraction of the time
	// that other variables take.
	blockWeight = 4
)

// weigh decides what happens to a slice or map that has ended and has a number of elements. Copying a
// long one takes less time than unpacking it if it consists of few variables. If it is the only one,
// and is a map, which is cloned in less time than it is filled, it is kept as a Go value unless it is
// interned. Otherwise the value is not packed if it is very long, and is slow if not.
//
// Unsafe: the variable is of the subtree's type, and stays as it is until the value is packed.
func (e *encoder) weigh(subtree, elements int, isMap bool, variable unsafe.Pointer) {
	m := &e.marks[subtree]
	variables, steps := e.variables-m.variables, m.steps(subtree)
	switch {
	case elements < minKept:
	case variables == 1 && isMap:
		m.kept = variable
	case variables == 1 && elements < minDecoded:
		m.slow = blockWeight
	case steps <= stepsPerVariable*variables:
	case elements < minDecoded:
		m.slow = 1
	default:
		e.fail()
	}
}
