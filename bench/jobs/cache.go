package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
	"flyball.dev/bench/world"
)

// running is a cache that runs.
type running struct {
	runtimes.Cache
	background
}

// startCache starts a cache that watches some kinds, and prepares it before.
func startCache(ctx context.Context, rt runtimes.Runtime, server runtimes.Server, prepare func(runtimes.Cache) error, kinds ...world.Kind) (running, error) {
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

func asItIs(runtimes.Cache) error { return nil }

func (o Options) caches() []measure.Job {
	third := 1.0 / 3
	jobs := []measure.Job{
		filling(world.Pods, o.N, third, 0.5),
		paged(world.Pods, o.N),
		filling(world.ConfigMaps, o.N, 0, 0),
		filling(world.Widgets, o.N, 0, 0),
		filling(world.UnstructuredWidgets, o.N, 0, 0),
		o.kindsAtOnce(),
	}
	if o.Large > 0 {
		large := filling(world.Pods, o.Large, third, 0.5)
		large.Name += "-large"
		jobs = append(jobs, large)
	}
	return append(jobs, o.syncHTTPS())
}

// paged fills a cache from a server that has no streaming lists.
func paged(kind world.Kind, n int) measure.Job {
	job := filling(kind, n, 0, 0.5)
	job.Name += "-paged"
	job.About = fmt.Sprintf("fill a cache with %d %s from a server that lists in pages; all but the time for one object (replay)", n, kind.Name)
	var replay *world.Replay
	job.Setup = func(context.Context) (_ func(), err error) {
		replay, err = world.NewPagedReplay(kind, n)
		return func() { replay = nil }, err
	}
	job.Sides = sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
		return fill(ctx, rt, replay.Server(), n, kind)
	})
	return job
}

// kindsAtOnce fills a cache with several kinds.
func (o Options) kindsAtOnce() measure.Job {
	kinds := []world.Kind{world.Pods, world.ConfigMaps, world.Widgets}
	n := len(kinds) * o.N
	var replays world.Replays
	job := filling(world.Pods, n, 0, 0)
	job.Name = "cache/kinds"
	job.About = fmt.Sprintf("fill a cache with %d pods, as many configmaps and as many widgets at once; all but the time for one object (replay)", o.N)
	job.Setup = func(context.Context) (func(), error) {
		for _, kind := range kinds {
			r, err := world.NewReplay(kind, o.N, false)
			if err != nil {
				return nil, err
			}
			replays = append(replays, r)
		}
		return func() { replays = nil }, nil
	}
	job.Sides = sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
		return fill(ctx, rt, replays.Server(), n, kinds...)
	})
	return job
}

// filling is a job that fills a cache.
func filling(kind world.Kind, n int, heap, time float64) measure.Job {
	var replay *world.Replay
	return measure.Job{
		Name:  "cache/" + kind.Name,
		About: fmt.Sprintf("fill a cache with %d %s; all but the time for one object (replay)", n, kind.Name),
		Figures: []measure.Figure{
			{Name: "sync", Unit: measure.Time, Reach: time},
			{Name: "cpu", Unit: measure.Time},
			{Name: "heap", Unit: measure.Memory, Reach: heap},
			{Name: "heap once listed", Unit: measure.Memory, Reach: heap},
			{Name: "allocs", Unit: measure.Count},
			{Name: "garbage", Unit: measure.Garbage},
		},
		Setup: func(context.Context) (_ func(), err error) {
			replay, err = world.NewReplay(kind, n, false)
			return func() { replay = nil }, err
		},
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return fill(ctx, rt, replay.Server(), n, kind)
		}),
	}
}

// syncHTTPS fills a cache from the API server.
func (o Options) syncHTTPS() measure.Job {
	job := filling(world.Pods, o.N, 0, 0.5)
	job.Name += "-https"
	job.About = fmt.Sprintf("fill a cache with %d pods that have not run (HTTPS)", o.N)
	job.Figures = job.Figures[:1]
	job.Setup = func(ctx context.Context) (func(), error) { return nil, o.Server.NeedPods(ctx, o.N) }
	job.Sides = sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
		return fill(ctx, rt, o.Server.HTTPS(), o.N, world.Pods)
	})
	return job
}

// fill fills a cache with n objects, of all kinds together.
func fill(ctx context.Context, rt runtimes.Runtime, server runtimes.Server, n int, kinds ...world.Kind) (measure.Sample, error) {
	before := measure.Heap()
	var c running
	cost, err := measure.Each(n, func() (err error) {
		c, err = startCache(ctx, rt, server, asItIs, kinds...)
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
