package jobs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
	"flyball.dev/bench/world"
)

// observer is a handler that waits for a version to be told and notes how late
// the versions were.
type observer struct {
	mu   sync.Mutex
	sent []time.Time // by version, from first on
	// first is the version of which sent[0] is the time.
	first uint64
	lags  []time.Duration
	last  uint64
	seen  chan struct{} // closed when last was told

	adds int           // how many are yet to be told
	all  chan struct{} // closed when they were
}

// newObserver returns an observer that is told of n objects first.
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

// expect says which version is the last.
func (o *observer) expect(last uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.seen = last, make(chan struct{})
}

// changing is a job with a cache whose objects change. Run measures it once the
// cache is filled and the handler was told of all that is in it.
func (o Options) changing(job measure.Job, run func(context.Context, running, *world.Replay, *observer) (measure.Sample, error)) measure.Job {
	var replay *world.Replay
	job.Setup = func(context.Context) (_ func(), err error) {
		replay, err = world.NewReplay(world.Pods, o.N, true)
		return func() { replay = nil }, err
	}
	job.Sides = sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
		seen := newObserver(o.N)
		c, err := startCache(ctx, rt, replay.Server(), func(c runtimes.Cache) error {
			return c.Handle(ctx, world.Pods.One(), seen)
		}, world.Pods)
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
	return job
}

// burst lets every object change at once.
func (o Options) burst() measure.Job {
	return o.changing(measure.Job{
		Name:  "cache/burst",
		About: fmt.Sprintf("%d pods change at once; by the event, until the handler has seen the last (replay)", o.N),
		Figures: []measure.Figure{
			{Name: "time", Unit: measure.Time},
			{Name: "cpu", Unit: measure.Time},
			{Name: "allocs", Unit: measure.Count},
			{Name: "garbage", Unit: measure.Garbage},
		},
	}, func(ctx context.Context, c running, replay *world.Replay, seen *observer) (measure.Sample, error) {
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
func (o Options) storm() measure.Job {
	return o.changing(measure.Job{
		Name:  "cache/storm",
		About: fmt.Sprintf("pods change 10,000 times a second, each of %d three times; the lag is from the sending to the handler, and a get is done every millisecond (replay)", o.N),
		Figures: []measure.Figure{
			{Name: "lag p50", Unit: measure.Time},
			{Name: "lag p99", Unit: measure.Time, Reach: 1},
			{Name: "lag max", Unit: measure.Time, Most: float64(time.Second)},
			{Name: "get p99", Unit: measure.Time, Reach: 1},
			{Name: "growth", Unit: measure.Memory, Most: 1 << 20},
		},
	}, func(ctx context.Context, c running, replay *world.Replay, seen *observer) (measure.Sample, error) {
		events := 3 * o.N
		seen.mu.Lock()
		seen.sent, seen.lags = make([]time.Time, 0, events), make([]time.Duration, 0, events)
		seen.mu.Unlock()
		gets := make([]time.Duration, 0, events)
		before := measure.Heap()
		reader := begin(ctx, func(ctx context.Context) error { return o.readOn(ctx, c, &gets) })
		err := o.blow(ctx, c, replay, seen, events)
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

// blow sends the events, ten every millisecond, and waits for the last.
func (o Options) blow(ctx context.Context, c running, replay *world.Replay, seen *observer, events int) error {
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

// readOn gets an object every millisecond and notes how long that takes.
func (o Options) readOn(ctx context.Context, c runtimes.Cache, took *[]time.Duration) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n = (n + 7919) % o.N {
		key, pod := world.KeyOf(n), world.Pods.One()
		began := time.Now()
		if err := c.Get(ctx, key, pod); err != nil {
			return err
		}
		*took = append(*took, time.Since(began))
		<-tick.C
	}
	return nil
}

// expectFrom is expect for a number of versions from the first on, whose times
// note takes.
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
