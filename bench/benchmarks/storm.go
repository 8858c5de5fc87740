package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
)

// observer is an event handler that waits for a version and records the lag of every version.
type observer struct {
	mu   sync.Mutex
	sent []time.Time // by version, from first on
	// first is the version that was sent at sent[0].
	first uint64
	lags  []time.Duration
	last  uint64
	seen  chan struct{} // closed when last was received

	adds int           // initial objects still to be received
	all  chan struct{} // closed when they were received
}

// newObserver returns an observer of an informer that has n objects initially.
func newObserver(n int) *observer {
	return &observer{adds: n, all: make(chan struct{})}
}

func (o *observer) OnDelete(any) {}

func (o *observer) OnAdd(_ any, _ bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.adds--; o.adds == 0 {
		close(o.all)
	}
}

func (o *observer) OnUpdate(_, obj any) {
	version, err := strconv.ParseUint(obj.(runtimes.Object).GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if at := version - o.first; at < uint64(len(o.sent)) {
		o.lags = append(o.lags, time.Since(o.sent[at]))
	}
	if version == o.last {
		close(o.seen)
	}
}

// expect sets the last version.
func (o *observer) expect(last uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.seen = last, make(chan struct{})
}

// changing is a benchmark with a cache of objects that change. Run measures it once the cache is
// filled and the handler has received all of its objects.
func (o Options) changing(benchmark measure.Benchmark, run func(context.Context, running, *fixture.Replay, *observer) (measure.Sample, error)) measure.Benchmark {
	var replay *fixture.Replay
	benchmark.Setup = func(context.Context) (_ func(), err error) {
		replay, err = fixture.NewReplay(fixture.Pods, o.N, true)
		return func() { replay = nil }, err
	}
	benchmark.Sides = sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
		seen := newObserver(o.N)
		c, err := startCache(ctx, rt, replay.Server(), func(c runtimes.Cache) error {
			return c.Handle(ctx, fixture.Pods.One(), seen)
		}, fixture.Pods)
		if err != nil {
			return nil, err
		}
		defer c.stop()
		if err := c.wait(ctx, seen.all); err != nil {
			return nil, err
		}
		sample, err := run(ctx, c, replay, seen)
		return sample, errors.Join(err, c.stop())
	})
	return benchmark
}

// burst lets every object change at once.
func (o Options) burst() measure.Benchmark {
	return o.changing(measure.Benchmark{
		Name:  "cache/burst",
		About: fmt.Sprintf("%d pods change at once; by the event, until the handler has seen the last (replay)", o.N),
		Metrics: []measure.Metric{
			{Name: "time", Unit: measure.Time},
			{Name: "cpu", Unit: measure.Time},
			{Name: "allocs", Unit: measure.Count},
			{Name: "garbage", Unit: measure.Garbage},
		},
	}, func(ctx context.Context, c running, replay *fixture.Replay, seen *observer) (measure.Sample, error) {
		last, send, err := replay.Burst(0, o.N)
		if err != nil {
			return nil, err
		}
		seen.expect(last)
		cost, err := measure.Each(o.N, func() error {
			send()
			return c.wait(ctx, seen.seen)
		})
		return measure.Sample{"time": float64(cost.Time), "cpu": float64(cost.CPU), "allocs": cost.Allocs, "garbage": cost.Bytes}, err
	})
}

// storm lets the objects change as fast as 10,000 of them a second, three times
// each.
func (o Options) storm() measure.Benchmark {
	return o.changing(measure.Benchmark{
		Name:  "cache/storm",
		About: fmt.Sprintf("pods change 10,000 times a second, each of %d three times; the lag is from the sending to the handler, and a get is done every millisecond (replay)", o.N),
		Metrics: []measure.Metric{
			{Name: "lag p50", Unit: measure.Time},
			{Name: "lag p99", Unit: measure.Time, Target: 1},
			{Name: "lag max", Unit: measure.Time, Limit: float64(time.Second)},
			{Name: "get p99", Unit: measure.Time, Target: 1},
			{Name: "growth", Unit: measure.Memory, Limit: 1 << 20},
		},
	}, func(ctx context.Context, c running, replay *fixture.Replay, seen *observer) (measure.Sample, error) {
		events := 3 * o.N
		seen.mu.Lock()
		seen.sent, seen.lags = make([]time.Time, 0, events), make([]time.Duration, 0, events)
		seen.mu.Unlock()
		gets := make([]time.Duration, 0, events)
		before := measure.Heap()
		reader := begin(ctx, func(ctx context.Context) error { return o.readPeriodically(ctx, c, &gets) })
		err := o.sendEvents(ctx, c, replay, seen, events)
		if err := errors.Join(err, reader.stop()); err != nil {
			return nil, err
		}
		growth := measure.Heap() - before
		return measure.Sample{
			"lag p50": measure.Quantile(seen.lags, 0.5), "lag p99": measure.Quantile(seen.lags, 0.99), "lag max": measure.Quantile(seen.lags, 1),
			"get p99": measure.Quantile(gets, 0.99), "growth": growth,
		}, nil
	})
}

// sendEvents sends the events, ten a millisecond, and waits until the handler has received the
// last.
func (o Options) sendEvents(ctx context.Context, c running, replay *fixture.Replay, seen *observer, events int) error {
	began := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for sent := 0; sent < events; {
		<-tick.C
		for due := min(events, int(time.Since(began).Milliseconds())*10); sent < due; sent++ {
			err := replay.Change(sent%o.N, func(version uint64) {
				if sent == 0 {
					seen.expectFrom(version, events)
				}
				seen.note()
			})
			if err != nil {
				return err
			}
		}
	}
	return c.wait(ctx, seen.seen)
}

// readPeriodically gets an object every millisecond and records how long that takes.
func (o Options) readPeriodically(ctx context.Context, c runtimes.Cache, took *[]time.Duration) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n = (n + 7919) % o.N {
		key, pod := fixture.KeyOf(n), fixture.Pods.One()
		began := time.Now()
		if err := c.Get(ctx, key, pod); err != nil {
			return err
		}
		*took = append(*took, time.Since(began))
		<-tick.C
	}
	return nil
}

// expectFrom is expect for a number of versions from the first on. The
// method note takes the times of these versions.
func (o *observer) expectFrom(first uint64, versions int) {
	o.expect(first + uint64(versions) - 1)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.first = first
}

// note takes the time at which the next version is sent.
func (o *observer) note() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = append(o.sent, time.Now())
}
