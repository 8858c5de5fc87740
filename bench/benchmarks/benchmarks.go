// Package benchmarks has the benchmarks.
//
// If a description has "replay", the objects come from a server that encoded its responses
// beforehand, so that it measures the runtime alone. If it has "HTTPS", they come from the API
// server, and both runtimes share the machine with it.
package benchmarks

import (
	"context"
	"errors"
	"time"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
	"flyball.dev/bench/runtimes/flyball"
	"flyball.dev/bench/runtimes/peer"
)

// Options say how much is done.
type Options struct {
	// N is how many objects there are in a cache, and a tenth of the keys in a
	// queue.
	N int
	// Large, if not zero, is how many objects there are in one more cache.
	Large int
	// Budget is how long a read is repeated.
	Budget time.Duration
	// Server holds the objects of the benchmarks that need one.
	Server *fixture.Server
}

// both are the runtimes that are compared.
var both = []runtimes.Runtime{flyball.New(), peer.New()}

// All returns the benchmarks in the order of the report.
func All(o Options) []measure.Benchmark {
	benchmarks := o.queues()
	benchmarks = append(benchmarks, o.caches()...)
	benchmarks = append(benchmarks, o.reads(), o.burst(), o.storm())
	benchmarks = append(benchmarks, o.coldStart(), o.coldStartHTTPS(), o.statusWrites(), o.latency(), o.writeBack(), o.fanIn())
	return append(benchmarks, o.webhooks(), o.start(), o.process(), o.create(), o.fake())
}

// sides makes every runtime do the same.
func sides(run func(context.Context, runtimes.Runtime) (measure.Sample, error)) []measure.Side {
	var sides []measure.Side
	for _, rt := range both {
		sides = append(sides, measure.Side{Name: rt.Name(), Run: func(ctx context.Context) (measure.Sample, error) { return run(ctx, rt) }})
	}
	return sides
}

// background is a function that runs on a goroutine until stop is called.
type background struct {
	cancel context.CancelFunc
	ended  chan error
}

func begin(ctx context.Context, run func(context.Context) error) background {
	ctx, cancel := context.WithCancel(ctx)
	b := background{cancel, make(chan error, 1)}
	go func() { b.ended <- run(ctx) }()
	return b
}

// stop stops it, waits until it has ended and returns its error, every time that
// it is called.
func (b background) stop() error {
	b.cancel()
	err := <-b.ended
	b.ended <- err
	return err
}

// wait waits for done to be closed. It fails if what runs ends before that.
func (b background) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case err := <-b.ended:
		b.ended <- err
		return errors.Join(errors.New("ended before its work was done"), err)
	}
}
