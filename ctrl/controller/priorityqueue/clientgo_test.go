package priorityqueue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
)

type rateLimiting = workqueue.TypedRateLimitingInterface[string]

// both are this queue and client-go's, which it replaces.
var both = []func() rateLimiting{
	func() rateLimiting { return New[string]("") },
	func() rateLimiting {
		return workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second))
	},
}

// worker processes the keys of a queue.
type worker struct {
	queue rateLimiting
	log   []string
}

func (w *worker) note(what ...any) { w.log = append(w.log, fmt.Sprint(what...)) }

// get takes all keys that are ready, without blocking.
func (w *worker) get() {
	got := make(chan string, 1)
	for {
		// One goroutine waits. A sentinel key ends it.
		go func() { key, _ := w.queue.Get(); got <- key }()
		synctest.Wait()
		select {
		case key := <-got:
			w.note("get ", key)
		default:
			w.queue.Add("end")
			w.queue.Done(<-got)
			return
		}
	}
}

// TestLikeClientGo holds the queue against client-go's, call by call. Left out is where they are
// meant to differ: Done for a key that is queued and not in process queues it twice
// there, and does nothing here; ShutDown leaves the queued keys to the workers there, and not here.
func TestLikeClientGo(t *testing.T) {
	for name, script := range map[string]func(w *worker){
		"many adds are one":          func(w *worker) { w.queue.Add("a"); w.queue.Add("b"); w.queue.Add("a"); w.get() },
		"an empty queue has nothing": func(w *worker) { w.note(w.queue.Len()); w.get() },
		"added in process": func(w *worker) {
			w.queue.Add("a")
			w.get()
			w.queue.Add("a")
			w.get()
			w.queue.Done("a")
			w.get()
		},
		"done twice": func(w *worker) {
			w.queue.Add("a")
			w.get()
			w.queue.Done("a")
			w.queue.Done("a")
			w.queue.Add("a")
			w.get()
		},
		"length": func(w *worker) {
			w.queue.Add("a")
			w.queue.Add("b")
			w.note(w.queue.Len())
			w.get()
			w.note(w.queue.Len())
		},
		"after":         func(w *worker) { w.queue.AddAfter("a", time.Second); w.get(); time.Sleep(time.Second); w.get() },
		"after no time": func(w *worker) { w.queue.AddAfter("a", 0); w.queue.AddAfter("b", -1); w.get() },
		"the earlier time": func(w *worker) {
			w.queue.AddAfter("a", time.Hour)
			w.queue.AddAfter("a", time.Second)
			w.queue.AddAfter("a", time.Minute)
			time.Sleep(time.Second)
			w.get()
			w.queue.Done("a")
			time.Sleep(2 * time.Hour)
			w.get()
		},
		"after, in process": func(w *worker) {
			w.queue.Add("a")
			w.get()
			w.queue.AddAfter("a", time.Second)
			time.Sleep(time.Minute)
			w.get()
			w.queue.Done("a")
			w.get()
		},
		"in the order of their times": func(w *worker) {
			w.queue.AddAfter("c", 3*time.Second)
			w.queue.AddAfter("a", time.Second)
			w.queue.AddAfter("b", 2*time.Second)
			time.Sleep(time.Minute)
			w.get()
		},
		"backoff": func(w *worker) {
			for range 5 {
				w.queue.AddRateLimited("a")
				began := time.Now()
				key, _ := w.queue.Get()
				w.note(key, time.Since(began), w.queue.NumRequeues("a"), w.queue.NumRequeues("b"))
				w.queue.Done(key)
			}
			w.queue.Forget("a")
			w.note(w.queue.NumRequeues("a"))
		},
		"shut down": func(w *worker) {
			w.note(w.queue.ShuttingDown())
			w.queue.ShutDown()
			w.queue.Add("a")
			w.queue.AddAfter("a", 0)
			w.queue.AddRateLimited("a")
			key, down := w.queue.Get()
			w.note(w.queue.ShuttingDown(), key, down, w.queue.Len())
			w.queue.ShutDown()
		},
		"drain": func(w *worker) {
			w.queue.Add("a")
			w.queue.Add("b")
			w.queue.AddAfter("late", time.Hour)
			w.get()
			w.queue.Add("a")
			drained := make(chan bool)
			go func() { w.queue.ShutDownWithDrain(); close(drained) }()
			synctest.Wait()
			w.queue.Add("c")
			w.queue.Done("a")
			w.queue.Done("b")
			key, down := w.queue.Get()
			w.note(key, down)
			w.queue.Done(key)
			<-drained
			key, down = w.queue.Get()
			w.note(key, down)
		},
		"a drain is cut short": func(w *worker) {
			w.queue.Add("a")
			w.get()
			drained := make(chan bool)
			go func() { w.queue.ShutDownWithDrain(); close(drained) }()
			synctest.Wait()
			w.queue.ShutDown()
			<-drained
			w.queue.Done("a")
			_, down := w.queue.Get()
			w.note(down)
		},
	} {
		t.Run(name, func(t *testing.T) { compare(t, script) })
	}
}

// TestLikeClientGoAtRandom makes up long scripts. Some keys are only added at once, others only
// after a time and not while they are queued: there the two queues differ, since here a key is in
// the queue once, while client-go lets a ready key wait for a second time besides.
func TestLikeClientGoAtRandom(t *testing.T) {
	for seed := range uint64(30) {
		compare(t, func(w *worker) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			taken := 0
			for range 200 {
				key := rnd.IntN(6)
				name := fmt.Sprint(key)
				busy := slices.Contains(w.log[taken:], "get "+name)
				switch what := rnd.IntN(10); {
				case what < 4 && key < 3:
					w.queue.Add(name)
				case what < 4 && !busy:
					w.queue.AddAfter(name, time.Duration(rnd.IntN(1_000_000_000)))
				case what < 6:
					w.get()
				case what < 9:
					for _, line := range w.log[taken:] {
						w.queue.Done(line[len("get "):])
					}
					taken = len(w.log)
				default:
					time.Sleep(2 * time.Second)
					w.get()
				}
			}
		})
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func compare(t *testing.T, script func(*worker)) {
	t.Helper()
	var logs [2][]string
	for i, make := range both {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{queue: make()}
			script(w)
			w.queue.ShutDown()
			logs[i] = w.log
		})
	}
	if !slices.Equal(logs[0], logs[1]) {
		t.Errorf("here    %q\nclient-go %q", logs[0], logs[1])
	}
}
