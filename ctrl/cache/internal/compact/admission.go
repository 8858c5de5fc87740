package compact

import (
	"hash/maphash"

	"flyball.dev/ctrl/cache/internal/compact/intern"
)

// admission decides what is interned: what came more than once and is worth what its entry costs,
// see admits.
type admission struct {
	table  *intern.Table[*subtree]
	sketch frequencySketch
	seed   maphash.Seed
	// owner is a hash of the object whose value is being packed.
	owner uint8
	// values is the bytes of all values, and count how many there are.
	values, count int
}

const (
	// stringCost and subtreeCost are what an entry of a string and of a subtree cost beside their
	// text; tokenCost is what a value takes to refer to an entry.
	stringCost, subtreeCost, tokenCost = 90, 140, 3
	// stringFrom is the length of strings from which on they may be interned, and subtreeFrom that
	// of subtrees.
	stringFrom, subtreeFrom = 3, 8
	// There may be a debt of debtFrom bytes and of one byte for every debtShare bytes of values.
	debtFrom, debtShare = 4096, 48
)

// internString returns the ID of a string and counts the use. It returns false if the string is not
// interned.
func (a *admission) internString(s string, hash uint64) (uint32, bool) {
	if len(s) < stringFrom {
		return 0, false
	}
	if id, ok := a.table.Lookup(hash); ok {
		if a.table.Entry(id).Text != s {
			return 0, false
		}
		a.table.Retain(id)
		return id, true
	}
	gain, cost := len(s)+1-tokenCost, len(s)+stringCost
	if !a.admits(gain, cost, a.sketch.count(hash, a.owner)) {
		return 0, false
	}
	return a.table.Add(hash, entry{Text: s}, gain, cost), true
}

// internSubtree does the same for the subtree of a mark.
func (a *admission) internSubtree(e *encoder, mark int) (uint32, bool) {
	hash, weight := a.hashSubtree(e, mark)
	if weight < subtreeFrom {
		return 0, false
	}
	codec := e.marks[mark].codec
	if id, ok := a.table.Lookup(hash); ok {
		t := a.table.Entry(id).Value
		if t == nil || t.codec != codec || !equals(e, mark, t.packed) {
			return 0, false
		}
		a.table.Retain(id)
		a.promote(id, t)
		return id, true
	}
	cost, count := weight+subtreeCost, a.sketch.count(hash, a.owner)
	if !a.admits(weight, cost, count) {
		return 0, false
	}
	gain := a.inlineSize(e, mark) - tokenCost
	if !a.admits(gain, cost, count) {
		return 0, false
	}
	t := &subtree{codec: codec, packed: selfContained(e, mark), threshold: uint32(3 * cost)}
	return a.table.Add(hash, entry{Value: t}, gain, cost), true
}

// admits reports whether something is to have an entry that has come a number of times, if a use of
// the entry saves some bytes and the entry costs some.
//
// Nobody knows how often it will come again, and most of what comes a few times never does. So an
// entry must have been worth half of its cost by now, and the debt, which is what entries cost and
// have not saved yet, may be no more than a small share of what the values take: if most things
// come a few times only, the share is soon used up. What has come so often that an entry would have
// saved its cost several times always gets one.
func (a *admission) admits(gain, cost, count int) bool {
	saved := gain * count
	return count > 1 && 2*saved >= cost &&
		(saved >= 4*cost || a.table.Debt()+cost-gain <= debtFrom+a.values/debtShare)
}

// inlineSize returns about how many bytes a subtree takes in a value, which may refer to entries of
// what is in the subtree.
func (a *admission) inlineSize(e *encoder, mark int) int {
	m := &e.marks[mark]
	size := m.dataEnd - m.data
	for i := mark; i < m.end; i++ {
		inner := &e.marks[i]
		hash := a.hash(inner)
		if inner.codec != nil && i > mark {
			hash, _ = a.hashSubtree(e, i)
		}
		if _, ok := a.table.Lookup(hash); !ok {
			size += 1 + len(inner.text)
			continue
		}
		size += tokenCost
		if inner.codec != nil {
			size -= inner.dataEnd - inner.data
			i = inner.end - 1
		}
	}
	return size
}

// promote makes a prototype of a subtree once its uses have saved what that costs. Readers unpack
// the subtree until then.
func (a *admission) promote(id uint32, t *subtree) {
	saved := a.table.Saved(id)
	if saved < int(t.threshold) || t.prototype.Load() != nil {
		return
	}
	p, size := newPrototype(t)
	if t.threshold = uint32(a.table.Cost(id) + size); saved < int(t.threshold) {
		return
	}
	a.table.Grow(id, size)
	t.prototype.Store(p)
}

// packed counts a value.
func (a *admission) packed(v Value) {
	a.values += v.Size()
	if a.count++; a.count > len(a.sketch)/countersOfValue {
		a.sketch = a.sketch.grown()
	}
}

// released counts a value less, and frees entries without uses if they are many.
func (a *admission) released(v Value) {
	a.values -= v.Size()
	a.count--
	a.table.Free()
}

// hashSubtree returns a hash of a subtree and about how many bytes it has.
func (a *admission) hashSubtree(e *encoder, mark int) (hash uint64, weight int) {
	m := &e.marks[mark]
	data := e.data[m.data:m.dataEnd]
	hash, weight = maphash.Bytes(a.seed, data), len(data)
	for i := mark; i < m.end; i++ {
		inner := &e.marks[i]
		weight += len(inner.text)
		hash = (hash ^ a.hash(inner)) * 0x9e3779b97f4a7c15
		hash ^= hash >> 29
	}
	return hash, weight
}

// hash returns the hash of a mark's string.
func (a *admission) hash(m *mark) uint64 {
	if m.hash == 0 && m.text != "" {
		m.hash = maphash.String(a.seed, m.text)
	}
	return m.hash
}

// selfContained returns a subtree as a value that shares nothing.
func selfContained(e *encoder, mark int) Value {
	m := &e.marks[mark]
	var tokens, text []byte
	for _, inner := range e.marks[mark:m.end] {
		tokens = appendToken(tokens, tokenInline, uint64(len(inner.text)))
		text = append(text, inner.text...)
	}
	return newValue(tokens, e.data[m.data:m.dataEnd], text)
}

// equals reports whether a subtree, as a value that shares nothing, is that value.
func equals(e *encoder, mark int, v Value) bool {
	m := &e.marks[mark]
	at, data, text := v.sections()
	if v.code[data:text] != string(e.data[m.data:m.dataEnd]) {
		return false
	}
	for _, inner := range e.marks[mark:m.end] {
		if at == data {
			return false
		}
		var token uint64
		token, at = uvarint(v.code, at)
		n := int(token >> tokenBits)
		if n != len(inner.text) || v.code[text:text+n] != inner.text {
			return false
		}
		text += n
	}
	return at == data
}
