package memory

import (
	"bytes"
	"maps"
	"sync"
	"testing"

	"flyball.dev/storage/memory/internal/dictionary"
)

func TestEntryCached(t *testing.T) {
	r := newEntry("a", nil)
	if r.Cached("a") != nil {
		t.Error("a new record has a cached value")
	}
	if got := r.SetCached("a", 1); got != 1 {
		t.Errorf("SetCached: %v", got)
	}
	if got := r.SetCached("a", 2); got != 1 {
		t.Errorf("SetCached again: %v, want the value cached first", got)
	}
	for i := range maxCached - 1 {
		r.SetCached(i, i)
	}
	if r.Cached("a") != 1 || r.Cached(0) != 0 {
		t.Error("a value was evicted that there was room for")
	}
	r.SetCached("b", 1)
	if all := maps.Collect(r.AllCached()); len(all) != maxCached || all["b"] != 1 {
		t.Errorf("the cached values are %v", all)
	}
	if r.Cached("a") != nil {
		t.Error("the oldest value of too many was not evicted")
	}
	r.dropCached()
	if r.Cached("b") != nil {
		t.Error("dropCached has left a value")
	}
	if got := r.SetCached("b", 2); got != 2 || r.Cached("b") != nil || len(maps.Collect(r.AllCached())) != 0 {
		t.Errorf("SetCached after dropCached: %v, and cached %v", got, r.Cached("b"))
	}
}

func TestIdle(t *testing.T) {
	r := newEntry("a", []byte("value"))
	r.SetCached("a", 1)
	if r.wake() {
		t.Error("a new record is idle")
	}
	if r.isUnused() || !r.isUnused() {
		t.Error("the record was used once")
	}
	if r.Cached("a"); r.isUnused() {
		t.Error("the record was used by reading its cached value")
	}
	if !r.setIdle() || r.Cached("a") != nil || len(maps.Collect(r.AllCached())) != 0 {
		t.Error("the idle record has a cached value")
	}
	if got := r.SetCached("a", 2); got != 2 || r.Cached("a") != nil {
		t.Errorf("SetCached idle: %v, and cached %v", got, r.Cached("a"))
	}
	if !r.wake() || r.wake() {
		t.Error("the record must be woken by one call")
	}
	if r.SetCached("a", 3); r.Cached("a") != 3 {
		t.Error("nothing was cached when the record was awake again")
	}
	r.setIdle()
	r.retire()
	if r.SetCached("a", 4); r.Cached("a") != 4 || r.setIdle() || r.wake() || !r.retired.Load() {
		t.Error("a retired record is idle")
	}
	r.dropCached()
	if r.setIdle() || r.wake() {
		t.Error("a record whose values were dropped is idle")
	}
}

func TestEntryCompress(t *testing.T) {
	text := bytes.Repeat([]byte("abcdefghij"), 10)
	r := newEntry("a", text)
	e := dictionary.Train([][]byte{text})
	for range 2 {
		if r.compress(e); !r.isCompressed() || !bytes.Equal(r.Value(), text) || r.Size() != len(text) {
			t.Errorf("compressed %v, %q of %d bytes", r.isCompressed(), r.Value(), r.Size())
		}
	}
	c := r.copy()
	if c.Key != "a" || !bytes.Equal(c.Value(), text) {
		t.Errorf("the copy is %q: %q", c.Key, c.Value())
	}
	short := newEntry("b", []byte("b"))
	if short.compress(e); short.isCompressed() || string(short.Value()) != "b" {
		t.Errorf("a short value: compressed %v, %q", short.isCompressed(), short.Value())
	}
}

func TestEntryConcurrently(t *testing.T) {
	r := newEntry("a", nil)
	var group sync.WaitGroup
	got := make([]any, 8)
	for i := range got {
		group.Go(func() { got[i] = r.SetCached("a", &i) })
	}
	group.Wait()
	for _, v := range got {
		if v != got[0] {
			t.Error("not all callers share one value")
		}
	}
}
