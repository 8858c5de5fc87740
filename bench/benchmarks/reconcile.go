package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
)

// reconciled is the set of the objects that were reconciled. It closes done when there are want.
type reconciled struct {
	mu   sync.Mutex
	seen map[runtimes.Key]int
	want int
	done chan struct{}
}

func newReconciled(want int) *reconciled {
	return &reconciled{seen: make(map[runtimes.Key]int, want), want: want, done: make(chan struct{})}
}

func (t *reconciled) add(key runtimes.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[key]++
	if len(t.seen) == t.want && t.seen[key] == 1 {
		close(t.done)
	}
}

// manager returns a manager with one controller. The reconciler of the
// controller also gets the manager.
func manager(rt runtimes.Runtime, server runtimes.Server, c runtimes.Controller, reconcile func(context.Context, runtimes.Manager, runtimes.Key) error) (runtimes.Manager, error) {
	m, err := rt.NewManager(server)
	if err != nil {
		return nil, err
	}
	c.Reconcile = func(ctx context.Context, key runtimes.Key) error { return reconcile(ctx, m, key) }
	return m, m.Add(c)
}

// getOne is a reconciler that reads its object.
func getOne(kind fixture.Kind) func(context.Context, runtimes.Manager, runtimes.Key) error {
	return func(ctx context.Context, m runtimes.Manager, key runtimes.Key) error {
		return m.Get(ctx, key, kind.One())
	}
}

// coldStart starts a manager with a controller that has every object to reconcile.
func (o Options) coldStart() measure.Benchmark {
	var replay *fixture.Replay
	return measure.Benchmark{
		Name:    "reconcile/cold-start",
		About:   fmt.Sprintf("start a manager until 1 worker has reconciled, by reading it, each of %d pods; all but the time for one pod (replay)", o.N),
		Metrics: coldStartMetrics,
		Setup: func(context.Context) (_ func(), err error) {
			replay, err = fixture.NewReplay(fixture.Pods, o.N, false)
			return func() { replay = nil }, err
		},
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return cold(ctx, rt, replay.Server(), o.N)
		}),
	}
}

var coldStartMetrics = []measure.Metric{
	{Name: "time", Unit: measure.Time, Target: 1.0 / 3},
	{Name: "cpu", Unit: measure.Time},
	{Name: "allocs", Unit: measure.Count},
	{Name: "garbage", Unit: measure.Garbage},
	{Name: "heap", Unit: measure.Memory},
}

// coldStartHTTPS is coldStart from the API server.
func (o Options) coldStartHTTPS() measure.Benchmark {
	return measure.Benchmark{
		Name:    "reconcile/cold-start-https",
		About:   fmt.Sprintf("start a manager until 1 worker has reconciled, by reading it, each of %d pods that have not run (HTTPS)", o.N),
		Metrics: coldStartMetrics[:1],
		Setup:   func(ctx context.Context) (func(), error) { return nil, o.Server.NeedPods(ctx, o.N) },
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return cold(ctx, rt, o.Server.HTTPS(), o.N)
		}),
	}
}

func cold(ctx context.Context, rt runtimes.Runtime, server runtimes.Server, n int) (measure.Sample, error) {
	all := newReconciled(n)
	get := getOne(fixture.Pods)
	before := measure.Heap()
	stop := func() error { return nil }
	cost, err := measure.Each(n, func() error {
		m, err := manager(rt, server, runtimes.Controller{Name: "cold-start", For: fixture.Pods.One(), Workers: 1},
			func(ctx context.Context, m runtimes.Manager, key runtimes.Key) error {
				defer all.add(key)
				return get(ctx, m, key)
			})
		if err != nil {
			return err
		}
		running := begin(ctx, m.Start)
		stop = running.stop
		return running.wait(ctx, all.done)
	})
	heap := measure.Heap() - before
	return measure.Sample{
		"time": float64(cost.Time * time.Duration(n)), "cpu": float64(cost.CPU), "allocs": cost.Allocs, "garbage": cost.Bytes, "heap": heap / float64(n),
	}, errors.Join(err, stop())
}

// latency is from the sending of an event to the reconciler.
func (o Options) latency() measure.Benchmark {
	var replay *fixture.Replay
	n := max(1, o.N/10)
	return measure.Benchmark{
		Name:  "reconcile/latency",
		About: fmt.Sprintf("%d of as many pods change, one every 2 ms; from the sending of the event until its reconcile begins (replay)", n),
		Metrics: []measure.Metric{
			{Name: "p50", Unit: measure.Time},
			{Name: "p99", Unit: measure.Time, Target: 1},
		},
		Setup: func(context.Context) (_ func(), err error) {
			replay, err = fixture.NewReplay(fixture.Pods, n, true)
			return func() { replay = nil }, err
		},
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return latency(ctx, rt, replay, n)
		}),
	}
}

// latency changes n objects one by one, and measures the time from the sending of each event until
// the reconcile of its object begins.
func latency(ctx context.Context, rt runtimes.Runtime, replay *fixture.Replay, n int) (measure.Sample, error) {
	initially, again := newReconciled(n), newReconciled(n)
	sent, lags := make([]time.Time, n), make([]time.Duration, n)
	var mu sync.Mutex
	m, err := manager(rt, replay.Server(), runtimes.Controller{Name: "latency", For: fixture.Pods.One(), Workers: 1},
		func(ctx context.Context, m runtimes.Manager, key runtimes.Key) error {
			began := time.Now()
			number := fixture.Number(key)
			mu.Lock()
			defer mu.Unlock()
			if sent[number].IsZero() {
				initially.add(key)
			} else {
				lags[number] = began.Sub(sent[number])
				again.add(key)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	running := begin(ctx, m.Start)
	defer running.stop()
	if err := running.wait(ctx, initially.done); err != nil {
		return nil, err
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		err := replay.Change(i, func(uint64) {
			mu.Lock()
			defer mu.Unlock()
			sent[i] = time.Now()
		})
		if err != nil {
			return nil, err
		}
	}
	if err := running.wait(ctx, again.done); err != nil {
		return nil, err
	}
	return measure.Sample{"p50": measure.Quantile(lags, 0.5), "p99": measure.Quantile(lags, 0.99)}, running.stop()
}
