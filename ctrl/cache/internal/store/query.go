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
	s.expire()
	var requirements labels.Requirements
	selects := true
	if q.Labels != nil {
		requirements, selects = q.Labels.Requirements()
	}
	if !selects {
		return nil, nil
	}
	for _, r := range requirements {
		if byValue(r) {
			s.indexLabel(r.Key())
		}
	}
	s.mu.RLock()
	hits, sorted, err := s.find(q, requirements)
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

// byValue tells whether a requirement is one that an index can answer: that the
// label is there and has one of some values.
func byValue(r labels.Requirement) bool {
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return true
	default:
		return false
	}
}

// condition is something that a query asks for.
type condition struct {
	holds func(*entry, Object) bool
	// indexed is set if the objects for which it holds are those of the sets,
	// which are disjoint.
	indexed bool
	sets    []*set
}

func (c condition) size() int {
	size := 0
	for _, s := range c.sets {
		size += s.len()
	}
	return size
}

func (c condition) each(visit func(*entry)) {
	for _, s := range c.sets {
		s.each(visit)
	}
}

// conditions returns what a query asks for beside the namespace. The caller holds
// mu.
func (s *Store) conditions(q Query, requirements labels.Requirements) ([]condition, error) {
	conditions := make([]condition, 0, len(q.Fields)+len(requirements))
	for _, f := range q.Fields {
		x := s.fields[f.Field]
		if x == nil {
			return nil, fmt.Errorf("there is no index by %q", f.Field)
		}
		c := condition{indexed: !q.Watched}
		if q.Watched {
			c.holds = func(_ *entry, o Object) bool { return slices.Contains(x.values(o), f.Value) }
		} else {
			filed := x.of(f.Value)
			c.sets = []*set{filed}
			c.holds = func(e *entry, _ Object) bool { return filed.has(e) }
		}
		conditions = append(conditions, c)
	}
	for i := range requirements {
		r := &requirements[i]
		var of packedLabels // one for all objects, instead of one in each call
		c := condition{holds: func(_ *entry, o Object) bool {
			if o.record.value.IsZero() {
				return r.Matches(o.labels())
			}
			of = packedLabels(o)
			return r.Matches(&of)
		}}
		if x := s.labels[r.Key()]; x != nil && !q.Watched && byValue(*r) {
			c.indexed = true
			for value := range r.Values() {
				c.sets = append(c.sets, x.of(value))
			}
		}
		conditions = append(conditions, c)
	}
	return conditions, nil
}

// find collects what a query asks for: it goes through the smallest set that an
// index offers and tests on each member whatever else is asked for. It tells
// whether what it found is in order. The caller holds mu.
func (s *Store) find(q Query, requirements labels.Requirements) (hits []Object, sorted bool, err error) {
	conditions, err := s.conditions(q, requirements)
	if err != nil {
		return nil, true, err
	}
	size, each, sorted := s.count, s.inOrder, true
	if q.Namespace != "" {
		sp := s.spaces[q.Namespace]
		if sp == nil {
			return nil, true, nil
		}
		size, each = len(sp.entries), sp.inOrder
	}
	answered := -1
	for i, c := range conditions {
		if c.indexed && c.size() < size {
			answered, size, each, sorted = i, c.size(), c.each, false
		}
	}
	if answered >= 0 {
		conditions = slices.Delete(conditions, answered, answered+1)
	}

	hits = make([]Object, 0, size)
	each(func(e *entry) {
		r := e.side(q.Watched)
		if r == nil || q.Namespace != "" && e.key.Namespace != q.Namespace {
			return
		}
		o := s.object(e, r)
		for _, c := range conditions {
			if !c.holds(e, o) {
				return
			}
		}
		hits = append(hits, o)
	})
	return hits, sorted, nil
}
