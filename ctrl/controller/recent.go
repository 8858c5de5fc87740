package controller

import (
	"math"
	"slices"
	"time"
)

// recent is a set-associative cache of fixed-size entries that are found by a 64-bit hash. It holds
// neither keys nor pointers. It grows only if entries of the last minute would have to be evicted,
// up to maxSlots; then the entries with the fewest runs are evicted, oldest first. Up to fewRuns makes
// no difference: many objects are reconciled once or twice for their own writes, and if these were
// kept, a loop that begins would be evicted by every entry that follows.
type recent struct {
	slots []slot
	// epoch is the zero of the times in slots, long enough ago that an empty slot is expired.
	epoch time.Time
}

// slot is an entry of a recent: 24 bytes.
type slot struct {
	hash  uint64
	since time.Duration // from the epoch
	at    uint32        // when it was stored, in ticks from the epoch
	runs  uint16        // consecutive reconciles of the request
	idle  uint16        // of these, the last ones that got nowhere
}

const (
	minSlots, maxSlots = 64, 16384
	slotWays           = 8 // associativity: slots of a set
	fewRuns            = hotLoopRuns / 4

	slotTick    = time.Duration(1 << 24) // 17 ms
	slotExpires = uint32(hotLoopWindow / slotTick)
	slotAhead   = 60 * slotExpires // an hour
)

func newRecent(now time.Time) recent { return recent{epoch: now.Add(-2 * hotLoopWindow)} }

func (r *recent) ticks(now time.Time) uint32 { return uint32(now.Sub(r.epoch) / slotTick) }

// age overflows after two years: an entry that old looks new for a minute. An entry may be younger
// than ticks, the time at which a reconcile began, because a shorter reconcile that began later has
// put it: its age is zero.
func (s *slot) age(ticks uint32) uint32 {
	if s.at-ticks <= slotAhead {
		return 0
	}
	return ticks - s.at
}

func (s *slot) expired(ticks uint32) bool { return s.age(ticks) > slotExpires }

// set returns the set of a hash.
func (r *recent) set(hash uint64) []slot {
	from := int(hash%uint64(len(r.slots)/slotWays)) * slotWays
	return r.slots[from : from+slotWays]
}

// find returns the entry with the hash, or nil if there is none of the last minute.
func (r *recent) find(hash uint64, now time.Time) *slot {
	if len(r.slots) == 0 {
		return nil
	}
	set := r.set(hash)
	for i := range set {
		if s := &set[i]; s.hash == hash && !s.expired(r.ticks(now)) {
			return s
		}
	}
	return nil
}

// put adds an entry, or replaces the one with the same hash.
func (r *recent) put(hash uint64, n count, since, now time.Time) {
	if r.slots == nil {
		r.slots = make([]slot, minSlots)
	}
	in := slot{hash, since.Sub(r.epoch), r.ticks(now), saturated(n.runs), saturated(n.idle)}
	s := r.slotFor(in)
	for s.hash != hash && !s.expired(in.at) && len(r.slots) < maxSlots {
		r.grow(in.at)
		s = r.slotFor(in)
	}
	*s = in
}

// rank is what of the runs of an entry protects it from being evicted.
func (s *slot) rank() uint16 { return max(s.runs, fewRuns) }

func saturated(n int) uint16 { return uint16(min(n, math.MaxUint16)) }

// slotFor returns the slot for an entry: that with the same hash, an expired one, or the one with
// the lowest rank and, of those, the oldest.
func (r *recent) slotFor(in slot) *slot {
	set := r.set(in.hash)
	least := &set[0]
	for i := range set {
		s := &set[i]
		switch {
		case s.hash == in.hash:
			return s
		case least.expired(in.at):
		case s.expired(in.at), s.rank() < least.rank(), s.rank() == least.rank() && s.age(in.at) > least.age(in.at):
			least = s
		}
	}
	return least
}

// grow doubles the slots. Each set is split in two, so nothing is evicted.
func (r *recent) grow(ticks uint32) {
	old := r.slots
	r.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if !s.expired(ticks) {
			set := r.set(s.hash)
			set[slices.Index(set, slot{})] = s
		}
	}
}
