package storagetest

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"flyball.dev/storage"
)

// model is the simplest possible store: the list of all writes.
type model struct {
	events []*storage.Event
}

// revision returns the latest revision.
func (m *model) revision() uint64 {
	if len(m.events) == 0 {
		return storage.First
	}
	return m.events[len(m.events)-1].Record.Revision
}

// at returns the records at a revision, in order.
func (m *model) at(revision uint64) []*storage.Record {
	byKey := map[string]*storage.Record{}
	for _, e := range m.events {
		switch {
		case e.Record.Revision > revision:
			return sorted(byKey)
		case e.Type == storage.Deleted:
			delete(byKey, e.Record.Key)
		default:
			byKey[e.Record.Key] = e.Record
		}
	}
	return sorted(byKey)
}

func sorted(byKey map[string]*storage.Record) []*storage.Record {
	return slices.SortedFunc(maps.Values(byKey), func(a, b *storage.Record) int { return strings.Compare(a.Key, b.Key) })
}

func (m *model) get(key string) *storage.Record {
	for _, r := range m.at(m.revision()) {
		if r.Key == key {
			return r
		}
	}
	return nil
}

// is reports whether a record is at a revision; nil stands for no record.
func is(r *storage.Record, expect uint64) bool {
	switch {
	case expect == storage.Any:
		return true
	case r == nil:
		return expect == storage.Absent
	default:
		return expect == r.Revision
	}
}

// commit carries out a transaction, and returns its events.
func (m *model) commit(writes ...storage.Write) ([]*storage.Event, error) {
	for i, w := range writes {
		if slices.ContainsFunc(writes[:i], func(other storage.Write) bool { return other.Key == w.Key }) {
			return nil, storage.ErrDuplicate
		}
	}
	for _, w := range writes {
		switch old := m.get(w.Key); {
		case w.Delete && old == nil:
			return nil, storage.ErrNotFound
		case !is(old, w.If):
			return nil, storage.ErrConflict
		}
	}
	for _, w := range writes {
		for _, c := range w.Require {
			if !is(m.get(c.Key), c.If) {
				return nil, storage.ErrCondition
			}
		}
	}
	revision := m.revision() + 1
	var events []*storage.Event
	for _, w := range writes {
		events = append(events, event(w, m.get(w.Key), revision))
	}
	m.events = append(m.events, events...)
	return events, nil
}

// event returns the event of a write at a revision that replaces a record or nil.
func event(w storage.Write, old *storage.Record, revision uint64) *storage.Event {
	e := &storage.Event{Type: storage.Created, Prev: old}
	r := storage.Record{Key: w.Key, Revision: revision, Created: revision, Version: 1, Content: content(w.Value)}
	switch {
	case w.Delete:
		e.Type, r = storage.Deleted, *old
		r.Revision = revision
	case old != nil:
		e.Type, r.Created, r.Version = storage.Modified, old.Created, old.Version+1
	}
	e.Record = &r
	return e
}

// page returns the result of a range.
func (m *model) page(q storage.Query) storage.Page { return cut(q, m.at(q.Revision)) }

// cut returns the page that a query selects from records.
func cut(q storage.Query, records []*storage.Record) storage.Page {
	p := storage.Page{Revision: q.Revision}
	for _, r := range records {
		switch {
		case !q.Covers(r.Key):
		case q.Limit > 0 && len(p.Records) == q.Limit:
			p.Remaining++
		default:
			p.Records = append(p.Records, r)
		}
	}
	return p
}

// between returns descriptions of the events of a path in (after, until].
func (m *model) between(path string, after, until uint64) []string {
	var events []string
	for _, e := range m.events {
		if r := e.Record; r.Revision > after && r.Revision <= until && storage.Covers(path, r.Key) {
			events = append(events, describe(e))
		}
	}
	return events
}

// The keys and paths that programs use. They are few, so that programs write each of them often.
var (
	someKeys  = []string{"a", "a/", "a/x", "a/y", "a/z/1", "a/z/2", "b/x", "b0", "/c/d/e"}
	somePaths = []string{"", "a/", "a/z/", "a", "a/x", "b/", "/", "/c/", "/c/d/e", "none/"}
)

// replay is the execution of a program: a store, its model, and the open watchers.
type replay struct {
	t        testing.TB
	store    storage.Store
	model    model
	watchers []*watched
	program  []byte
}

// watched is an open watcher and its progress.
type watched struct {
	storage.Watcher
	path  string
	after uint64 // all events up to this revision were received
}

// Replay runs a program, which may be any bytes, on an empty store and on the model, and compares
// the results of all calls. It is meant for fuzzing.
func Replay(t testing.TB, s storage.Store, program []byte) {
	p := &replay{t: t, store: s, program: program}
	for len(p.program) > 0 && !t.Failed() {
		p.step()
	}
	for _, w := range slices.Clone(p.watchers) {
		for p.drain(w) {
		}
		w.Close()
	}
}

