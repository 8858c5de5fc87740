// Package intern is an intern table: it holds the texts and opaque values that packed values share.
// An entry has an ID and a count of its uses, and is found by a hash.
//
// The caller decides whether a text or value gets an entry. The table keeps accounts: the cost of the
// entries, the bytes that their uses save, and the part of the cost that is not saved yet.
package intern

import "strings"

// Entry is the text or value of an ID.
type Entry[V comparable] struct {
	Text  string
	Value V
}

// Table is an intern table. Use New to make one. It is used by one goroutine at a time, but the
// slices that Entries returned may be read by others meanwhile, at IDs that are in use.
//
// An ID is reused only in a new copy of the entries, so whoever holds an older copy can read on.
type Table[V comparable] struct {
	entries []Entry[V]
	usages  []usage
	ids     map[uint64]uint32
	// idle are IDs that had no uses at some time since the last Free; free are IDs without an
	// entry.
	idle, free []uint32
	changed    bool
	size, debt int
}

// usage is the hash of an entry, how often the entry is used, how many bytes each use saves and
// how many the entry costs.
type usage struct {
	hash             uint64
	uses, gain, cost uint32
}

// debt is the part of the cost of an entry that its uses have not saved yet.
func (u *usage) debt() int { return max(0, int(u.cost)-u.saved()) }

func (u *usage) saved() int { return int(u.uses) * int(u.gain) }

// MinIdle is the least number of idle IDs to free at once. Only tests change it.
var MinIdle = 64

// New returns an empty table.
func New[V comparable]() *Table[V] { return &Table[V]{ids: map[uint64]uint32{}} }

// Lookup returns the ID of the entry with a hash. Whether it is the entry that is meant is up to
// the caller: different things may have the same hash, and only the first of them has an ID.
func (t *Table[V]) Lookup(hash uint64) (id uint32, ok bool) {
	id, ok = t.ids[hash]
	return id, ok
}

// Entry returns the entry of an ID.
func (t *Table[V]) Entry(id uint32) Entry[V] { return t.entries[id] }

// Add adds an entry with one use, and returns its ID. No other entry has the same hash. Each use saves
// gain bytes, and the entry costs some. The table keeps a copy of the text.
func (t *Table[V]) Add(hash uint64, e Entry[V], gain, cost int) uint32 {
	e.Text = strings.Clone(e.Text)
	u := usage{hash: hash, uses: 1, gain: uint32(gain), cost: uint32(cost)}
	var id uint32
	if n := len(t.free); n > 0 {
		// Nobody has read at the ID since it was freed: see Free.
		id, t.free = t.free[n-1], t.free[:n-1]
		t.entries[id], t.usages[id] = e, u
	} else {
		id = uint32(len(t.entries))
		t.entries, t.usages = append(t.entries, e), append(t.usages, u)
	}
	t.ids[hash] = id
	t.size += cost
	t.debt += u.debt()
	t.changed = true
	return id
}

// Retain adds a use.
func (t *Table[V]) Retain(id uint32) { t.use(id, 1) }

// Release removes a use.
func (t *Table[V]) Release(id uint32) {
	if t.usages[id].uses == 0 {
		panic("compact: a value was released twice")
	}
	if t.use(id, -1); t.usages[id].uses == 0 {
		t.idle = append(t.idle, id)
	}
}

func (t *Table[V]) use(id uint32, more int) {
	u := &t.usages[id]
	t.debt -= u.debt()
	u.uses += uint32(more)
	t.debt += u.debt()
}

// Saved returns how many bytes the present uses of an entry save.
func (t *Table[V]) Saved(id uint32) int { return t.usages[id].saved() }

// Cost returns the cost of an entry.
func (t *Table[V]) Cost(id uint32) int { return int(t.usages[id].cost) }

// Grow makes an entry cost more.
func (t *Table[V]) Grow(id uint32, by int) {
	u := &t.usages[id]
	t.debt -= u.debt()
	u.cost += uint32(by)
	t.debt += u.debt()
	t.size += by
}

// Size returns the cost of all entries.
func (t *Table[V]) Size() int { return t.size }

// Debt returns the part of the cost of all entries that their uses have not saved yet.
func (t *Table[V]) Debt() int { return t.debt }

// Changed reports whether entries were added or freed since the last call of Entries.
func (t *Table[V]) Changed() bool { return t.changed }

// Current returns all entries by ID, for the goroutine that uses the table.
func (t *Table[V]) Current() []Entry[V] { return t.entries }

// Entries returns all entries by ID, for readers.
func (t *Table[V]) Entries() []Entry[V] {
	t.changed = false
	return t.entries
}

// Free drops the entries without uses once they are many, at a cost that is in proportion to them:
// see FreeIdle.
func (t *Table[V]) Free(freed func(V)) {
	if len(t.idle) >= MinIdle && len(t.idle) >= len(t.entries)/4 {
		t.FreeIdle(freed)
	}
}

// FreeIdle drops the entries without uses. It calls freed with the value of each, which releases the
// entries that the value has used. FreeIdle drops these, too, if they have no uses then.
func (t *Table[V]) FreeIdle(freed func(V)) {
	// The IDs that were free until now stay as they are in the copies that readers hold; in the
	// new copy they can be reused, because nobody reads at an ID before a value uses that.
	entries := make([]Entry[V], len(t.entries), cap(t.entries))
	copy(entries, t.entries)
	t.entries, t.changed = entries, true
	for i := 0; i < len(t.idle); i++ { // freed may add some
		id := t.idle[i]
		u, e := &t.usages[id], t.entries[id]
		if u.uses > 0 || e == (Entry[V]{}) {
			continue
		}
		delete(t.ids, u.hash)
		t.size -= int(u.cost)
		t.debt -= u.debt()
		t.entries[id], *u = Entry[V]{}, usage{}
		t.free = append(t.free, id)
		freed(e.Value)
	}
	t.idle = nil
}

// Stats are figures of a table that tests look at.
type Stats struct{ IDs, Used, Size, Debt int }

// Stats computes the figures of the table again, entry by entry: the number of IDs, the number of
// used ones, the cost of the entries and the part of the cost that is not saved.
func (t *Table[V]) Stats() Stats {
	s := Stats{IDs: len(t.entries)}
	for i := range t.usages {
		u := &t.usages[i]
		if u.uses > 0 {
			s.Used++
		}
		s.Size += int(u.cost)
		s.Debt += u.debt()
	}
	return s
}
