package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"flyball.dev/storage"
)

const (
	writers  = 4
	rounds   = 150
	counters = 5
)

// testConcurrent lets writers increment shared counters by compare-and-swap while other goroutines range and watch. No
// increment may be lost, each watcher must receive each write once and in order, and each page must match the state
// after one of the writes.
func testConcurrent(t *testing.T, s storage.Store) {
	var writing, reading sync.WaitGroup
	seen := make([][]*storage.Event, 3)
	for i := range seen {
		w := watch(t, s, "", 0)
		defer w.Close()
		reading.Go(func() { seen[i] = follow(t, w, writers*rounds) })
	}
	pages := make([][]storage.Page, 2)
	for i := range pages {
		reading.Go(func() { pages[i] = readPages(t, s, writers*rounds) })
	}
	for i := range writers {
		writing.Go(func() {
			for round := range rounds {
				if err := increment(s, fmt.Sprintf("count/%d", (i+round)%counters)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	reading.Wait()

	m := model{events: seen[0]}
	total := 0
	for _, r := range m.at(m.revision()) {
		n, _ := strconv.Atoi(string(r.Value()))
		total += n
	}
	if total != writers*rounds {
		t.Errorf("counted to %d, want %d", total, writers*rounds)
	}
	for _, events := range seen {
		checkOrder(t, events)
	}
	for _, page := range slices.Concat(pages...) {
		want := m.page(storage.Query{Path: "count/", Revision: page.Revision})
		if !slices.EqualFunc(page.Records, want.Records, func(a, b *storage.Record) bool {
			return a.Revision == b.Revision
		}) {
			t.Errorf("the page at %d is no state of the store", page.Revision)
		}
	}
}

// increment adds one to the number under key.
func increment(s storage.Store, key string) error {
	record, err := s.Get(ctx, key)
	for {
		w := storage.Write{Key: key, Value: []byte("1")}
		switch {
		case err == nil && record != nil:
			n, _ := strconv.Atoi(string(record.Value()))
			w.Value, w.If = []byte(strconv.Itoa(n+1)), record.Revision
		case err != nil && !errors.Is(err, storage.ErrNotFound):
			return err
		}
		record, err = s.Put(ctx, w)
		if err == nil {
			return nil
		}
		if errors.Is(err, storage.ErrConflict) {
			err = nil
		}
	}
}

// follow returns the next n events of a watcher.
func follow(t testing.TB, w storage.Watcher, n int) []*storage.Event {
	var all []*storage.Event
	for len(all) < n {
		events, _, err := w.Next()
		if err != nil {
			t.Errorf("Next: %v", err)
			return all
		}
		all = append(all, events...)
		if len(events) == 0 {
			<-w.Ready()
		}
	}
	return all
}

// readPages reads until the store has seen n writes.
func readPages(t testing.TB, s storage.Store, n int) []storage.Page {
	var pages []storage.Page
	for {
		page, err := s.Range(ctx, storage.Query{Path: "count/"})
		if err != nil {
			t.Errorf("Range: %v", err)
			return pages
		}
		if len(pages) == 0 || pages[len(pages)-1].Revision != page.Revision {
			pages = append(pages, page)
		}
		if page.Revision >= storage.First+uint64(n) {
			return pages
		}
	}
}

// checkOrder checks that events have consecutive revisions and the right previous records.
func checkOrder(t testing.TB, events []*storage.Event) {
	last := map[string]*storage.Record{}
	for i, e := range events {
		if want := storage.First + 1 + uint64(i); e.Record.Revision != want {
			t.Fatalf("event %d has revision %d, want %d", i, e.Record.Revision, want)
		}
		if e.Prev != last[e.Record.Key] {
			t.Fatalf("the event of revision %d does not follow the one before", e.Record.Revision)
		}
		last[e.Record.Key] = e.Record
	}
}
