package storage

import (
	"errors"
	"maps"
	"sync"
	"testing"
)

func TestMemo(t *testing.T) {
	var r Record
	if r.Memo("a") != nil {
		t.Error("a new record has a memo")
	}
	if got := r.Memoize("a", 1); got != 1 {
		t.Errorf("Memoize: %v", got)
	}
	if got := r.Memoize("a", 2); got != 1 {
		t.Errorf("Memoize again: %v, want what was there", got)
	}
	for i := range maxMemos - 1 {
		r.Memoize(i, i)
	}
	if r.Memo("a") != 1 || r.Memo(0) != 0 {
		t.Error("a memo is gone that there was room for")
	}
	r.Memoize("b", 1)
	if all := maps.Collect(r.Memos()); len(all) != maxMemos || all["b"] != 1 {
		t.Errorf("the memos are %v", all)
	}
	if r.Memo("a") != nil {
		t.Error("the oldest memo of too many was kept")
	}
	r.Forget()
	if r.Memo("b") != nil {
		t.Error("Forget has kept a memo")
	}
	if got := r.Memoize("b", 2); got != 2 || r.Memo("b") != nil || len(maps.Collect(r.Memos())) != 0 {
		t.Errorf("Memoize after Forget: %v, and kept %v", got, r.Memo("b"))
	}
}

func TestMemoizeConcurrently(t *testing.T) {
	var r Record
	var group sync.WaitGroup
	got := make([]any, 8)
	for i := range got {
		group.Go(func() { got[i] = r.Memoize("a", &i) })
	}
	group.Wait()
	for _, v := range got {
		if v != got[0] {
			t.Error("not all share one memo")
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
