package storagetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"flyball.dev/storage"
)

// transact reads a page in a transaction, and sometimes writes, if the store has such transactions.
func (p *replay) transact() {
	s, ok := p.store.(storage.Transactor)
	q, writes := p.query(), p.writes()
	if p.choose(4) == 0 {
		writes = nil
	}
	if !ok {
		return
	}
	var page storage.Page
	var latest, oldest uint64
	var readErr error
	revision, err := s.Transact(ctx, func(v storage.View) ([]storage.Write, error) {
		latest, oldest = v.Revisions()
		page, readErr = v.Range(q)
		return writes, nil
	})
	if latest != p.model.revision() || oldest > latest {
		p.t.Errorf("Transact: the revisions of the view are %d and %d, want %d", latest, oldest, p.model.revision())
	}
	p.comparePage(q, page, readErr, oldest)
	_, want := p.model.commit(writes...)
	p.compare("Transact", err, want)
	if err == nil && revision != p.model.revision() {
		p.t.Errorf("Transact returns revision %d, want %d", revision, p.model.revision())
	}
}

// testTransact deletes what it reads, and refuses some transactions.
func testTransact(t *testing.T, store storage.Store) {
	s := as[storage.Transactor](t, store)
	const n = storage.MaxOperations / 2
	for i := range n {
		put(t, s, fmt.Sprintf("k/%03d", i), "1")
	}
	before := put(t, s, "l", "1").Revision
	w := watch(t, s, "", 0)
	defer w.Close()
	calls := 0
	revision, err := s.Transact(ctx, func(v storage.View) (writes []storage.Write, err error) {
		calls++
		if latest, oldest := v.Revisions(); latest != before || oldest > latest {
			t.Errorf("the view is at revisions %d to %d, want %d", oldest, latest, before)
		}
		page, err := v.Range(storage.Query{Start: "k/", End: "k/050"})
		for _, r := range page.Records {
			writes = append(writes, storage.Write{Key: r.Key, Delete: true, If: r.Revision})
		}
		return append(writes, storage.Write{Key: "l", Value: []byte("2"), If: storage.Any}), err
	})
	if err != nil || calls == 0 || revision != before+1 {
		t.Fatalf("Transact: revision %d, %v after %d calls", revision, err, calls)
	}
	events := next(t, w)
	if len(events) != 51 || events[50].Record.Key != "l" || events[0].Record.Revision != before+1 || events[50].Record.Revision != before+1 {
		t.Errorf("got %d events, the last %q", len(events), describe(events[len(events)-1]))
	}
	if page, err := s.Range(ctx, storage.Query{Revision: before}); err != nil || len(page.Records) != n+1 {
		t.Errorf("before: %d records, %v", len(page.Records), err)
	}

	failed := errors.New("failed")
	for _, test := range []struct {
		name   string
		writes []storage.Write
		err    error
		want   error
	}{
		{"nothing", nil, nil, nil},
		{"error", []storage.Write{{Key: "m"}}, failed, failed},
		{"conflict", []storage.Write{{Key: "m"}, {Key: "l", If: storage.Absent}}, nil, storage.ErrConflict},
		{"not found", []storage.Write{{Key: "m"}, {Key: "n", Delete: true, If: storage.Any}}, nil, storage.ErrNotFound},
		{"duplicate", []storage.Write{{Key: "m"}, {Key: "m"}}, nil, storage.ErrDuplicate},
		{"key", []storage.Write{{Key: "m"}, {}}, nil, storage.ErrKey},
	} {
		_, err := s.Transact(ctx, func(storage.View) ([]storage.Write, error) { return test.writes, test.err })
		wantErr(t, test.name, err, test.want)
		if latest, _, _ := s.Revisions(ctx); latest != before+1 {
			t.Fatalf("%s: the revision is %d", test.name, latest)
		}
	}
	if revision, err := s.Transact(ctx, func(storage.View) ([]storage.Write, error) { return nil, nil }); err != nil || revision != before+1 {
		t.Errorf("Transact without writes: revision %d, %v; want %d", revision, err, before+1)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	_, err = s.Transact(ctx, func(storage.View) ([]storage.Write, error) { return nil, nil })
	wantErr(t, "closed", err, storage.ErrClosed)
}

// testConcurrentTransactions lets writers append to a list, and read its length as a range. No two may get the same
// position.
func testConcurrentTransactions(t *testing.T, store storage.Store) {
	s := as[storage.Transactor](t, store)
	var writing sync.WaitGroup
	var mu sync.Mutex
	at := map[uint64]int{} // the position that was written at a revision
	for range writers {
		writing.Go(func() {
			for range appended {
				position := 0
				revision, err := s.Transact(ctx, func(v storage.View) ([]storage.Write, error) {
					page, err := v.Range(storage.Query{Path: "list/"})
					position = len(page.Records)
					return []storage.Write{{Key: fmt.Sprintf("list/%06d", position)}}, err
				})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				at[revision] = position
				mu.Unlock()
			}
		})
	}
	writing.Wait()
	page, err := s.Range(ctx, storage.Query{Path: "list/"})
	if err != nil || len(page.Records) != writers*appended {
		t.Errorf("%d records, %v; want %d", len(page.Records), err, writers*appended)
	}
	for i, r := range page.Records {
		if position, ok := at[r.Revision]; !ok || position != i || r.Version != 1 {
			t.Errorf("%s is at revision %d, version %d, and was written as number %d", r.Key, r.Revision, r.Version, position)
		}
	}
}

// appended is how many records each writer appends. A transaction may read MaxOperations of them.
const appended = (storage.MaxOperations - 1) / writers
