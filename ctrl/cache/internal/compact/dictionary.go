package compact

import (
	"hash/maphash"
	"strings"
)

// dictionary holds the strings that packed values share, and how often each is
// shared. A string that comes for the first time is left to its value; only when
// it comes again it is worth a place here.
//
// A place is given to another string only in a new copy of texts, so whoever
// holds an older copy can read on.
type dictionary struct {
	texts  []string
	uses   []uint32
	places map[string]uint32
	// idle are places that were without use at some time since the last tidy;
	// free are places without a text.
	idle, free []uint32
	size       int

	seed maphash.Seed
	// once are hashes of strings that came once, not long ago.
	once [onceSize]uint32
}

// idleAtLeast is how many places must be idle before tidying pays. Tests lower it.
var idleAtLeast = 512

const (
	onceSize = 4096
	// placeCost is what a string takes here beside its text.
	placeCost = 64
)

func newDictionary() dictionary {
	return dictionary{places: map[string]uint32{}, seed: maphash.MakeSeed()}
}

// use returns the place of a string and counts the use. It returns false if the
// string has none.
func (d *dictionary) use(s string) (uint32, bool) {
	if place, ok := d.places[s]; ok {
		d.uses[place]++
		return place, true
	}
	hash := maphash.String(d.seed, s)
	if seen := &d.once[hash%onceSize]; *seen != uint32(hash>>32) {
		*seen = uint32(hash >> 32)
		return 0, false
	}
	return d.add(strings.Clone(s)), true
}

func (d *dictionary) add(s string) uint32 {
	var place uint32
	if n := len(d.free); n > 0 {
		// Nobody has seen the place since it was freed: see tidy.
		place, d.free = d.free[n-1], d.free[:n-1]
		d.texts[place], d.uses[place] = s, 1
	} else {
		place = uint32(len(d.texts))
		d.texts, d.uses = append(d.texts, s), append(d.uses, 1)
	}
	d.places[s] = place
	d.size += len(s) + placeCost
	return place
}

func (d *dictionary) release(place uint32) {
	if d.uses[place] == 0 {
		panic("compact: a value was released twice")
	}
	if d.uses[place]--; d.uses[place] == 0 {
		d.idle = append(d.idle, place)
	}
}

// tidy frees the idle places once they are many, at a cost that is in proportion
// to them.
func (d *dictionary) tidy() {
	if len(d.idle) < idleAtLeast || len(d.idle) < len(d.texts)/4 {
		return
	}
	// The places that were free until now go on waiting, as they are in the
	// copies that readers hold; in the new copy they can be filled, because
	// nobody can read it at a place before a value uses that.
	texts := make([]string, len(d.texts), cap(d.texts))
	copy(texts, d.texts)
	d.texts = texts
	for _, place := range d.idle {
		s := d.texts[place]
		if d.uses[place] > 0 || s == "" {
			continue
		}
		delete(d.places, s)
		d.size -= len(s) + placeCost
		d.texts[place] = ""
		d.free = append(d.free, place)
	}
	d.idle = nil
}
