package priorityqueue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/reconcile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// when takes n keys and returns the time since the beginning and the priority of each.
func when(q PriorityQueue[string], began time.Time, n int) []string {
	var got []string
	for range n {
		key, priority, _ := q.GetWithPriority()
		got = append(got, fmt.Sprint(key, " ", priority, " ", time.Since(began)))
		q.Done(key)
	}
	return got
}

func TestAdding(t *testing.T) {
	for name, c := range map[string]struct {
		add  func(q PriorityQueue[string])
		want []string
	}{
		"plainly":       {func(q PriorityQueue[string]) { q.Add("k"); q.Add("k") }, []string{"k 0 0s"}},
		"after a while": {func(q PriorityQueue[string]) { q.AddAfter("k", time.Hour) }, []string{"k 0 1h0m0s"}},
		"rate limited":  {func(q PriorityQueue[string]) { q.AddRateLimited("k"); q.AddRateLimited("k") }, []string{"k 0 5ms"}},
		"with a priority": {
			func(q PriorityQueue[string]) { q.Add("a"); q.AddWithOpts(AddOpts{Priority: ptr.To(7)}, "b", "c") },
			[]string{"b 7 0s", "c 7 0s", "a 0 0s"},
		},
		"rate limited, the limiter is first": {
			func(q PriorityQueue[string]) {
				q.AddWithOpts(AddOpts{RateLimited: true, After: time.Hour, Priority: ptr.To(1)}, "k")
			},
			[]string{"k 1 5ms"},
		},
		"rate limited, the time is first": {
			func(q PriorityQueue[string]) { q.AddWithOpts(AddOpts{RateLimited: true, After: time.Millisecond}, "k") },
			[]string{"k 0 1ms"},
		},
		"a late one rises": {
			func(q PriorityQueue[string]) {
				q.AddAfter("k", time.Hour)
				q.AddWithOpts(AddOpts{After: 2 * time.Hour, Priority: ptr.To(3)}, "k")
			},
			[]string{"k 3 1h0m0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New[string]("")
				defer q.ShutDown()
				began := time.Now()
				c.add(q)
				if got := when(q, began, len(c.want)); !slices.Equal(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
				if q.Len() != 0 {
					t.Errorf("%d too many", q.Len())
				}
			})
		})
	}
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New("", func(o *Opts[string]) {
			o.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
		})
		defer q.ShutDown()
		for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			began := time.Now()
			q.AddRateLimited("k")
			key, shutdown := q.Get()
			q.Done(key)
			if took := time.Since(began); took != want || shutdown {
				t.Errorf("it took %v, want %v", took, want)
			}
		}
		if n := q.NumRequeues("k"); n != 3 {
			t.Errorf("%d requeues", n)
		}
		q.Forget("k")
		if n := q.NumRequeues("k"); n != 0 {
			t.Errorf("%d requeues after Forget", n)
		}
	})
}

func TestShutDown(t *testing.T) {
	logged := 0
	q := New("", func(o *Opts[string]) {
		o.Log = funcr.New(func(string, string) { logged++ }, funcr.Options{Verbosity: 5})
	})
	q.Add("k")
	q.ShutDown()
	q.Add("k")
	q.AddRateLimited("k")
	q.AddWithOpts(AddOpts{RateLimited: true}, "k")
	if key, priority, shutdown := q.GetWithPriority(); !shutdown || key != "" || priority != 0 || q.Len() != 0 || !q.ShuttingDown() {
		t.Errorf("after the shutdown Get returned %q", key)
	}
	if q.NumRequeues("k") != 0 {
		t.Error("the rate limiter was used after the shutdown")
	}
	if logged != 1 {
		t.Errorf("%d lines logged", logged)
	}
}

func TestAgingThreshold(t *testing.T) {
	for threshold, want := range map[time.Duration]string{0: "low", time.Hour: "high", -1: "high"} {
		synctest.Test(t, func(t *testing.T) {
			q := New("", func(o *Opts[string]) { o.AgingThreshold = threshold })
			defer q.ShutDown()
			q.AddWithOpts(AddOpts{Priority: ptr.To(-100)}, "low")
			time.Sleep(DefaultAgingThreshold)
			q.Add("high")
			if got, _ := q.Get(); got != want {
				t.Errorf("with an aging threshold of %v %s goes first", threshold, got)
			}
		})
	}
}

func TestFlowsAreServedRoundRobin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New("", func(o *Opts[string]) { o.Flow = func(key string) string { return key[:1] } })
		defer q.ShutDown()
		q.AddWithOpts(AddOpts{}, "a1", "a2", "a3", "b1")
		want := []string{"a1 0 0s", "b1 0 0s", "a2 0 0s", "a3 0 0s"}
		if got := when(q, time.Now(), 4); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestAllocations keeps the hot path free of them: a key that is added, taken and done costs none,
// and one at most if it is known why it was added.
func TestAllocations(t *testing.T) {
	q := New[string]("allocations").(*priorityQueue[string])
	defer q.ShutDown()
	why := reconcile.Cause{Kind: reconcile.CauseUpdated}
	for name, c := range map[string]struct {
		add  func()
		most float64
	}{
		"plain":      {func() { q.Add("k") }, 0},
		"for reason": {func() { q.AddWithCause(why, AddOpts{}, "k") }, 1},
	} {
		if n := testing.AllocsPerRun(1000, func() {
			c.add()
			q.GetWithCauses()
			q.Done("k")
		}); n > c.most {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
