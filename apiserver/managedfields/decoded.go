package managedfields

import (
	"bytes"
	"strings"
	"sync"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// decoded caches the sets of fields that entries have been decoded to. Objects that come from one
// template have the same ones.
var decoded = decodedSets{limit: 256}

// decodedSets caches sets of fields by their encoding. It holds between limit and twice as many,
// those that were used last among them. It is safe for concurrent use.
type decodedSets struct {
	limit int

	mu       sync.Mutex
	now, old map[decodedKey]*fieldpath.Set
}

// decodedKey is the encoding of a set of fields, for the objects of one updater. It does not refer
// to the updater, which has the schema of its kind and must not outlive the kind.
type decodedKey struct {
	updater *identity
	fields  string
}

// identity stands for an updater.
type identity struct{ _ byte } // of a size, since only then are two of them different

// maxFields bounds the encodings that are cached, in bytes.
const maxFields = 16 << 10

// get returns the set of an encoding, which is shared and must not be changed. It returns nil for
// fields that are not encoded as the field manager does it, that do not fit the schema any more, or
// that include some that have no manager.
func (c *decodedSets) get(u *updates, fields string) *fieldpath.Set {
	key := decodedKey{u.identity, fields}
	c.mu.Lock()
	set, ok := c.now[key]
	if !ok {
		if set, ok = c.old[key]; ok {
			c.put(key, set)
		}
	}
	c.mu.Unlock()
	if ok {
		return set
	}
	set = decode(u, fields)
	if len(fields) <= maxFields {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.put(key, set)
	}
	return set
}

// put adds a set. The lock is held.
func (c *decodedSets) put(key decodedKey, set *fieldpath.Set) {
	if c.now == nil || len(c.now) >= c.limit {
		c.old, c.now = c.now, make(map[decodedKey]*fieldpath.Set, c.limit)
	}
	c.now[key] = set
}

func decode(u *updates, fields string) *fieldpath.Set {
	set := &fieldpath.Set{}
	if err := set.FromJSON(strings.NewReader(fields)); err != nil {
		return nil
	}
	encoded, err := set.ToJSON()
	if err != nil || !bytes.Equal(encoded, []byte(fields)) || !u.current(set) || !set.Intersection(serverFields).Empty() {
		return nil
	}
	return set
}
