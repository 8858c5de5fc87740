package compact

import "encoding/binary"

// A string is a token: its place in the dictionary; or its length if it is the
// next of the value's own text; or, if it came there before, where that was, which
// is followed by its length.
const (
	tokenBits   = 2
	tokenMask   = 1<<tokenBits - 1
	tokenOwn    = 0
	tokenShared = 1
	tokenAgain  = 2
)

// encoder builds one packed value.
type encoder struct {
	packer              *Packer
	text, strings, data []byte
	// own are the places of the value's own strings in its text.
	own    map[string]uint64
	failed bool
}

func (e *encoder) reset() {
	e.text, e.strings, e.data = e.text[:0], e.strings[:0], e.data[:0]
	clear(e.own)
	e.failed = false
}

func (e *encoder) fail() { e.failed = true }

func (e *encoder) byte(b byte) { e.data = append(e.data, b) }

func (e *encoder) uint(x uint64) { e.data = binary.AppendUvarint(e.data, x) }

func (e *encoder) int(x int64) { e.data = binary.AppendVarint(e.data, x) }

func (e *encoder) token(kind, x uint64) {
	e.strings = binary.AppendUvarint(e.strings, x<<tokenBits|kind)
}

func (e *encoder) string(s string) {
	if s == "" {
		e.token(tokenOwn, 0)
		return
	}
	if n, ok := e.own[s]; ok {
		e.token(tokenAgain, n)
		e.strings = binary.AppendUvarint(e.strings, uint64(len(s)))
		return
	}
	if place, ok := e.packer.dictionary.use(s); ok {
		e.token(tokenShared, uint64(place))
		return
	}
	e.own[s] = uint64(len(e.text))
	e.token(tokenOwn, uint64(len(s)))
	e.text = append(e.text, s...)
}
