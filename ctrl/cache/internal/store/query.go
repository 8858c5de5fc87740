package store

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Query selects the objects of a list.
type Query struct {
	// Namespace restricts the list to one namespace, if not empty.
	Namespace string
	// Labels restricts the list to objects that match; nil does not.
	Labels labels.Selector
	// Fields restricts the list to objects that have the value in the index of that name, for every
	// requirement. The operator of a requirement is ignored.
	Fields fields.Requirements
	// Watched selects from the watched objects instead of the visible ones, without the help of
	// indexes.
	Watched bool
}

// List returns the visible objects that match, ordered by namespace and name. It fails if there is
// no index by a field of the query.
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
		if indexable(r) {
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

// indexable reports whether an index can answer a requirement: that the label has one of some
// values.
func indexable(r labels.Requirement) bool {
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return true
	default:
		return false
	}
}

// condition is one requirement of a query.
type condition struct {
	matches func(*record, Object) bool
	// indexed is set if the objects that match are the members of the sets, which are disjoint.
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

func (c condition) each(visit func(*record)) {
	for _, s := range c.sets {
		s.each(visit)
	}
}

// conditions returns the conditions of a query, without its namespace. The caller holds mu.
func (s *Store) conditions(q Query, requirements labels.Requirements) ([]condition, error) {
	conditions := make([]condition, 0, len(q.Fields)+len(requirements))
	for _, f := range q.Fields {
		x := s.indexes.fields[f.Field]
		if x == nil {
			return nil, fmt.Errorf("there is no index by %q", f.Field)
		}
		c := condition{indexed: !q.Watched}
		if q.Watched {
			c.matches = func(_ *record, o Object) bool { return slices.Contains(x.values(o), f.Value) }
		} else {
			members := x.of(f.Value)
			c.sets = []*set{members}
			c.matches = func(r *record, _ Object) bool { return members.has(r) }
		}
		conditions = append(conditions, c)
	}
	for i := range requirements {
		r := &requirements[i]
		var of packedLabels // one for all objects, instead of one in each call
		c := condition{matches: func(_ *record, o Object) bool {
			if o.state.value.IsZero() {
				return r.Matches(o.labels())
			}
			of = packedLabels(o)
			return r.Matches(&of)
		}}
		if x := s.indexes.labels[r.Key()]; x != nil && !q.Watched && indexable(*r) {
			c.indexed = true
			for value := range r.Values() {
				c.sets = append(c.sets, x.of(value))
			}
		}
		conditions = append(conditions, c)
	}
	return conditions, nil
}

// find collects the objects that match a query: it visits the smallest set that an index offers and tests the
// other conditions on each member. It reports whether the result is in order. The caller holds mu.
func (s *Store) find(q Query, requirements labels.Requirements) (hits []Object, sorted bool, err error) {
	conditions, err := s.conditions(q, requirements)
	if err != nil {
		return nil, true, err
	}
	size, each, sorted := s.records.count, s.records.inOrder, true
	if q.Namespace != "" {
		sp := s.records.namespaces[q.Namespace]
		if sp == nil {
			return nil, true, nil
		}
		size, each = len(sp.records), sp.inOrder
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
	each(func(r *record) {
		st := r.state(q.Watched)
		if st == nil || q.Namespace != "" && r.key.Namespace != q.Namespace {
			return
		}
		o := s.object(r, st)
		for _, c := range conditions {
			if !c.matches(r, o) {
				return
			}
		}
		hits = append(hits, o)
	})
	return hits, sorted, nil
}
