package development

// bounded is a map with a limited number of entries: a new one replaces the oldest.
type bounded[K comparable, V any] struct {
	entries map[K]V
	order   []K // a ring of the keys in the order in which they were added
	next    int
}

func newBounded[K comparable, V any](limit int) *bounded[K, V] {
	return &bounded[K, V]{entries: map[K]V{}, order: make([]K, 0, limit)}
}

func (b *bounded[K, V]) get(key K) (V, bool) {
	value, ok := b.entries[key]
	return value, ok
}

func (b *bounded[K, V]) has(key K) bool {
	_, ok := b.entries[key]
	return ok
}

// put adds an entry or replaces its value. It returns the value of the oldest entry if it has dropped
// that.
func (b *bounded[K, V]) put(key K, value V) (oldest V, dropped bool) {
	if _, ok := b.entries[key]; !ok {
		if len(b.order) < cap(b.order) {
			b.order = append(b.order, key)
		} else {
			// The entry may have been deleted, and added again since: then it goes early.
			oldest, dropped = b.entries[b.order[b.next]]
			delete(b.entries, b.order[b.next])
			b.order[b.next] = key
			b.next = (b.next + 1) % len(b.order)
		}
	}
	b.entries[key] = value
	return oldest, dropped
}

func (b *bounded[K, V]) delete(key K) { delete(b.entries, key) }
