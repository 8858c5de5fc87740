package compact

import (
	"hash/maphash"
	"strings"
	"unsafe"
)

// dictionary holds the strings and the parts that packed values share, and how
// often each is shared. What comes for the first time is left to its value; only
// when it comes again it is worth a place here.
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
	size       int
	// changed is set when readers need to know of new entries.
	changed bool

	seed maphash.Seed
	// sightings are upper bits of the hashes of what came not long ago, a few
	// bits of whose it was, and how often it was somebody else's.
	sightings []uint32
	// owner is whose value is being packed.
	owner uint8
	// values is how many values there are.
	values int
}

// entry is what readers need to know of a place: a string or a part.
type entry struct {
	text string
	part *shared
}

// shared is a part that is shared: a variable that holds it, and how it is copied
// at one go, if it is.
type shared struct {
	variable unsafe.Pointer
	image    *image
}

// own gives a variable that is a shallow copy of that of a part what it leads to.
func (s *shared) own(d *decoder, p plan, variable unsafe.Pointer) {
	if s.image != nil {
		s.image.copyInto(d, variable)
	} else {
		p.own(d, variable)
	}
}

// record is what else there is to know of a place.
type record struct {
	hash uint64
	uses uint32
	size int
	// plan is that of a part, and alone the part as a value.
	plan  *part
	alone Value
}

// idleAtLeast is how many places must be idle before it pays to free them. Tests lower it.
var idleAtLeast = 512

const (
	// placeCost is what a string takes here beside its text.
	placeCost = 100
	// textFrom is the length of strings from which on they may be shared, and
	// partFrom that of parts; textAt and partAt are at which sighting they are.
	// A part takes many times its length here, so it must prove to be wanted.
	textFrom, partFrom = 3, 8
	textAt, partAt     = 2, 4

	sightingsAtLeast = 4096
	countMask        = 1<<4 - 1
	ownerShift       = 4
	ownerMask        = 1<<8 - 1
	fingerprintShift = 12
)

func newDictionary() dictionary {
	return dictionary{places: map[uint64]uint32{}, seed: maphash.MakeSeed(), sightings: make([]uint32, sightingsAtLeast)}
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
		d.records[place].uses++
		return place, true
	}
	if d.sighted(hash) < textAt {
		return 0, false
	}
	return d.add(entry{text: strings.Clone(s)}, record{hash: hash, size: len(s) + placeCost}), true
}

// part does the same for a part of a value.
func (d *dictionary) part(e *encoder, part int) (uint32, bool) {
	hash, weight := d.sum(e, part)
	if weight < partFrom {
		return 0, false
	}
	plan := e.marks[part].plan
	if place, ok := d.places[hash]; ok {
		if r := &d.records[place]; r.plan != plan || !e.is(part, r.alone) {
			return 0, false
		}
		d.records[place].uses++
		return place, true
	}
	if d.sighted(hash) < partAt {
		return 0, false
	}
	alone := e.alone(part)
	made := decoder{}
	made.open(alone)
	variable := plan.variable()
	plan.decode(&made, variable)
	return d.add(entry{part: &shared{variable, newImage(plan.plan, variable)}}, record{hash: hash, plan: plan, alone: alone, size: made.stock.made + alone.Size() + placeCost}), true
}

// sighted notes that something came and tells of how many values it was of late.
// What comes again and again in packings of one object is not shared for that.
func (d *dictionary) sighted(hash uint64) int {
	seen := &d.sightings[hash%uint64(len(d.sightings))]
	fingerprint, owner, count := uint32(hash>>44), d.owner, uint32(0)
	if *seen>>fingerprintShift == fingerprint {
		count = *seen & countMask
		if count > 0 && uint8(*seen>>ownerShift&ownerMask) == owner {
			return int(count)
		}
	}
	count = min(count+1, countMask)
	*seen = fingerprint<<fingerprintShift | uint32(owner)<<ownerShift | count
	return int(count)
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
	d.size += r.size
	d.changed = true
	return place
}

func (d *dictionary) release(place uint32) {
	r := &d.records[place]
	if r.uses == 0 {
		panic("compact: a value was released twice")
	}
	if r.uses--; r.uses == 0 {
		d.idle = append(d.idle, place)
	}
}

// packed notes that there is one more value.
func (d *dictionary) packed() {
	if d.values++; d.values > len(d.sightings)/4 {
		d.sightings = make([]uint32, 2*len(d.sightings))
	}
}

// released notes that there is one value less. It frees the idle places once they
// are many, at a cost that is in proportion to them.
func (d *dictionary) released() {
	d.values--
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
		d.size -= r.size
		d.entries[place], *r = entry{}, record{}
		d.free = append(d.free, place)
	}
	d.idle = nil
}