// choose returns a number below n, from the next byte of the program.
func (p *replay) choose(n int) int {
	if len(p.program) == 0 {
		return 0
	}
	c := int(p.program[0])
	p.program = p.program[1:]
	return c % n
}

// past returns a revision, most often a recent one, and sometimes one in the future.
func (p *replay) past() uint64 {
	revision := p.model.revision() + 2
	return max(revision-min(revision, uint64(p.choose(64))), storage.First)
}

// condition returns a condition for a write to key, most often one that holds.
func (p *replay) condition(key string) uint64 {
	switch p.choose(8) {
	case 0:
		return p.past()
	case 1:
		return storage.Absent
	case 2, 3, 4:
		return storage.Any
	}
	if r := p.model.get(key); r != nil {
		return r.Revision
	}
	return storage.Absent
}

// conditions returns the conditions of a write on other records: most often none.
func (p *replay) conditions() []storage.Condition {
	var all []storage.Condition
	for range max(p.choose(6)-3, 0) {
		key := someKeys[p.choose(len(someKeys))]
		all = append(all, storage.Condition{Key: key, If: p.condition(key)})
	}
	return all
}

// step makes the call that the next bytes of the program choose, and compares the revisions.
func (p *replay) step() {
	key := someKeys[p.choose(len(someKeys))]
	switch p.choose(16) {
	default:
		p.put(key)
	case 5:
		p.transact()
	case 6, 7:
		p.commit()
	case 8, 9:
		p.delete(key)
	case 10:
		p.get(key)
	case 11, 12:
		p.pages()
	case 13:
		p.watch()
	case 14:
		if len(p.watchers) > 0 {
			p.drain(p.watchers[p.choose(len(p.watchers))])
		}
	case 15:
		p.compact()
	}
	latest, oldest, err := p.store.Revisions(ctx)
	if err != nil || latest != p.model.revision() || oldest > latest {
		p.t.Errorf("Revisions: %d, %d, %v; want %d", latest, oldest, err, p.model.revision())
	}
}

func (p *replay) put(key string) {
	value, expect := fmt.Sprint(p.choose(10)), p.condition(key)
	require := p.conditions()
	r, err := p.store.Put(ctx, storage.Write{Key: key, Value: []byte(value), If: expect, Require: require})
	_, want := p.model.commit(storage.Write{Key: key, Value: []byte(value), If: expect, Require: require})
	p.compare("Put", err, want)
	if want == storage.ErrCondition {
		p.compareRecord("Put", r, nil)
		return
	}
	p.compareRecord("Put", r, p.model.get(key))
}

func (p *replay) delete(key string) {
	expect := p.condition(key)
	r, err := p.store.Delete(ctx, key, expect)
	_, want := p.model.commit(storage.Write{Key: key, Delete: true, If: expect})
	p.compare("Delete", err, want)
	switch want {
	case nil:
		p.compareRecord("Delete", r, p.model.events[len(p.model.events)-1].Record)
	case storage.ErrConflict:
		p.compareRecord("Delete", r, p.model.get(key))
	}
}

// commit carries out a transaction.
func (p *replay) commit() {
	writes := p.writes()
	records, err := p.store.Commit(ctx, writes)
	events, want := p.model.commit(writes...)
	p.compare("Commit", err, want)
	var wanted []*storage.Record
	switch want {
	case nil:
		for _, e := range events {
			wanted = append(wanted, e.Record)
		}
	case storage.ErrConflict, storage.ErrNotFound:
		for _, w := range writes {
			wanted = append(wanted, p.model.get(w.Key))
		}
	}
	if len(records) != len(wanted) {
		p.t.Fatalf("Commit of %+v: %d records, want %d", writes, len(records), len(wanted))
	}
	for i := range wanted {
		p.compareRecord("Commit", records[i], wanted[i])
	}
}

// writes returns up to four writes, sometimes of one key twice.
func (p *replay) writes() (writes []storage.Write) {
	for range p.choose(4) + 1 {
		w := storage.Write{Key: someKeys[p.choose(len(someKeys))]}
		if w.If = p.condition(w.Key); p.choose(3) == 0 {
			w.Delete = true
		} else {
			w.Value = []byte(fmt.Sprint(p.choose(10)))
		}
		w.Require = p.conditions()
		writes = append(writes, w)
	}
	return writes
}

func (p *replay) get(key string) {
	r, err := p.store.Get(ctx, key)
	want := p.model.get(key)
	if want == nil {
		p.compare("Get", err, storage.ErrNotFound)
	} else {
		p.compare("Get", err, nil)
	}
	p.compareRecord("Get", r, want)
}

func (p *replay) pages() {
	q := p.query()
	got, err := p.store.Range(ctx, q)
	_, oldest, _ := p.store.Revisions(ctx)
	p.comparePage(q, got, err, oldest)
}

