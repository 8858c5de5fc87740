package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"flyball.dev/ctrl/client"
)

// indexes are the indexes of the visible objects.
type indexes struct {
	fields, labels map[string]*index
	all            []*index // in the order in which they were added
	// terms is a buffer: the terms of the record that is being changed.
	terms []term
}

// index is an inverted index: it maps the values that a function returns for visible objects to the
// records of these objects.
type index struct {
	values   func(Object) []string
	postings map[string]*postings
}

// postings is the posting list of one value of an index: the records of the objects that have the
// value.
type postings struct {
	set
	index *index
	value string
}

// term is a value of an index, for which there may be no postings yet.
type term struct {
	index *index
	value string
}

// compute sets the terms to the ones of an object that is to be visible; the zero Object stands for
// none. It calls functions of the program, so the store is not locked. It returns false if the
// record has these terms already.
func (x *indexes) compute(r *record, shown Object) bool {
	x.terms = x.terms[:0]
	if shown.state != nil {
		for _, of := range x.all {
			for _, value := range of.values(shown) {
				x.terms = append(x.terms, term{of, value})
			}
		}
	}
	return !slices.EqualFunc(x.terms, r.postings, func(t term, p *postings) bool {
		return t.index == p.index && t.value == p.value
	})
}

// update moves a record to the postings of the terms. The caller is the writer and holds the lock of
// the store.
func (x *indexes) update(r *record) {
	var lists []*postings
	for _, t := range x.terms {
		lists = append(lists, t.index.postingsOf(t.value))
		t.index.postingsOf(t.value).add(r)
	}
	for _, p := range r.postings {
		if !slices.Contains(lists, p) && p.remove(r) == 0 {
			delete(p.index.postings, p.value)
		}
	}
	r.postings = lists
	clear(x.terms)
}

// postingsOf returns the postings of a value, and adds them if there are none.
func (x *index) postingsOf(value string) *postings {
	p := x.postings[value]
	if p == nil {
		p = &postings{index: x, value: strings.Clone(value)}
		x.postings[p.value] = p
	}
	return p
}

// of returns the records with a value, which may be nil.
func (x *index) of(value string) *set {
	if p := x.postings[value]; p != nil {
		return &p.set
	}
	return nil
}

// AddIndex adds an index of the visible objects by the values that a function returns. It fails if
// there is an index with that name. The function must depend on the object alone; it is not called
// concurrently.
func (s *Store) AddIndex(name string, values func(client.Object) []string) error {
	s.writing.Lock()
	defer s.unlock()
	if s.indexes.fields[name] != nil {
		return fmt.Errorf("an index by %q exists already", name)
	}
	// The writer calls the function, and so do queries for watched objects.
	var calling sync.Mutex
	s.add(s.indexes.fields, name, func(o Object) []string {
		obj := o.peek()
		calling.Lock()
		defer calling.Unlock()
		return values(obj)
	})
	return nil
}

// IndexValues returns the values of the index with a name that visible objects have, in no order. It
// returns none if there is no such index.
func (s *Store) IndexValues(name string) []string {
	s.expire()
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := s.indexes.fields[name]
	if x == nil {
		return nil
	}
	return slices.Collect(maps.Keys(x.postings))
}

// add adds an index of the present objects. The caller is the writer.
func (s *Store) add(to map[string]*index, name string, values func(Object) []string) {
	x := &index{values: values, postings: map[string]*postings{}}
	s.records.all(func(r *record) {
		if r.visible == nil {
			return
		}
		for _, value := range values(s.object(r, r.visible)) {
			p := x.postingsOf(value)
			p.add(r)
			r.postings = append(r.postings, p)
		}
	})
	s.indexes.all = append(s.indexes.all, x)
	s.mu.Lock()
	defer s.mu.Unlock()
	to[name] = x
}

const (
	// A label is indexed when it is first selected by in a store of labelIndexThreshold objects or
	// more; in a smaller one, testing every object is as fast.
	labelIndexThreshold = 128
	// maxLabelIndexes is how many labels are indexed at most, so that queries by ever new labels do
	// not exhaust the memory.
	maxLabelIndexes = 16
)

// indexLabel adds an index by the label if there is none and it is worth its memory.
func (s *Store) indexLabel(label string) {
	s.mu.RLock()
	worth := s.indexes.labels[label] == nil && len(s.indexes.labels) < maxLabelIndexes && s.records.count >= labelIndexThreshold
	s.mu.RUnlock()
	if !worth {
		return
	}
	s.writing.Lock()
	defer s.unlock()
	if s.indexes.labels[label] != nil || len(s.indexes.labels) >= maxLabelIndexes {
		return
	}
	s.add(s.indexes.labels, label, labelValues(label))
}

// labelValues returns the function of an index by a label.
func labelValues(label string) func(Object) []string {
	return func(o Object) []string {
		if value, ok := o.labels().Lookup(label); ok {
			return []string{value}
		}
		return nil
	}
}

// set is a set of records. Most sets have a few members, for which a slice is smaller and faster
// than a map.
type set struct {
	few  []*record
	many map[*record]struct{}
}

const maxFew = 8

func (s *set) add(r *record) {
	switch {
	case s.many != nil:
		s.many[r] = struct{}{}
	case slices.Contains(s.few, r):
	case len(s.few) < maxFew:
		s.few = append(s.few, r)
	default:
		s.many = make(map[*record]struct{}, 2*maxFew)
		for _, f := range s.few {
			s.many[f] = struct{}{}
		}
		s.many[r] = struct{}{}
		s.few = nil
	}
}

// remove removes a record and returns how many are left.
func (s *set) remove(r *record) int {
	delete(s.many, r)
	if i := slices.Index(s.few, r); i >= 0 {
		s.few = slices.Delete(s.few, i, i+1)
	}
	return s.len()
}

func (s *set) has(r *record) bool {
	if s == nil {
		return false
	}
	if s.many != nil {
		_, ok := s.many[r]
		return ok
	}
	return slices.Contains(s.few, r)
}

func (s *set) len() int {
	if s == nil {
		return 0
	}
	return len(s.few) + len(s.many)
}

func (s *set) each(visit func(*record)) {
	if s == nil {
		return
	}
	for _, r := range s.few {
		visit(r)
	}
	for r := range s.many {
		visit(r)
	}
}
