package compact

// frequencySketch counts, in fixed memory, how often things came lately that are not interned. A
// counter has upper bits of the hash of the thing, a few bits of the hash of the object in which it
// came last, and in how many other objects it came. Something new decrements the counter that it
// collides with, and takes its place only when that has reached zero.
type frequencySketch []uint32

const (
	countersAtLeast = 4096
	// countersOfValue is how many counters there are for a value, at least.
	countersOfValue = 4

	countMask        = 1<<6 - 1
	ownerShift       = 6
	ownerMask        = 1<<8 - 1
	fingerprintShift = 14
)

// count counts something and returns in how many objects it came lately. What comes again and again
// in versions of one object counts once.
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

// grown returns twice the counters. What was counted may have either of two now, so it has both.
func (s frequencySketch) grown() frequencySketch { return append(s[:len(s):len(s)], s...) }
