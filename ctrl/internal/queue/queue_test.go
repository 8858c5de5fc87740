package queue

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"flyball.dev/ctrl/internal/cause"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func inBubble(t *testing.T, f func(t *testing.T, q *Queue[string])) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{})
		defer q.ShutDown()
		f(t, q)
	})
}

// get fails the test instead of waiting.
func get(t *testing.T, q *Queue[string]) string {
	t.Helper()
	if q.Len() == 0 {
		t.Fatal("nothing to get")
	}
	key, _, _, _ := q.Get()
	return key
}

func TestOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, q *Queue[string]) {
		q.Add(0, 0, nil, "a", "b", "c")
		q.Add(0, 5, nil, "d", "b")
		q.Add(0, -1, nil, "d", "e")
		q.Add(2*time.Second, 5, nil, "late")
		q.Add(time.Second, 5, nil, "soon")
		time.Sleep(3 * time.Second)
		q.Add(0, 5, nil, "last")
		var got []string
		for q.Len() > 0 {
			key, priority, _, _ := q.Get()
			got = append(got, fmt.Sprint(key, priority))
			q.Done(key)
		}
		want := []string{"d5", "b5", "soon5", "late5", "last5", "a0", "c0", "e-1"}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestDelayKeepsTheEarliestTime(t *testing.T) {
	inBubble(t, func(t *testing.T, q *Queue[string]) {
		start := time.Now()
		q.AddOne(time.Hour, 0, nil, "k")
		q.AddOne(time.Minute, 0, nil, "k")
		q.AddOne(2*time.Hour, 0, nil, "k")
		key, _, _, _ := q.Get()
		if took := time.Since(start); took != time.Minute || key != "k" {
			t.Errorf("%q after %v, want k after 1m", key, took)
		}
		q.Done(key)
		if q.Len() != 0 {
			t.Error("one key came twice")
		}
	})
}

func TestAnEarlierKeyWakesAWorkerThatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, q *Queue[string]) {
		start := time.Now()
		q.AddOne(time.Hour, 0, nil, "slow")
		got := make(chan string)
		go func() {
			for {
				key, _, _, shutdown := q.Get()
				if shutdown {
					close(got)
					return
				}
				got <- fmt.Sprint(key, time.Since(start))
				q.Done(key)
			}
		}()
		synctest.Wait()
		q.AddOne(time.Minute, 0, nil, "quick")
		for _, want := range []string{"quick1m0s", "slow1h0m0s"} {
			if s := <-got; s != want {
				t.Errorf("got %s, want %s", s, want)
			}
		}
		q.ShutDown()
		<-got
	})
}

func TestADelayEndsWhileTheKeyIsInProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, q *Queue[string]) {
		q.AddOne(0, 0, nil, "k")
		get(t, q)
		q.AddOne(time.Second, 0, nil, "k")
		time.Sleep(time.Minute)
		if q.Len() != 1 {
			t.Errorf("Len is %d while the key is queued and in process, want 1", q.Len())
		}
		again := make(chan string)
		go func() { key, _, _, _ := q.Get(); again <- key }()
		synctest.Wait()
		select {
		case <-again:
			t.Fatal("a key was handed out to a second worker")
		default:
		}
		q.Done("k")
		if key := <-again; key != "k" {
			t.Errorf("got %q", key)
		}
		q.Done("k")
	})
}

func TestTheEndOfTime(t *testing.T) {
	inBubble(t, func(t *testing.T, q *Queue[string]) {
		time.Sleep(time.Second)
		q.AddOne(1<<63-1, 0, nil, "never")
		if q.Len() != 0 {
			t.Error("a delay that overflows has ended")
		}
	})
}

