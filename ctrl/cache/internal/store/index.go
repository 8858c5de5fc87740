package store

import (
	"fmt"
	"slices"

	"flyball.dev/ctrl/client"
)

// index files entries under the values that a function gives for their shown
// objects.
type index struct {
	values func(client.Object) []string
	posts  map[string]*set
}

// of returns the values of a record, which may be nil.
func (x *index) of(r *record) []string {
	if r == nil {
		return nil
	}
	return x.values(r.object)
}

// move is a change of the place of an entry in one index.
type move struct {
	index         *index
	leave, arrive []string
}

// moves tells how the indexes change when an entry shows another record. It
// calls the functions of users, so no lock is held.
func (s *Store) moves(e *entry, shown *record) []move {
	var moves []move
	for _, indexes := range []map[string]*index{s.fields, s.labels} {
		for _, x := range indexes {
			before, after := x.of(e.shown), x.of(shown)
			if !slices.Equal(before, after) {
				moves = append(moves, move{x, before, after})
			}
		}
	}
	return moves
}

func (m move) apply(e *entry) {
	for _, value := range m.leave {
		if post := m.index.posts[value]; post != nil && post.remove(e) == 0 {
			delete(m.index.posts, value)
		}
	}
	for _, value := range m.arrive {
		post := m.index.posts[value]
		if post == nil {
			post = &set{}
			m.index.posts[value] = post
		}
		post.add(e)
	}
}

// AddIndex adds an index of the shown objects by the values that a function
// gives. It fails if the name is taken. The function must depend on the object
// alone.
func (s *Store) AddIndex(name string, values func(client.Object) []string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.fields[name] != nil {
		return fmt.Errorf("an index by %q exists already", name)
	}
	x := s.build(values)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fields[name] = x
	return nil
}

// build makes an index of what is there. The caller is the writer.
func (s *Store) build(values func(client.Object) []string) *index {
	x := &index{values: values, posts: map[string]*set{}}
	for _, names := range s.namespaces {
		for _, e := range names {
			move{index: x, arrive: x.of(e.shown)}.apply(e)
		}
	}
	return x
}

const (
	// A label is indexed when it is first selected by in a store of this many
	// objects; in a smaller one looking at every object is as fast.
	labelIndexFrom = 128
	// labelIndexes is how many labels are indexed at most, so that queries by
	// ever new labels do not fill the memory.
	labelIndexes = 16
)

// indexLabel makes sure that the label is indexed if that pays.
func (s *Store) indexLabel(label string) {
	s.mu.RLock()
	worth := s.labels[label] == nil && len(s.labels) < labelIndexes && s.count >= labelIndexFrom
	s.mu.RUnlock()
	if !worth {
		return
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.labels[label] != nil || len(s.labels) >= labelIndexes {
		return
	}
	x := s.build(func(obj client.Object) []string {
		if value, ok := obj.GetLabels()[label]; ok {
			return []string{value}
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.labels[label] = x
}

// set is a set of entries. Most sets hold one or a few, where a slice is
// smaller and faster than a map.
type set struct {
	few  []*entry
	many map[*entry]struct{}
}

const fewAtMost = 8

func (s *set) add(e *entry) {
	switch {
	case s.many != nil:
		s.many[e] = struct{}{}
	case slices.Contains(s.few, e):
	case len(s.few) < fewAtMost:
		s.few = append(s.few, e)
	default:
		s.many = make(map[*entry]struct{}, 2*fewAtMost)
		for _, f := range s.few {
			s.many[f] = struct{}{}
		}
		s.many[e] = struct{}{}
		s.few = nil
	}
}

// remove takes the entry out and returns how many are left.
func (s *set) remove(e *entry) int {
	delete(s.many, e)
	if i := slices.Index(s.few, e); i >= 0 {
		s.few = slices.Delete(s.few, i, i+1)
	}
	return s.len()
}

func (s *set) has(e *entry) bool {
	if s == nil {
		return false
	}
	if s.many != nil {
		_, ok := s.many[e]
		return ok
	}
	return slices.Contains(s.few, e)
}

func (s *set) len() int {
	if s == nil {
		return 0
	}
	return len(s.few) + len(s.many)
}

func (s *set) each(visit func(*entry)) {
	if s == nil {
		return
	}
	for _, e := range s.few {
		visit(e)
	}
	for e := range s.many {
		visit(e)
	}
}
