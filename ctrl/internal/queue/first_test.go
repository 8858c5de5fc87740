package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/internal/heaptest"
)

// number is an element of a heap that counts the comparisons.
type number struct {
	n           int
	comparisons *int
}

func (a number) before(b number) bool { *a.comparisons++; return a.n < b.n }
func (number) moved(int)              {}

// TestFirst: the first elements are the smallest ones in order, and the comparisons depend on how many they are alone.
func TestFirst(t *testing.T) {
	for _, size := range []int{0, 1, 2, 10, 1000, 100_000} {
		comparisons := 0
		var h heap[number]
		for _, n := range rand.Perm(size) {
			h.push(number{n, &comparisons})
		}
		for _, n := range []int{0, 1, 3, 100} {
			comparisons = 0
			var got []int
			for x := range first(h, n) {
				got = append(got, x.n)
			}
			if len(got) != min(n, size) || !slices.IsSorted(got) || len(got) > 0 && got[len(got)-1] != len(got)-1 {
				t.Errorf("the first %d of %d are %v", n, size, got)
			}
			if comparisons > 20*n {
				t.Errorf("the first %d of %d take %d comparisons", n, size, comparisons)
			}
		}
	}
}

// waitingQueue returns a queue with n keys that wait.
func waitingQueue(t testing.TB, n int) *Queue[string] {
	q := New(Options[string]{})
	t.Cleanup(q.ShutDown)
	for i := range n {
		q.Add(time.Hour+time.Duration(i)*time.Second, 0, &cause.Cause{Kind: cause.Updated}, fmt.Sprint("waiting-", i))
	}
	return q
}

// TestSnapshotCopiesAPage: how much a snapshot copies does not depend on the length of the queue.
func TestSnapshotCopiesAPage(t *testing.T) {
	copied := func(q *Queue[string], n int) int64 {
		m := heaptest.New(t)
		const times = 10
		for range times {
			if s := q.Snapshot(100, 60); len(s.WaitingKeys) != 60 || s.WaitingKeys[0].Key != "waiting-100" || s.Waiting != n {
				t.Fatalf("the page of %d begins with %v", n, s.WaitingKeys[0].Key)
			}
		}
		return m.Allocated() / times
	}
	a, b := waitingQueue(t, 1000), waitingQueue(t, 100_000) // before allocations are slow
	short, long := copied(a, 1000), copied(b, 100_000)
	t.Logf("a page takes %d bytes of a queue of 1,000 keys, and %d of one of 100,000", short, long)
	if long > 2*short {
		t.Errorf("a page takes %d bytes of a queue of 1,000 keys, and %d of one of 100,000", short, long)
	}
}

// BenchmarkSnapshot takes pages of a queue in which keys wait.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		for _, offset := range []int{0, 800} {
			b.Run(fmt.Sprintf("%d/from%d", n, offset), func(b *testing.B) {
				q := waitingQueue(b, n)
				b.ReportAllocs()
				for b.Loop() {
					q.Snapshot(offset, 60)
				}
			})
		}
	}
}