func TestShutDown(t *testing.T) {
	inBubble(t, func(t *testing.T, q *Queue[string]) {
		q.Add(0, 0, nil, "taken", "left")
		get(t, q)
		var stopped sync.WaitGroup
		stopped.Go(func() { // ready keys are not handed out after the end either
			q.ShutDown()
		})
		stopped.Wait()
		if key, _, _, shutdown := q.Get(); !shutdown || key != "" {
			t.Errorf("Get gave %q, %v", key, shutdown)
		}
		q.AddOne(0, 0, nil, "more")
		q.Done("taken")
		if q.Len() != 0 || !q.ShuttingDown() {
			t.Errorf("%d keys after the end", q.Len())
		}
		q.ShutDownWithDrain()
	})
}

func TestShutDownReleasesWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T, q *Queue[string]) {
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				if _, _, _, shutdown := q.Get(); !shutdown {
					t.Error("got a key from an empty queue")
				}
			})
		}
		synctest.Wait()
		q.ShutDown()
		workers.Wait()
	})
}

func TestDrain(t *testing.T) {
	inBubble(t, func(t *testing.T, q *Queue[string]) {
		q.Add(0, 0, nil, "a", "b")
		q.AddOne(time.Hour, 0, nil, "forgotten")
		a := get(t, q)
		q.AddOne(0, 0, nil, a) // once more
		var drained atomic.Bool
		go func() { q.ShutDownWithDrain(); drained.Store(true) }()
		synctest.Wait()
		q.AddOne(0, 0, nil, "refused")
		q.Done(get(t, q))
		q.Done(a)
		again := get(t, q)
		synctest.Wait()
		if drained.Load() || again != a {
			t.Errorf("drained: %v while %q is in process", drained.Load(), again)
		}
		q.Done(again)
		synctest.Wait()
		if _, _, _, shutdown := q.Get(); !drained.Load() || !shutdown {
			t.Error("the queue is drained but not shut down")
		}
	})
}

// TestTheClockOfAWorker passes times to DoneAt, also earlier ones than the queue has seen.
func TestTheClockOfAWorker(t *testing.T) {
	inBubble(t, func(t *testing.T, q *Queue[string]) {
		q.Add(0, 0, nil, "k")
		time.Sleep(time.Second)
		item, _ := q.Take()
		if want := time.Now(); !item.StartedAt.Equal(want) || item.Causes.Waited != time.Second {
			t.Errorf("it was handed out at %v after %v, want %v", item.StartedAt, item.Causes.Waited, want)
		}
		q.Add(0, 0, nil, "k")
		time.Sleep(time.Second)
		over := time.Now()
		time.Sleep(time.Second)
		q.Add(0, 0, nil, "later")
		q.DoneAt("k", over)
		if s := q.Stats(); s.Unfinished != 0 || s.Oldest != 0 {
			t.Errorf("the clock went back: %+v", s)
		}
		for _, want := range []string{"later", "k"} {
			if key := get(t, q); key != want {
				t.Errorf("got %q, want %q", key, want)
			}
		}
	})
}

// TestKeysHaveNoGoroutines lets ten thousand wait, each for a time of its own.
func TestKeysHaveNoGoroutines(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Queue[string]) {
		q := New(Options[int]{})
		defer q.ShutDown()
		before := goleak.IgnoreCurrent()
		for i := range 10_000 {
			q.AddOne(time.Duration(i+1)*time.Second, 0, nil, i)
		}
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
		if q.timer != nil {
			t.Error("the timer is armed though no worker is idle")
		}
		for i := range 10_000 {
			if key, _, _, _ := q.Get(); key != i {
				t.Fatalf("got %d, want %d", key, i)
			}
			q.Done(i)
		}
	})
}