// query returns a query, sometimes at a revision that cannot be read.
func (p *replay) query() storage.Query {
	q := storage.Query{Path: somePaths[p.choose(len(somePaths))], Limit: p.choose(4)}
	if p.choose(2) == 0 {
		q.Start = someKeys[p.choose(len(someKeys))]
	}
	if p.choose(3) == 0 {
		q.End = someKeys[p.choose(len(someKeys))]
	}
	if p.choose(2) == 0 {
		q.Revision = p.past()
	}
	return q
}

// comparePage compares the result of a range of a history that began at a revision.
func (p *replay) comparePage(q storage.Query, got storage.Page, err error, oldest uint64) {
	if p.outside(q.Revision, oldest, "Range", err) {
		return
	}
	if q.Revision == 0 {
		q.Revision = p.model.revision()
	}
	p.compare("Range", err, nil)
	want := p.model.page(q)
	if got.Revision != want.Revision || got.Remaining != want.Remaining || len(got.Records) != len(want.Records) {
		p.t.Fatalf("Range(%+v): %q and %d at %d; want %q and %d", q, keys(got.Records), got.Remaining, got.Revision,
			keys(want.Records), want.Remaining)
	}
	for i, r := range got.Records {
		p.compareRecord("Range", r, want.Records[i])
	}
}

// outside reports whether a revision lies outside the history, which began at another, and checks the error.
func (p *replay) outside(revision, oldest uint64, what string, err error) bool {
	switch {
	case revision == 0:
		return false
	case revision < oldest:
		p.compare(what, err, storage.ErrCompacted)
		return true
	case revision > p.model.revision():
		p.compare(what, err, storage.ErrFuture)
		return true
	}
	return false
}

func (p *replay) watch() {
	path, after := somePaths[p.choose(len(somePaths))], p.past()
	w, err := p.store.Watch(ctx, path, after)
	_, oldest, _ := p.store.Revisions(ctx)
	if after <= p.model.revision() && p.outside(after, oldest, "Watch", err) {
		return
	}
	p.compare("Watch", err, nil)
	p.watchers = append(p.watchers, &watched{w, path, after})
}

// drain checks the next events of a watcher, and reports whether there may be more.
func (p *replay) drain(w *watched) bool {
	events, revision, err := w.Next()
	if err != nil {
		_, oldest, _ := p.store.Revisions(ctx)
		if !errors.Is(err, storage.ErrCompacted) || oldest <= w.after {
			p.t.Errorf("Next after %d: %v, but the history begins at %d", w.after, err, oldest)
		}
		w.Close()
		p.watchers = slices.DeleteFunc(p.watchers, func(other *watched) bool { return other == w })
		return false
	}
	var got []string
	for _, e := range events {
		got = append(got, describe(e))
	}
	if want := p.model.between(w.path, w.after, revision); !slices.Equal(got, want) {
		p.t.Errorf("watching %q after %d, up to %d: %q, want %q", w.path, w.after, revision, got, want)
	}
	if revision < w.after {
		p.t.Errorf("watching %q has gone back to %d from %d", w.path, revision, w.after)
	}
	if len(events) == 0 && revision != max(p.model.revision(), w.after) {
		p.t.Errorf("watching %q after %d: nothing up to %d, but the store is at %d", w.path, w.after, revision, p.model.revision())
	}
	w.after = revision
	return len(events) > 0
}

func (p *replay) compact() {
	revision := p.past()
	err := p.store.Compact(ctx, revision)
	if revision > p.model.revision() {
		p.compare("Compact", err, storage.ErrFuture)
		return
	}
	p.compare("Compact", err, nil)
	if _, oldest, _ := p.store.Revisions(ctx); oldest < revision {
		p.t.Errorf("compacted %d, but the history begins at %d", revision, oldest)
	}
}

func (p *replay) compare(what string, got, want error) {
	p.t.Helper()
	if !errors.Is(got, want) {
		p.t.Fatalf("%s: error %v, want %v", what, got, want)
	}
}

func (p *replay) compareRecord(what string, got, want *storage.Record) {
	p.t.Helper()
	if (got == nil) != (want == nil) {
		p.t.Fatalf("%s: %+v, want %+v", what, got, want)
	}
	if got != nil && describe(&storage.Event{Record: got}) != describe(&storage.Event{Record: want}) {
		p.t.Fatalf("%s: %+v, want %+v", what, got, want)
	}
}

// content is a value of the model. It caches nothing.
type content string

func (c content) Value() []byte                  { return []byte(c) }
func (c content) ValueIn([]byte) []byte          { return []byte(c) }
func (c content) Preload([]*storage.Record)      {}
func (c content) Size() int                      { return len(c) }
func (c content) Cached(any) any                 { return nil }
func (c content) SetCached(_, value any) any     { return value }
func (c content) Note() uint32                   { return 0 }
func (c content) SetNote(uint32)                 {}
func (c content) AllCached() iter.Seq2[any, any] { return func(func(_, _ any) bool) {} }
