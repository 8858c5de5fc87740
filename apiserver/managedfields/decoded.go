package managedfields

import (
	"bytes"
	"strings"
	"sync"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// decoded caches the decoded field sets of entries. Objects from one template have equal field sets.
var decoded = decodedSets{limit: 256}

// decodedSets caches field sets by their encoding. It holds between limit and 2*limit sets, and always the most
// recently used ones. It is safe for concurrent use.
type decodedSets struct {
	limit int

	mu       sync.Mutex
	now, old map[decodedKey]*fieldpath.Set
}

// decodedKey is the encoding of a field set for the objects of one updater. It does not refer to the updater, because
// the updater holds the schema of its kind and must not outlive the kind.
type decodedKey struct {
	updater *identity
	fields  string
}

// identity identifies an updater.
type identity struct{ _ byte } // of a size, since only then are two of them different

// maxFields is the maximum length of cached encodings, in bytes.
const maxFields = 16 << 10

// get returns the set of an encoding. The set is shared and must not be changed. get returns nil if the field manager
// would encode the fields differently, if the fields no longer fit the schema, or if they include fields without a
// manager.
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

// put adds a set. The caller holds the lock.
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