// TestManyWorkers runs workers concurrently: no key may be processed twice at once, and every
// change of a key must be visible to a worker that takes it afterwards.
func TestManyWorkers(t *testing.T) {
	const keys, adders, workers, rounds = 50, 4, 8, 500
	q := New(Options[int]{})
	var version, seen [keys]atomic.Int64
	var held [keys]atomic.Bool
	var hands, sources sync.WaitGroup
	for range workers {
		hands.Go(func() {
			for {
				k, _, _, shutdown := q.Get()
				if shutdown {
					return
				}
				if held[k].Swap(true) {
					t.Error("two workers have one key")
				}
				seen[k].Store(version[k].Load())
				held[k].Store(false)
				q.Done(k)
			}
		})
	}
	for a := range adders {
		sources.Go(func() {
			for i := range rounds {
				k := (i*7 + a) % keys
				version[k].Add(1)
				q.AddOne(time.Duration(i%3-1)*time.Microsecond, i%4, nil, k)
			}
		})
	}
	sources.Wait()
	for k := range keys {
		q.AddOne(0, 0, nil, k)
	}
	q.ShutDownWithDrain()
	hands.Wait()
	for k := range keys {
		if v, s := version[k].Load(), seen[k].Load(); v != s {
			t.Errorf("key %d: version %d, the last one seen is %d", k, v, s)
		}
	}
}

// TestAging keeps urgent keys coming: one that is not urgent gets its turn all the same, and an old
// backlog does not take over.
func TestAging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{AgingThreshold: time.Minute})
		defer q.ShutDown()
		for i := range 3 {
			q.AddOne(0, -100, nil, fmt.Sprint("old", i))
		}
		urgent := 0
		var got []string
		next := func() {
			q.AddOne(0, 0, nil, fmt.Sprint("urgent", urgent))
			urgent++
			key := get(t, q)
			if key[:3] == "old" {
				got = append(got, fmt.Sprint(key, " after ", urgent))
			}
			q.Done(key)
		}
		time.Sleep(time.Minute - 1)
		next()
		time.Sleep(time.Nanosecond)
		for range 30 {
			next()
		}
		if want := []string{"old0 after 2", "old1 after 10", "old2 after 18"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestFlows gives one owner a hundred keys and two others a few.
func TestFlows(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Queue[string]) {
		q := New(Options[string]{Flow: func(key string) string { return key[:1] }})
		defer q.ShutDown()
		for i := range 100 {
			q.AddOne(0, 0, nil, fmt.Sprint("a", i))
		}
		q.Add(0, 0, nil, "b0", "b1", "c0", "b2")
		q.Add(0, 1, nil, "a50")
		var got []string
		for range 9 {
			key := get(t, q)
			got = append(got, key)
			q.Done(key)
		}
		if want := []string{"a50", "a0", "b0", "c0", "a1", "b1", "a2", "b2", "a3"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestCauses adds one key for many reasons.
func TestCauses(t *testing.T) {
	inBubble(t, func(t *testing.T, q *Queue[string]) {
		of := func(kind cause.Kind, name, version string) *cause.Cause {
			c := &cause.Cause{Kind: kind, ResourceVersion: version}
			c.Object.Name = name
			return c
		}
		q.Add(0, 0, of(cause.Created, "a", "1"), "k")
		q.Add(time.Hour, 0, of(cause.Updated, "a", "2"), "k")
		q.Add(0, 0, of(cause.Updated, "a", "3"), "k")
		_, _, first, _ := q.Get()
		q.Add(0, 0, of(cause.Deleted, "a", "4"), "k")
		if got := first.String(); got != "created a at 1, updated a at 3, 3 times in all" {
			t.Errorf("got %q", got)
		}
		q.Done("k")
		for i := range 20 {
			q.Add(0, 0, of(cause.Listed, fmt.Sprint("b", i), ""), "k")
		}
		_, _, second, _ := q.Get()
		if len(second.List) != cause.Max || second.Total != 21 || second.List[0].Kind != cause.Deleted {
			t.Errorf("got %v", second)
		}
		q.Done("k")
		q.AddOne(0, 0, nil, "k")
		if _, _, none, _ := q.Get(); none.Total != 0 || none.List != nil {
			t.Errorf("causes were kept after they were handed out: %v", none)
		}
		q.Done("k")
		if s := q.Stats(); s.Causes[cause.Updated] != 2 || s.Causes[cause.Listed] != 20 || s.Causes[cause.Added] != 1 {
			t.Errorf("counted %v", s.Causes)
		}
	})
}
