package compact

import (
	"hash/maphash"

	"flyball.dev/ctrl/cache/internal/compact/intern"
)

// admission is the admission policy of the intern table. It admits a string or subtree that has
// occurred more than once and saves the cost of its entry. See admits.
type admission struct {
	table  *intern.Table[*subtree]
	sketch frequencySketch
	seed   maphash.Seed
	// owner is a hash of the identity of the object that is being packed.
	owner uint8
	// closed is set while nothing new is interned.
	closed bool
	// values is the size of all values in bytes, and count their number.
	values, count int
}

const (
	// stringCost and subtreeCost are the bytes of an entry of a string and of a subtree beside their
	// text, and tokenCost the bytes of a reference to an entry.
	stringCost, subtreeCost, tokenCost = 90, 172, 3
	// Strings shorter than minString and subtrees smaller than minSubtree are never interned.
	minString, minSubtree = 3, 8
	// The debt may be baseDebt bytes and one byte for every debtShare bytes of values. The base
	// lets the first templates of a store be interned at once, so that few objects are packed
	// without them.
	baseDebt, debtShare = 16 << 10, 48
)

// internString returns the ID of a string and counts the use. It returns false if the string is not
// interned.
func (a *admission) internString(s string, hash uint64) (uint32, bool) {
	if len(s) < minString {
		return 0, false
	}
	if id, ok := a.table.Lookup(hash); ok {
		if a.table.Entry(id).Text != s {
			return 0, false
		}
		a.table.Retain(id)
		return id, true
	}
	if a.closed {
		return 0, false
	}
	gain, cost := len(s)+1-tokenCost, len(s)+stringCost
	if !a.admits(gain, cost, a.sketch.count(hash, a.owner)) {
		return 0, false
	}
	return a.table.Add(hash, entry{Text: s}, gain, cost), true
}

// internSubtree does the same for the subtree that begins at a mark.
func (a *admission) internSubtree(e *encoder, mark int) (uint32, bool) {
	hash, weight := a.hashSubtree(e, mark)
	if weight < minSubtree {
		return 0, false
	}
	codec := e.marks[mark].codec
	if id, ok := a.table.Lookup(hash); ok {
		t := a.table.Entry(id).Value
		if t == nil || t.codec != codec || !a.equals(e, mark, t.packed) {
			return 0, false
		}
		a.table.Retain(id)
		a.promote(id, t)
		return id, true
	}
	if a.closed {
		return 0, false
	}
	count := a.sketch.count(hash, a.owner)
	if !a.admits(weight, weight+subtreeCost, count) {
		return 0, false
	}
	inline := a.inlineSize(e, mark)
	if !a.admits(inline-tokenCost, inline+subtreeCost, count) {
		return 0, false
	}
	packed := a.packSubtree(e, mark)
	cost := packed.Size() + subtreeCost
	t := &subtree{codec: codec, packed: packed, threshold: uint32(3 * cost)}
	id := a.table.Add(hash, entry{Value: t}, inline-tokenCost, cost)
	if e.keeps(mark) {
		a.addPrototype(id, t)
	}
	return id, true
}

// admits reports whether a string or subtree that occurred count times gets an entry, if each use
// of the entry saves gain bytes and the entry costs cost bytes.
//
// Most strings and subtrees that occur a few times never occur again. So an entry must have been
// worth half of its cost by now, and the debt, the cost that the entries have not saved yet, may be
// only a small share of the size of the values. A string or subtree always gets an entry if it has
// occurred so often that the entry would have saved its cost several times.
func (a *admission) admits(gain, cost, count int) bool {
	saved := gain * count
	return count > 1 && 2*saved >= cost &&
		(saved >= 4*cost || a.table.Debt()+cost-gain <= baseDebt+a.values/debtShare)
}

// inlineSize returns about how many bytes a subtree takes in a value, which may refer to entries of
// the strings and subtrees in it.
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

// promote makes a prototype of a subtree once its uses have saved the cost of it. Readers unpack
// the subtree until then.
func (a *admission) promote(id uint32, t *subtree) {
	saved := a.table.Saved(id)
	if saved < int(t.threshold) || t.prototype.Load() != nil {
		return
	}
	p, size := newPrototype(a.table.Current(), t)
	if t.threshold = uint32(a.table.Cost(id) + size); saved < int(t.threshold) {
		return
	}
	a.table.Grow(id, size)
	t.prototype.Store(p)
}

// addPrototype makes a prototype of a subtree that takes longer to unpack than to copy.
func (a *admission) addPrototype(id uint32, t *subtree) {
	p, size := newPrototype(a.table.Current(), t)
	a.table.Grow(id, size)
	t.prototype.Store(p)
}

// added counts a value that was packed.
func (a *admission) added(v Value) {
	a.values += v.Size()
	if a.count++; a.count > len(a.sketch)/countersPerValue {
		a.sketch = a.sketch.grown()
	}
}

// removed counts a value that was released, and frees entries without uses if they are many.
func (a *admission) removed(v Value) {
	a.values -= v.Size()
	a.count--
	if n := len(a.sketch); n > minCounters && a.count < n/countersPerValue/shrinkShare {
		a.sketch = a.sketch.shrunk()
	}
	a.table.Free(a.freed)
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

// equals reports whether a subtree has the same content as one that was packed by itself.
func (a *admission) equals(e *encoder, mark int, packed Value) bool {
	m := &e.marks[mark]
	d := decoder{entries: a.table.Current()}
	d.open(packed)
	tokens := d.data
	_, _, end := packed.sections()
	d.subtree() // its own token
	from := m.data
	for i := mark + 1; i < m.end; {
		inner := &e.marks[i]
		if d.token == tokens {
			return false
		}
		if inner.codec == nil {
			if d.string() != inner.text {
				return false
			}
			i++
			continue
		}
		t := d.subtree()
		if t == nil {
			i++
			continue
		}
		if t.codec != inner.codec || !a.equals(e, i, t.packed) || !d.skip(e.data[from:inner.data], end) {
			return false
		}
		from, i = inner.dataEnd, inner.end
	}
	return d.token == tokens && d.skip(e.data[from:m.dataEnd], end) && d.data == end
}

// releaseAll releases every entry that a value refers to.
func (a *admission) releaseAll(v Value) {
	at, end, _ := v.sections()
	for at < end {
		var token uint64
		token, at = uvarint(v.code, at)
		switch token & tokenMask {
		case tokenInterned:
			a.table.Release(uint32(token >> tokenBits))
		case tokenRepeat:
			_, at = uvarint(v.code, at)
		}
	}
}

// freed releases the entries that a freed entry refers to.
func (a *admission) freed(t *subtree) {
	if t != nil {
		a.releaseAll(t.packed)
	}
}
