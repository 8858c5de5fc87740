package compact

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// Value is a packed value. The zero Value holds nothing. FORMAT.md describes the bytes.
//
// A string that is read refers to the memory that it is kept in, which stays as long as the string
// does. So what readers keep for long is apart from the rest: the strings of the header have a
// memory of their own, and the text of a large value is in pieces.
type Value struct {
	code string
	// head is the text of the header.
	head string
	// apart is set if there is more.
	apart *apart
}

// apart has the parts of a value that are not in its code.
type apart struct {
	// pieces are the text of a large value. A string is in one piece; one that is longer than
	// maxPiece is a piece of its own.
	pieces []string
	// kept are the maps that are kept as Go values, and size is about how many bytes they take.
	kept []*subtree
	size int
	// slow is set if unpacking the value takes longer than copying it.
	slow bool
}

// large reports whether the text is in pieces.
func (a *apart) large() bool { return a != nil && a.pieces != nil }

const (
	// maxPiece is how many bytes of text are kept together in a large value, and maxSmall how many
	// bytes a value has at most that is not large.
	maxPiece, maxSmall = 1 << 10, 2 << 10
	// apartCost and pieceCost are about how many bytes a large value and each piece take beside the
	// text.
	apartCost, pieceCost = 48, 32
)

// IsZero reports whether the value holds nothing.
func (v Value) IsZero() bool { return v.code == "" }

// Slow reports whether unpacking the value takes longer than a deep copy of it, as it consists of a slice
// or map of many elements with few variables, for the most part.
func (v Value) Slow() bool { return v.apart != nil && v.apart.slow }

// Size returns how many bytes the value takes, without the parts that it shares.
func (v Value) Size() int {
	size := len(v.code) + len(v.head)
	if v.apart != nil {
		size += apartCost + v.apart.size
		for _, piece := range v.apart.pieces {
			size += len(piece) + pieceCost
		}
	}
	return size
}

// sections are the sections of a value.
type sections struct {
	tokens, data, head, text []byte
	// cuts are the offsets in the text at which its pieces but the first one begin.
	cuts []int
	kept []*subtree
	// keptSize is about how many bytes the kept subtrees take.
	keptSize int
	// slow are the steps that slow subtrees take, by their weight.
	slow int
}

// value puts the sections of a value together.
//
// Unsafe: nobody writes to code any more once it is a string.
func (s *sections) value() Value {
	text := s.text
	var a *apart
	if len(s.kept) > 0 {
		a = &apart{kept: slices.Clone(s.kept), size: s.keptSize}
	}
	if 2*s.slow > len(s.data)+len(s.tokens) {
		if a == nil {
			a = &apart{}
		}
		a.slow = true
	}
	if len(s.cuts) > 0 || len(s.tokens)+len(s.data)+len(s.text) > maxSmall {
		if a == nil {
			a = &apart{}
		}
		a.pieces, text = s.pieces(), nil
	}
	code := make([]byte, 0, 2*binary.MaxVarintLen32+len(s.tokens)+len(s.data)+len(text))
	code = binary.AppendUvarint(code, uint64(len(s.tokens)))
	code = binary.AppendUvarint(code, uint64(len(s.data)))
	code = append(code, s.tokens...)
	code = append(code, s.data...)
	code = append(code, text...)
	return Value{unsafe.String(unsafe.SliceData(code), len(code)), string(s.head), a}
}

// pieces returns the text in pieces.
func (s *sections) pieces() []string {
	pieces := make([]string, 0, len(s.cuts)+1)
	from := 0
	for _, to := range s.cuts {
		pieces = append(pieces, string(s.text[from:to]))
		from = to
	}
	return append(pieces, string(s.text[from:]))
}

// appendText adds a string to the text and returns its offset. Pieces begin at multiples of
// maxPiece.
func (s *sections) appendText(text string) (offset int) {
	from := 0
	if n := len(s.cuts); n > 0 {
		from = s.cuts[n-1]
	}
	if len(s.text) > from && len(s.text)-from+len(text) > maxPiece {
		from = len(s.text)
		s.cuts = append(s.cuts, from)
	}
	offset = len(s.cuts)*maxPiece + len(s.text) - from
	s.text = append(s.text, text...)
	return offset
}

// textAt returns the text of a length at an offset that appendText has returned, or less if there is
// less.
func (s *sections) textAt(offset, length int) []byte {
	if cut := offset / maxPiece; cut > 0 {
		offset = s.cuts[cut-1] + offset%maxPiece
	}
	return s.text[offset:min(offset+length, len(s.text))]
}

// sections returns where the tokens, the data and the text begin.
func (v Value) sections() (tokens, data, text int) {
	n, at := uvarint(v.code, 0)
	m, at := uvarint(v.code, at)
	return at, at + int(n), at + int(n) + int(m)
}

// A token is one of four: the ID of an entry of the intern table; or the length of a string that
// comes next in the value's own text; or, if the string came there before, its offset there, and a
// number that is its length follows; or the number of a string that is given or in the header. A
// subtree that is neither interned nor kept has the token of an empty string, and its content
// follows; the token of a kept subtree is its number.
const (
	tokenBits     = 2
	tokenMask     = 1<<tokenBits - 1
	tokenInline   = 0
	tokenInterned = 1
	tokenRepeat   = 2
	tokenHeader   = 3
	tokenKept     = 3
)

func appendToken(tokens []byte, kind, x uint64) []byte {
	return binary.AppendUvarint(tokens, x<<tokenBits|kind)
}

// uvarint reads a number at an offset and returns the offset of what follows it.
func uvarint(s string, at int) (uint64, int) {
	if b := s[at]; b < 0x80 {
		return uint64(b), at + 1
	}
	return longUvarint(s, at)
}

func longUvarint(s string, at int) (x uint64, next int) {
	for shift := 0; ; shift += 7 {
		b := s[at]
		at++
		x |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return x, at
		}
	}
}
