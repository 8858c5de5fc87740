package compact

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"unsafe"
)

// dictionary holds the strings and the parts that packed values share, and how
// often each is shared. What comes for the first time is left to its value; only
// when it comes again, and is worth it, it gets a place here: see worth.
//
// A place is given to something else only in a new copy of entries, so whoever
// holds an older copy can read on.
type dictionary struct {
	entries []entry
	records []record
	// places are those of what has one, by hash.
	places map[uint64]uint32
	// idle are places that were without use at some time since they were freed last;
	// free are places without anything in them.
	idle, free []uint32
	// changed is set when readers need to know of new entries.
	changed bool
	// size is the bytes that places take, and debt those of them that sharing has
	// not saved. values is the bytes of all values, and count how many there are.
	size, debt, values, count int

	seed      maphash.Seed
	sightings frequencySketch
	// owner is whose value is being packed.
	owner uint8
}

// entry is what readers need to know of a place: a string or a part.
type entry struct {
	text    string
	subtree *subtree
}

// subtree is a part that is shared: as a value that shares nothing and, if that is
// worth it, as a model to copy.
type subtree struct {
	codec     *subtreeCodec
	packed    Value
	prototype atomic.Pointer[prototype]
}

// prototype is a variable that holds a part, and how it is copied at one go, if it is.
type prototype struct {
	variable unsafe.Pointer
	image    *relocatable
}

// newPrototype returns the model of a part, and how many bytes there are to it.
func newPrototype(sh *subtree) (*prototype, int) {
	made := decoder{arena: slabs{single: true}}
	made.open(sh.packed)
	variable := sh.codec.variable()
	sh.codec.decode(&made, variable)
	m, size := &prototype{variable, newRelocatable(sh.codec.codec, variable)}, made.arena.made+modelCost
	if m.image != nil {
		size += imageCost + linkCost*(len(m.image.relocations)+len(m.image.fixups))
	}
	return m, size
}

// unalias gives a variable that is a shallow copy of the model what it leads to.
func (m *prototype) unalias(d *decoder, p codec, variable unsafe.Pointer) {
	if m.image != nil {
		m.image.copyInto(d, variable)
	} else {
		p.unalias(d, variable)
	}
}

// record is what else there is to know of a place: what its uses save each, what it
// costs, and what must have been saved before a model is thought of.
type record struct {
	hash                    uint64
	uses, gain, cost, model uint32
}

// debt is what a place costs and has not saved yet.
func (r *record) debt() int { return max(0, int(r.cost)-r.saved()) }

func (r *record) saved() int { return int(r.uses) * int(r.gain) }

// idleAtLeast is how many places must be idle before it pays to free them. Tests lower it.
var idleAtLeast = 64

const (
	// textCost and partCost are what a string and a part take here beside their
	// text, modelCost, imageCost and linkCost what a model takes beside its
	// variables. tokenCost is what a value takes to say which place it means.
	textCost, partCost, modelCost, imageCost, linkCost, tokenCost = 90, 140, 50, 100, 40, 3
	// textFrom is the length of strings from which on they may be shared, and
	// partFrom that of parts.
	textFrom, partFrom = 3, 8
	// There may be a debt of debtFrom bytes and of one byte for every debtShare
	// bytes of values.
	debtFrom, debtShare = 4096, 48
)

func newDictionary() dictionary {
	return dictionary{places: map[uint64]uint32{}, seed: maphash.MakeSeed(), sightings: make(frequencySketch, sightingsAtLeast)}
}

// text returns the place of a string and counts the use. It returns false if the
// string has none.
func (d *dictionary) text(s string, hash uint64) (uint32, bool) {
	if len(s) < textFrom {
		return 0, false
	}
	if place, ok := d.places[hash]; ok {
		if d.entries[place].text != s {
			return 0, false
		}
		d.use(place, 1)
		return place, true
	}
	gain, cost := len(s)+1-tokenCost, len(s)+textCost
	if !d.worth(gain, cost, d.sightings.count(hash, d.owner)) {
		return 0, false
	}
	return d.add(entry{text: strings.Clone(s)}, record{hash: hash, gain: uint32(gain), cost: uint32(cost)}), true
}

