package storage

import (
	"errors"
	"maps"
	"sync"
	"testing"
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
