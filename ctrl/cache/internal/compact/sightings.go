package compact

// frequencySketch are counts of what came not long ago and has no place, in fixed memory:
// upper bits of its hash, a few bits of whose it was, and how often it was somebody
// else's. What comes once wears down the count that is in its way, and takes its slot
// only when nothing is left of it.
type frequencySketch []uint32

const (
	sightingsAtLeast = 4096
	// sightingsOfValue is how many slots there are for a value, at least.
	sightingsOfValue = 4

	countMask        = 1<<6 - 1
	ownerShift       = 6
	ownerMask        = 1<<8 - 1
	fingerprintShift = 14
)

// count notes that something came and tells of how many values it was of late.
// What comes again and again in packings of one object is not shared for that.
func (s frequencySketch) count(hash uint64, owner uint8) int {
	seen := &s[hash%uint64(len(s))]
	fingerprint, count := uint32(hash>>(32+fingerprintShift)), *seen&countMask
	switch {
	case *seen>>fingerprintShift != fingerprint && count > 1:
		*seen-- // the count
		return 1
	case *seen>>fingerprintShift != fingerprint:
		count = 0
	case count > 0 && uint8(*seen>>ownerShift&ownerMask) == owner:
		return int(count)
	}
	count = min(count+1, countMask)
	*seen = fingerprint<<fingerprintShift | uint32(owner)<<ownerShift | count
	return int(count)
}

// grown returns twice the slots. What was seen may stand in either of two now, so
// it stands in both.
func (s frequencySketch) grown() frequencySketch { return append(s[:len(s):len(s)], s...) }
