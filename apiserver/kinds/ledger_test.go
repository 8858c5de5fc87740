package kinds

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestLedger(t *testing.T) {
	const a, b = types.UID("a"), types.UID("b")
	has := func(t *testing.T, l *ledger[int], want map[int]types.UID) {
		t.Helper()
		for k := range 5 {
			got, _ := l.ownerOf(k)
			if got != want[k] {
				t.Errorf("%d belongs to %q, want %q", k, got, want[k])
			}
		}
	}
	t.Run("one owner", func(t *testing.T) {
		l := newLedger[int]()
		if !l.take(1, &taking{owner: a}) || l.take(1, &taking{owner: b}) || !l.take(1, &taking{owner: a}) {
			t.Error("1 is for its first owner only")
		}
		l.free(a)
		if !l.take(1, &taking{owner: b}) {
			t.Error("1 is free again")
		}
	})
	t.Run("a failed write gives back what it took", func(t *testing.T) {
		l := newLedger[int]()
		l.take(1, &taking{owner: a})
		w := &taking{owner: a, basis: 10}
		l.take(1, w)
		l.take(2, w)
		l.release(w)
		has(t, l, map[int]types.UID{1: a})
	})
	t.Run("but not what another write took as well", func(t *testing.T) {
		l := newLedger[int]()
		fails, succeeds := &taking{owner: a, basis: 10}, &taking{owner: a, basis: 10}
		l.take(1, fails)
		l.take(1, succeeds)
		l.release(fails)
		has(t, l, map[int]types.UID{1: a})
	})
	t.Run("a write settles what came before", func(t *testing.T) {
		l := newLedger[int]()
		l.take(1, &taking{owner: a})
		l.take(2, &taking{owner: a, basis: 10})
		l.take(4, &taking{owner: b})
		l.settle(a, 11, []int{2})
		has(t, l, map[int]types.UID{2: a, 4: b})
	})
	t.Run("but not what a later write takes", func(t *testing.T) {
		l := newLedger[int]()
		l.take(1, &taking{owner: a, basis: 10}) // becomes 11
		l.take(2, &taking{owner: a, basis: 11}) // under way
		l.settle(a, 11, []int{1})
		has(t, l, map[int]types.UID{1: a, 2: a})
		l.settle(a, 12, []int{2})
		has(t, l, map[int]types.UID{2: a})
		if len(l.owners) != 1 || len(l.owners[a]) != 1 {
			t.Errorf("owners: %v", l.owners)
		}
	})
}
