package compact

import "slices"

// frequencySketch counts, in fixed memory, how often strings and subtrees that are not interned
// occurred recently. A counter consists of upper bits of their hash, a few bits of the hash of the
// object in which they occurred last, and the number of other objects. On a collision the counter
// is decremented, and replaced only when it has reached zero.
type frequencySketch []uint32

const (
	minCounters = 4096
	// The sketch grows below countersPerValue counters per value.
	countersPerValue = 4
	// The sketch shrinks above shrinkShare × countersPerValue counters per value.
	shrinkShare = 8

	countMask        = 1<<6 - 1
	ownerShift       = 6
	ownerMask        = 1<<8 - 1
	fingerprintShift = 14
)

// count counts an occurrence, and returns how many objects had one recently. Occurrences in versions
// of one object count once.
func (s frequencySketch) count(hash uint64, owner uint8) int {
	counter := &s[hash%uint64(len(s))]
	fingerprint, count := uint32(hash>>(32+fingerprintShift)), *counter&countMask
	switch {
	case *counter>>fingerprintShift != fingerprint && count > 1:
		*counter-- // the count
		return 1
	case *counter>>fingerprintShift != fingerprint:
		count = 0
	case count > 0 && uint8(*counter>>ownerShift&ownerMask) == owner:
		return int(count)
	}
	count = min(count+1, countMask)
	*counter = fingerprint<<fingerprintShift | uint32(owner)<<ownerShift | count
	return int(count)
}

// grown returns a sketch with twice the counters. The hashes of one counter are divided among two,
// so both get the old count.
func (s frequencySketch) grown() frequencySketch { return append(s[:len(s):len(s)], s...) }

// shrunk returns a sketch with half the counters. Of two counters for the same hashes, it keeps one.
func (s frequencySketch) shrunk() frequencySketch { return slices.Clone(s[:len(s)/2]) }
