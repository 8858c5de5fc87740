package store

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"flyball.dev/ctrl/client"
)

// index files entries under the values that a function gives for their shown
// objects.
type index struct {
	values func(Object) []string
	posts  map[string]*post
}

// post is the entries that an index files under one value.
type post struct {
	set
	index *index
	value string
}

// filing is a place in an index, which need not exist yet.
type filing struct {
	index *index
	value string
}

// file notes in s.filings where an entry belongs that shows a record, which may
// be nil. It calls the functions of users, so mu is not held. It returns false if
// that is where the entry is already.
func (s *Store) file(e *entry, shown *record) bool {
	s.filings = s.filings[:0]
	if shown != nil && len(s.indexes) > 0 {
		o := s.object(e, shown)
		for _, x := range s.indexes {
			for _, value := range x.values(o) {
				s.filings = append(s.filings, filing{x, value})
			}
		}
	}
	return !slices.EqualFunc(s.filings, e.posts, func(f filing, p *post) bool {
		return f.index == p.index && f.value == p.value
	})
}

// refile files an entry where s.filings says. The caller is the writer and holds
// mu.
func (s *Store) refile(e *entry) {
	var posts []*post
	for _, f := range s.filings {
		posts = append(posts, f.index.post(f.value))
		f.index.post(f.value).add(e)
	}
	for _, p := range e.posts {
		if !slices.Contains(posts, p) && p.remove(e) == 0 {
			delete(p.index.posts, p.value)
		}
	}
	e.posts = posts
	clear(s.filings)
}

// post returns the post of a value, made if need be.
func (x *index) post(value string) *post {
	p := x.posts[value]
	if p == nil {
		p = &post{index: x, value: strings.Clone(value)}
		x.posts[p.value] = p
	}
	return p
}

// of returns the entries with a value, which may be nil.
func (x *index) of(value string) *set {
	if p := x.posts[value]; p != nil {
		return &p.set
	}
	return nil
}

// AddIndex adds an index of the shown objects by the values that a function
// gives. It fails if the name is taken. The function must depend on the object
// alone; it is not called by several goroutines at once.
func (s *Store) AddIndex(name string, values func(client.Object) []string) error {
	s.writing.Lock()
	defer s.unlock()
	if s.fields[name] != nil {
		return fmt.Errorf("an index by %q exists already", name)
	}
	// The writer calls it, and so do queries for what the watch has told.
	var calling sync.Mutex
	s.add(s.fields, name, func(o Object) []string {
		obj := o.look()
		calling.Lock()
		defer calling.Unlock()
		return values(obj)
	})
	return nil
}

// add makes an index of what is there. The caller is the writer.
func (s *Store) add(to map[string]*index, name string, values func(Object) []string) {
	x := &index{values: values, posts: map[string]*post{}}
	s.all(func(e *entry) {
		if e.shown == nil {
			return
		}
		for _, value := range values(s.object(e, e.shown)) {
			p := x.post(value)
			p.add(e)
			e.posts = append(e.posts, p)
		}
	})
	s.indexes = append(s.indexes, x)
	s.mu.Lock()
	defer s.mu.Unlock()
	to[name] = x
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
	defer s.unlock()
	if s.labels[label] != nil || len(s.labels) >= labelIndexes {
		return
	}
	s.add(s.labels, label, func(o Object) []string {
		if value, ok := o.labels().Lookup(label); ok {
			return []string{value}
		}
		return nil
	})
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
