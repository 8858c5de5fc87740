package compact

import "encoding/binary"

// writer writes the sections of a value.
type writer struct {
	tokens, data, text []byte
	// offsets are the offsets in the text of strings by their hashes.
	offsets map[uint64]int
}

// packSubtree packs a subtree by itself, with the IDs of what is interned of it by now.
func (a *admission) packSubtree(e *encoder, mark int) Value {
	m := &e.marks[mark]
	w := writer{tokens: appendToken(nil, tokenInline, 0), offsets: map[uint64]int{}}
	a.closed = true
	defer func() { a.closed = false }()
	return w.write(a, e, mark+1, m.end, m.data, m.dataEnd)
}

// write puts together what was taken apart, with the IDs of what is interned of it: the marks from
// i to end, and the data between two offsets.
func (w *writer) write(a *admission, e *encoder, i, end, from, to int) Value {
	for i < end {
		m := &e.marks[i]
		if m.codec == nil {
			w.string(a, m)
			i++
		} else if id, ok := a.internSubtree(e, i); ok {
			w.tokens = appendToken(w.tokens, tokenInterned, uint64(id))
			w.data = append(w.data, e.data[from:m.data]...)
			from, i = m.dataEnd, m.end
		} else {
			w.tokens = appendToken(w.tokens, tokenInline, 0)
			i++
		}
	}
	w.data = append(w.data, e.data[from:to]...)
	return newValue(w.tokens, w.data, w.text)
}

// string writes a string: its ID, or where it occurred before in this value, or its text.
func (w *writer) string(a *admission, m *mark) {
	n := len(m.text)
	if n == 0 {
		w.tokens = appendToken(w.tokens, tokenInline, 0)
		return
	}
	hash := a.hash(m)
	// A string that occurs twice in one value is not interned for that.
	at, ok := w.offsets[hash]
	if ok && at+n <= len(w.text) && string(w.text[at:at+n]) == m.text {
		w.tokens = appendToken(w.tokens, tokenRepeat, uint64(at))
		w.tokens = binary.AppendUvarint(w.tokens, uint64(n))
		return
	}
	if id, ok := a.internString(m.text, hash); ok {
		w.tokens = appendToken(w.tokens, tokenInterned, uint64(id))
		return
	}
	w.offsets[hash] = len(w.text)
	w.tokens = appendToken(w.tokens, tokenInline, uint64(n))
	w.text = append(w.text, m.text...)
}

// reset makes the writer ready for the next value.
func (w *writer) reset() {
	clear(w.offsets)
	w.tokens, w.data, w.text = w.tokens[:0], w.data[:0], w.text[:0]
	if cap(w.data)+cap(w.text) > maxRetained {
		*w = writer{offsets: map[uint64]int{}}
	}
}
