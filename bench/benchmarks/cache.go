package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
)

// running is a cache that was started.
type running struct {
	runtimes.Cache
	background
}

// startCache starts a cache that watches some kinds, and prepares it before.
func startCache(ctx context.Context, rt runtimes.Runtime, server runtimes.Server, prepare func(runtimes.Cache) error, kinds ...fixture.Kind) (running, error) {
	c, err := rt.NewCache(server)
	if err != nil {
		return running{}, err
	}
	for _, kind := range kinds {
		if err := c.Watch(ctx, kind.One()); err != nil {
			return running{}, err
		}
	}
	if err := prepare(c); err != nil {
		return running{}, err
	}
	r := running{c, begin(ctx, c.Start)}
	if !c.WaitForSync(ctx) {
		return running{}, errors.Join(errors.New("the cache did not sync"), r.stop())
	}
	return r, nil
}

func unprepared(runtimes.Cache) error { return nil }

func (o Options) caches() []measure.Benchmark {
	third := 1.0 / 3
	benchmarks := []measure.Benchmark{
		filling(fixture.Pods, o.N, third, 0.5),
		paged(fixture.Pods, o.N),
		filling(fixture.ConfigMaps, o.N, 0, 0),
		filling(fixture.Widgets, o.N, 0, 0),
		filling(fixture.UnstructuredWidgets, o.N, 0, 0),
		o.kindsAtOnce(),
	}
	if o.Large > 0 {
		large := filling(fixture.Pods, o.Large, third, 0.5)
		large.Name += "-large"
		benchmarks = append(benchmarks, large)
	}
	return append(benchmarks, o.syncHTTPS())
}

// paged fills a cache from a server that has no streaming lists.
func paged(kind fixture.Kind, n int) measure.Benchmark {
	benchmark := filling(kind, n, 0, 0.5)
	benchmark.Name += "-paged"
	benchmark.About = fmt.Sprintf("fill a cache with %d %s from a server that lists in pages; all but the time for one object (replay)", n, kind.Name)
	var replay *fixture.Replay
	benchmark.Setup = func(context.Context) (_ func(), err error) {
		replay, err = fixture.NewPagedReplay(kind, n)
		return func() { replay = nil }, err
	}
	benchmark.Sides = sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
		return fill(ctx, rt, replay.Server(), n, kind)
	})
	return benchmark
}

// kindsAtOnce fills a cache with several kinds.
func (o Options) kindsAtOnce() measure.Benchmark {
	kinds := []fixture.Kind{fixture.Pods, fixture.ConfigMaps, fixture.Widgets}
	n := len(kinds) * o.N
	var replays fixture.Replays
	benchmark := filling(fixture.Pods, n, 0, 0)
	benchmark.Name = "cache/kinds"
	benchmark.About = fmt.Sprintf("fill a cache with %d pods, as many configmaps and as many widgets at once; all but the time for one object (replay)", o.N)
	benchmark.Setup = func(context.Context) (func(), error) {
		for _, kind := range kinds {
			r, err := fixture.NewReplay(kind, o.N, false)
			if err != nil {
				return nil, err
			}
			replays = append(replays, r)
		}
		return func() { replays = nil }, nil
	}
	benchmark.Sides = sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
		return fill(ctx, rt, replays.Server(), n, kinds...)
	})
	return benchmark
}

// filling is a benchmark that fills a cache.
func filling(kind fixture.Kind, n int, heap, time float64) measure.Benchmark {
	var replay *fixture.Replay
	return measure.Benchmark{
		Name:  "cache/" + kind.Name,
		About: fmt.Sprintf("fill a cache with %d %s; all but the time for one object (replay)", n, kind.Name),
		Metrics: []measure.Metric{
			{Name: "sync", Unit: measure.Time, Target: time},
			{Name: "cpu", Unit: measure.Time},
			{Name: "heap", Unit: measure.Memory, Target: heap},
			{Name: "heap once listed", Unit: measure.Memory, Target: heap},
			{Name: "allocs", Unit: measure.Count},
			{Name: "garbage", Unit: measure.Garbage},
		},
		Setup: func(context.Context) (_ func(), err error) {
			replay, err = fixture.NewReplay(kind, n, false)
			return func() { replay = nil }, err
		},
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return fill(ctx, rt, replay.Server(), n, kind)
		}),
	}
}

// syncHTTPS fills a cache from the API server.
func (o Options) syncHTTPS() measure.Benchmark {
	benchmark := filling(fixture.Pods, o.N, 0, 0.5)
	benchmark.Name += "-https"
	benchmark.About = fmt.Sprintf("fill a cache with %d pods that have not run (HTTPS)", o.N)
	benchmark.Metrics = benchmark.Metrics[:1]
	benchmark.Setup = func(ctx context.Context) (func(), error) { return nil, o.Server.NeedPods(ctx, o.N) }
	benchmark.Sides = sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
		return fill(ctx, rt, o.Server.HTTPS(), o.N, fixture.Pods)
	})
	return benchmark
}

// fill fills a cache with n objects, of all kinds together.
func fill(ctx context.Context, rt runtimes.Runtime, server runtimes.Server, n int, kinds ...fixture.Kind) (measure.Sample, error) {
	before := measure.Heap()
	var c running
	cost, err := measure.Each(n, func() (err error) {
		c, err = startCache(ctx, rt, server, unprepared, kinds...)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer c.stop()
	heap := measure.Heap() - before
	for _, kind := range kinds {
		if err := c.List(ctx, kind.List(), runtimes.Selection{}); err != nil {
			return nil, err
		}
	}
	listed := measure.Heap() - before
	return measure.Sample{
		"sync": float64(cost.Time * time.Duration(n)), "cpu": float64(cost.CPU), "allocs": cost.Allocs, "garbage": cost.Bytes,
		"heap": heap / float64(n), "heap once listed": listed / float64(n),
	}, c.stop()
}
