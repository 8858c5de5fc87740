package storage

import (
	"bytes"
	"errors"
	"maps"
	"sync"
	"testing"

	"flyball.dev/storage/internal/dictionary"
)

func TestCached(t *testing.T) {
	var r Record
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
	r.DropCached()
	if r.Cached("b") != nil {
		t.Error("DropCached has left a value")
	}
	if got := r.SetCached("b", 2); got != 2 || r.Cached("b") != nil || len(maps.Collect(r.AllCached())) != 0 {
		t.Errorf("SetCached after DropCached: %v, and cached %v", got, r.Cached("b"))
	}
}

func TestRest(t *testing.T) {
	r := NewRecord("a", []byte("value"))
	r.SetCached("a", 1)
	if r.Wake() {
		t.Error("a new record was at rest")
	}
	if r.Unused() || !r.Unused() {
		t.Error("the record was used once")
	}
	if r.Cached("a"); r.Unused() {
		t.Error("the record was used by reading its cached value")
	}
	if !r.Rest() || r.Cached("a") != nil || len(maps.Collect(r.AllCached())) != 0 {
		t.Error("the record at rest has a cached value")
	}
	if got := r.SetCached("a", 2); got != 2 || r.Cached("a") != nil {
		t.Errorf("SetCached at rest: %v, and cached %v", got, r.Cached("a"))
	}
	if !r.Wake() || r.Wake() {
		t.Error("the record must be woken by one call")
	}
	if r.SetCached("a", 3); r.Cached("a") != 3 {
		t.Error("nothing was cached when the record was awake again")
	}
	r.Rest()
	r.Retire()
	if r.SetCached("a", 4); r.Cached("a") != 4 || r.Rest() || r.Wake() || !r.Retired() {
		t.Error("a retired record is at rest")
	}
	r.DropCached()
	if r.Rest() || r.Wake() {
		t.Error("a record whose values were dropped is at rest")
	}
}

func TestCompress(t *testing.T) {
	text := bytes.Repeat([]byte("abcdefghij"), 10)
	r := NewRecord("a", text)
	e := dictionary.Train([][]byte{text})
	for range 2 {
		if r.Compress(e); !r.Compressed() || !bytes.Equal(r.Value(), text) || r.Size() != len(text) {
			t.Errorf("compressed %v, %q of %d bytes", r.Compressed(), r.Value(), r.Size())
		}
	}
	c := r.Copy()
	if c.Key != "a" || !bytes.Equal(c.Value(), text) {
		t.Errorf("the copy is %q: %q", c.Key, c.Value())
	}
	short := NewRecord("b", []byte("b"))
	if short.Compress(e); short.Compressed() || string(short.Value()) != "b" {
		t.Errorf("a short value: compressed %v, %q", short.Compressed(), short.Value())
	}
	if empty := new(Record); empty.Value() != nil || empty.Size() != 0 || empty.Compressed() {
		t.Error("a record without a value has one")
	}
}

func TestSetCachedConcurrently(t *testing.T) {
	var r Record
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

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		path, key string
		want      bool
	}{
		{"", "a", true},
		{"a/", "a/b", true},
		{"a/", "a", false},
		{"a", "a", true},
		{"a", "a/b", false},
		{"a", "ab", false},
		{"/", "a", false},
	} {
		if got := Covers(test.path, test.key); got != test.want {
			t.Errorf("Covers(%q, %q) = %v", test.path, test.key, got)
		}
	}
}

func TestCheckKey(t *testing.T) {
	for key, want := range map[string]error{"": ErrKey, "/": ErrKey, "a/": ErrKey, "a": nil, "/a": nil} {
		if err := CheckKey(key); !errors.Is(err, want) {
			t.Errorf("CheckKey(%q): %v", key, err)
		}
	}
}
