package compact

// sightings is a hash table of approximate counts: in how many values a string or part
// without a place occurred recently. A slot has a fingerprint of the hash, a few bits of
// the last value's owner, and the count. On a collision the count is decremented, and
// the slot is taken over once it is at most one.
type sightings []uint32

const (
	sightingsAtLeast = 4096
	// sightingsOfValue is how many slots there are for a value, at least.
	sightingsOfValue = 4

	countMask        = 1<<6 - 1
	ownerShift       = 6
	ownerMask        = 1<<8 - 1
	fingerprintShift = 14
)

// count records an occurrence and returns in how many values there were recent ones.
// Occurrences in repeated packings of one object count once.
func (s sightings) count(hash uint64, owner uint8) int {
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

// grown returns a table with twice the slots. Each count is copied to both slots that
// its hash may belong to now.
func (s sightings) grown() sightings { return append(s[:len(s):len(s)], s...) }
