package store

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Query says which objects to list.
type Query struct {
	// Namespace restricts the list to one namespace, if not empty.
	Namespace string
	// Labels restricts the list to objects that match; nil does not.
	Labels labels.Selector
	// Fields restricts the list to objects that are filed under the value in
	// the index of that name, for every requirement. The operator of a
	// requirement is not looked at.
	Fields fields.Requirements
	// Watched asks for what the watch has told of instead of what reads see. No
	// index helps then.
	Watched bool
}

// List returns the objects that reads see, ordered by namespace and name. It
// fails if there is no index by a field of the query.
func (s *Store) List(q Query) ([]Object, error) {
	wanted := equalities(q.Labels)
	for _, w := range wanted {
		s.indexLabel(w.label)
	}
	s.mu.RLock()
	hits, sorted, err := s.find(q, wanted)
	s.mu.RUnlock()
	if !sorted {
		slices.SortFunc(hits, func(a, b Object) int { return compare(a.key, b.key) })
	}
	return hits, err
}

func compare(a, b *Key) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// find collects what a query asks for: it goes through the smallest set that an
// index offers and tests the whole query on each member. It tells whether what it
// found is in order. The caller holds mu.
func (s *Store) find(q Query, wanted []equality) (hits []Object, sorted bool, err error) {
	from := candidates{size: s.count, sorted: true, each: s.inOrder}
	if q.Namespace != "" {
		from.size, from.each = 0, func(func(*entry)) {}
		if sp := s.spaces[q.Namespace]; sp != nil {
			from.size, from.each = len(sp.entries), sp.inOrder
		}
	}
	tests := make([]func(*entry, Object) bool, 0, 4)
	for _, f := range q.Fields {
		x := s.fields[f.Field]
		if x == nil {
			return nil, true, fmt.Errorf("there is no index by %q", f.Field)
		}
		if q.Watched {
			tests = append(tests, func(_ *entry, o Object) bool { return slices.Contains(x.values(o), f.Value) })
			continue
		}
		filed := x.of(f.Value)
		from = from.orSmaller([]*set{filed})
		tests = append(tests, func(e *entry, _ Object) bool { return filed.has(e) })
	}
	for _, w := range wanted {
		if x := s.labels[w.label]; x != nil && !q.Watched {
			from = from.orSmaller(x.lookup(w.values))
		}
	}
	if q.Namespace != "" {
		tests = append(tests, func(e *entry, _ Object) bool { return e.key.Namespace == q.Namespace })
	}
	if q.Labels != nil && !q.Labels.Empty() {
		tests = append(tests, func(_ *entry, o Object) bool { return q.Labels.Matches(o.labels()) })
	}

	hits = make([]Object, 0, from.size)
	from.each(func(e *entry) {
		r := e.side(q.Watched)
		if r == nil {
			return
		}
		o := s.object(e, r)
		for _, test := range tests {
			if !test(e, o) {
				return
			}
		}
		hits = append(hits, o)
	})
	return hits, from.sorted, nil
}

// candidates is a set of entries that holds everything a query can find.
type candidates struct {
	size   int
	sorted bool
	each   func(visit func(*entry))
}

// orSmaller returns the union of disjoint sets if it is smaller.
func (c candidates) orSmaller(sets []*set) candidates {
	size := 0
	for _, s := range sets {
		size += s.len()
	}
	if size >= c.size {
		return c
	}
	return candidates{size: size, each: func(visit func(*entry)) {
		for _, s := range sets {
			s.each(visit)
		}
	}}
}

func (x *index) lookup(values []string) []*set {
	sets := make([]*set, len(values))
	for i, value := range values {
		sets[i] = x.of(value)
	}
	return sets
}

// equality is what a label selector asks of one label: that it is there and has
// one of the values.
type equality struct {
	label  string
	values []string
}

// equalities returns the requirements of a selector that an index can answer.
func equalities(selector labels.Selector) []equality {
	if selector == nil {
		return nil
	}
	requirements, _ := selector.Requirements()
	var found []equality
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			found = append(found, equality{r.Key(), r.Values().UnsortedList()})
		}
	}
	return found
}
