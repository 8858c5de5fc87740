package compact

import "encoding/binary"

// writer writes the sections of a value.
type writer struct {
	sections
	// header are the given strings and the strings of the header.
	header []string
	// places are where strings are by their hashes: the offsets in the text, or, if they are
	// negative, those in the header from -1 downward.
	places map[uint64]int
}

// packSubtree packs a subtree by itself, with the IDs of the parts that are interned by now.
func (a *admission) packSubtree(e *encoder, mark int) Value {
	m := &e.marks[mark]
	w := writer{sections: sections{tokens: appendToken(nil, tokenInline, 0)}, places: map[uint64]int{}}
	a.closed = true
	defer func() { a.closed = false }()
	return w.write(a, e, mark+1, m.end, m.data, m.dataEnd)
}

// give makes strings known that the value need not contain.
func (w *writer) give(a *admission, given []string) {
	for _, s := range given {
		w.addHeader(a.hash(&mark{text: s}), s)
	}
}

// writeHeader writes the strings of a header, which are the first marks.
func (w *writer) writeHeader(a *admission, marks []mark) {
	for i := range marks {
		m := &marks[i]
		hash := a.hash(m)
		if id, ok := a.internString(m.text, hash); ok {
			w.tokens = appendToken(w.tokens, tokenInterned, uint64(id))
		} else {
			w.tokens = appendToken(w.tokens, tokenInline, uint64(len(m.text)))
			w.head = append(w.head, m.text...)
		}
		w.addHeader(hash, m.text)
	}
}

func (w *writer) addHeader(hash uint64, s string) {
	w.header = append(w.header, s)
	if _, ok := w.places[hash]; !ok && s != "" {
		w.places[hash] = -len(w.header)
	}
}

// write puts a value together from the marks from i to end and the data between two offsets, with the
// IDs of its interned parts.
func (w *writer) write(a *admission, e *encoder, i, end, from, to int) Value {
	slowEnd := i // the parts of a slow subtree are not counted again
	for i < end {
		m := &e.marks[i]
		if m.codec == nil {
			w.string(a, m)
			i++
		} else if id, ok := a.internSubtree(e, i); ok {
			w.tokens = appendToken(w.tokens, tokenInterned, uint64(id))
			w.data = append(w.data, e.data[from:m.data]...)
			from, i = m.dataEnd, m.end
		} else if m.kept != nil && !a.closed {
			w.tokens = appendToken(w.tokens, tokenKept, uint64(len(w.kept)))
			w.data = append(w.data, e.data[from:m.data]...)
			from, i = m.dataEnd, m.end
			t, size := newKept(m)
			w.kept, w.keptSize = append(w.kept, t), w.keptSize+size
		} else {
			w.tokens = appendToken(w.tokens, tokenInline, 0)
			if m.slow > 0 && i >= slowEnd {
				w.slow += m.slow * m.steps(i)
				slowEnd = m.end
			}
			i++
		}
	}
	w.data = append(w.data, e.data[from:to]...)
	return w.value()
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
	place, ok := w.places[hash]
	switch {
	case ok && place < 0 && w.header[-place-1] == m.text:
		w.tokens = appendToken(w.tokens, tokenHeader, uint64(-place-1))
		return
	case ok && place >= 0 && string(w.textAt(place, n)) == m.text:
		w.tokens = appendToken(w.tokens, tokenRepeat, uint64(place))
		w.tokens = binary.AppendUvarint(w.tokens, uint64(n))
		return
	}
	if id, ok := a.internString(m.text, hash); ok {
		w.tokens = appendToken(w.tokens, tokenInterned, uint64(id))
		return
	}
	w.tokens = appendToken(w.tokens, tokenInline, uint64(n))
	w.places[hash] = w.appendText(m.text)
}

// reset makes the writer ready for the next value.
func (w *writer) reset() {
	clear(w.places)
	clear(w.header)
	w.tokens, w.data, w.head, w.text = w.tokens[:0], w.data[:0], w.head[:0], w.text[:0]
	clear(w.kept)
	w.cuts, w.header, w.kept, w.keptSize, w.slow = w.cuts[:0], w.header[:0], w.kept[:0], 0, 0
	if cap(w.data)+cap(w.text) > maxRetained {
		*w = writer{places: map[uint64]int{}}
	}
}
