package allocator

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestAllocator(t *testing.T) {
	const a, b = types.UID("a"), types.UID("b")
	has := func(t *testing.T, l *Allocator[int], want map[int]types.UID) {
		t.Helper()
		for k := range 5 {
			got, _ := l.Owner(k)
			if got != want[k] {
				t.Errorf("%d belongs to %q, want %q", k, got, want[k])
			}
		}
	}
	t.Run("one owner", func(t *testing.T) {
		l := New[int]()
		if !l.Allocate(1, &Write{Owner: a}) || l.Allocate(1, &Write{Owner: b}) || !l.Allocate(1, &Write{Owner: a}) {
			t.Error("1 is for its first owner only")
		}
		l.Release(a)
		if !l.Allocate(1, &Write{Owner: b}) {
			t.Error("1 is free again")
		}
	})
	t.Run("a failed write gives back what it took", func(t *testing.T) {
		l := New[int]()
		l.Allocate(1, &Write{Owner: a})
		w := &Write{Owner: a, Revision: 10}
		l.Allocate(1, w)
		l.Allocate(2, w)
		l.Rollback(w)
		has(t, l, map[int]types.UID{1: a})
	})
	t.Run("but not what another write took as well", func(t *testing.T) {
		l := New[int]()
		fails, succeeds := &Write{Owner: a, Revision: 10}, &Write{Owner: a, Revision: 10}
		l.Allocate(1, fails)
		l.Allocate(1, succeeds)
		l.Rollback(fails)
		has(t, l, map[int]types.UID{1: a})
	})
	t.Run("a commit releases earlier allocations", func(t *testing.T) {
		l := New[int]()
		l.Allocate(1, &Write{Owner: a})
		l.Allocate(2, &Write{Owner: a, Revision: 10})
		l.Allocate(4, &Write{Owner: b})
		l.Commit(a, 11, []int{2})
		has(t, l, map[int]types.UID{2: a, 4: b})
	})
	t.Run("but not what a later write takes", func(t *testing.T) {
		l := New[int]()
		l.Allocate(1, &Write{Owner: a, Revision: 10}) // becomes 11
		l.Allocate(2, &Write{Owner: a, Revision: 11}) // under way
		l.Commit(a, 11, []int{1})
		has(t, l, map[int]types.UID{1: a, 2: a})
		l.Commit(a, 12, []int{2})
		has(t, l, map[int]types.UID{2: a})
		if len(l.owners) != 1 || len(l.owners[a]) != 1 {
			t.Errorf("owners: %v", l.owners)
		}
	})
}
