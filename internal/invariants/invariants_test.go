package invariants

import "testing"

func TestAssert(t *testing.T) {
	panicked := func(f func()) (did bool) {
		defer func() { did = recover() != nil }()
		f()
		return
	}
	if panicked(func() { Assert(true, "two is %d", 2) }) {
		t.Error("an invariant that holds panicked")
	}
	if got := panicked(func() { Assert(false, "two is %d", 3) }); got != Enabled {
		t.Errorf("a violated invariant panicked: %v, want %v", got, Enabled)
	}
}