// part does the same for a part of a value.
func (d *dictionary) part(e *encoder, part int) (uint32, bool) {
	hash, weight := d.sum(e, part)
	if weight < partFrom {
		return 0, false
	}
	plan := e.marks[part].codec
	if place, ok := d.places[hash]; ok {
		if sh := d.entries[place].subtree; sh == nil || sh.codec != plan || !e.equals(part, sh.packed) {
			return 0, false
		}
		d.use(place, 1)
		d.promote(place)
		return place, true
	}
	cost, count := weight+partCost, d.sightings.count(hash, d.owner)
	if !d.worth(weight, cost, count) {
		return 0, false
	}
	gain := d.inline(e, part) - tokenCost
	if !d.worth(gain, cost, count) {
		return 0, false
	}
	r := record{hash: hash, gain: uint32(gain), cost: uint32(cost), model: uint32(3 * cost)}
	return d.add(entry{subtree: &subtree{codec: plan, packed: e.selfContained(part)}}, r), true
}

// worth tells whether something is to have a place that has come a number of times,
// if a use of the place saves some bytes and the place costs some.
//
// Nobody knows how often it will come again, and most of what comes a few times
// never does. So a place must have been worth half of its cost by now, and what the
// places cost and have not saved yet may be no more than a small share of what the
// values take: if most things come a few times only, the share is soon used up. What
// has come so often that a place would have saved its cost several times always gets
// one.
func (d *dictionary) worth(gain, cost, count int) bool {
	saved := gain * count
	return count > 1 && 2*saved >= cost && (saved >= 4*cost || d.debt+cost-gain <= debtFrom+d.values/debtShare)
}

// inline returns about how many bytes a part takes in a value, which may share what
// is in the part.
func (d *dictionary) inline(e *encoder, part int) int {
	m := &e.marks[part]
	size := m.dataEnd - m.data
	for i := part; i < m.end; i++ {
		inner := &e.marks[i]
		hash := d.hash(inner)
		if inner.codec != nil && i > part {
			hash, _ = d.sum(e, i)
		}
		if _, ok := d.places[hash]; !ok {
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

// promote makes a model of a part once its uses have saved what that costs. Readers
// unpack the part as it is until then.
func (d *dictionary) promote(place uint32) {
	r, sh := &d.records[place], d.entries[place].subtree
	if r.saved() < int(r.model) || sh.prototype.Load() != nil {
		return
	}
	m, size := newPrototype(sh)
	if r.model = r.cost + uint32(size); r.saved() < int(r.model) {
		return
	}
	d.size += size
	r.cost += uint32(size)
	sh.prototype.Store(m)
}

// use counts that a place is used more often, or less.
func (d *dictionary) use(place uint32, more int) {
	r := &d.records[place]
	d.debt -= r.debt()
	r.uses += uint32(more)
	d.debt += r.debt()
}

func (d *dictionary) add(e entry, r record) uint32 {
	r.uses = 1
	var place uint32
	if n := len(d.free); n > 0 {
		// Nobody has seen the place since it was freed: see released.
		place, d.free = d.free[n-1], d.free[:n-1]
		d.entries[place], d.records[place] = e, r
	} else {
		place = uint32(len(d.entries))
		d.entries, d.records = append(d.entries, e), append(d.records, r)
	}
	d.places[r.hash] = place
	d.size += int(r.cost)
	d.debt += r.debt()
	d.changed = true
	return place
}

func (d *dictionary) release(place uint32) {
	if d.records[place].uses == 0 {
		panic("compact: a value was released twice")
	}
	d.use(place, -1)
	if d.records[place].uses == 0 {
		d.idle = append(d.idle, place)
	}
}

// packed notes that there is one more value.
func (d *dictionary) packed(v Value) {
	d.values += v.Size()
	if d.count++; d.count > len(d.sightings)/sightingsOfValue {
		d.sightings = d.sightings.grown()
	}
}

// released notes that there is one value less. It frees the idle places once they
// are many, at a cost that is in proportion to them.
func (d *dictionary) released(v Value) {
	d.values -= v.Size()
	d.count--
	if len(d.idle) < idleAtLeast || len(d.idle) < len(d.entries)/4 {
		return
	}
	// The places that were free until now go on waiting, as they are in the
	// copies that readers hold; in the new copy they can be filled, because
	// nobody can read it at a place before a value uses that.
	entries := make([]entry, len(d.entries), cap(d.entries))
	copy(entries, d.entries)
	d.entries, d.changed = entries, true
	for _, place := range d.idle {
		r := &d.records[place]
		if r.uses > 0 || d.entries[place] == (entry{}) {
			continue
		}
		delete(d.places, r.hash)
		d.size -= int(r.cost)
		d.debt -= r.debt()
		d.entries[place], *r = entry{}, record{}
		d.free = append(d.free, place)
	}
	d.idle = nil
}
