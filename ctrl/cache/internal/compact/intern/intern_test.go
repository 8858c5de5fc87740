package intern

import (
	"fmt"
	"testing"
)

// Whoever holds the entries from before reads on at IDs that were freed and are reused.
func TestReuse(t *testing.T) {
	defer func(n int) { MinIdle = n }(MinIdle)
	MinIdle = 2
	table := New[int]()
	add := func(n int) uint32 { return table.Add(uint64(n), Entry[int]{Text: fmt.Sprint(n)}, 10, 100) }
	first, second := add(1), add(2)
	before := table.Entries()
	if table.Changed() {
		t.Error("changed since the entries were read")
	}
	table.Retain(second)
	if table.Size() != 200 || table.Debt() != 170 {
		t.Errorf("size %d, debt %d, want 200 and 170", table.Size(), table.Debt())
	}
	table.Release(first)
	table.Free(func(int) {})
	if _, ok := table.Lookup(1); !ok {
		t.Error("a few idle entries are freed already")
	}
	table.Release(second)
	table.Release(second)
	table.Free(func(int) {})
	if _, ok := table.Lookup(1); ok || table.Size() != 0 || table.Debt() != 0 {
		t.Error("entries without uses are not freed")
	}
	if id := add(3); id != first && id != second {
		t.Errorf("ID %d is not reused", id)
	}
	if before[first].Text != "1" || before[second].Text != "2" {
		t.Errorf("a reader of before reads %v", before)
	}
	if !table.Changed() || len(table.Entries()) != 2 {
		t.Errorf("got %v", table.Entries())
	}
}

// What an entry has used is freed with it, and so on.
func TestFreeIdle(t *testing.T) {
	table := New[int]()
	const entries = 10
	for n := range entries {
		table.Add(uint64(n), Entry[int]{Value: n + 1}, 10, 100) // the next one uses it
	}
	used := table.Add(entries, Entry[int]{Text: "used"}, 10, 100)
	table.Release(entries - 1)
	table.FreeIdle(func(n int) {
		if n > 1 {
			table.Release(uint32(n - 2))
		}
	})
	for n := range uint64(entries) {
		if _, ok := table.Lookup(n); ok {
			t.Errorf("entry %d is not freed", n)
		}
	}
	if table.Entry(used).Text != "used" || table.Size() != 100 || table.Debt() != 90 {
		t.Errorf("got %v, size %d, debt %d", table.Current(), table.Size(), table.Debt())
	}
}

func TestReleasedTwice(t *testing.T) {
	table := New[int]()
	id := table.Add(1, Entry[int]{}, 1, 1)
	table.Release(id)
	defer func() {
		if recover() == nil {
			t.Error("a use that was not there is released")
		}
	}()
	table.Release(id)
}
