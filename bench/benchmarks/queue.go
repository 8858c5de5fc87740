package benchmarks

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
)

// limiter returns the same rate limiter for every side, with the shortest delays.
func limiter() workqueue.TypedRateLimiter[runtimes.Key] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[runtimes.Key](time.Millisecond, time.Second)
}

// clientGo is client-go's queue, which has no priorities.
type clientGo struct {
	workqueue.TypedRateLimitingInterface[runtimes.Key]
}

func (q clientGo) AddWithPriority(key runtimes.Key, _ int) { q.Add(key) }

// queueBenchmark measures f with a queue and n keys, per key. f shuts the queue down. metricsName
// is the queue's name in its metrics, or empty for none.
func queueBenchmark(name, about, metricsName string, n int, f func(runtimes.Queue, []runtimes.Key) (measure.Sample, error), metrics ...measure.Metric) measure.Benchmark {
	keys := make([]runtimes.Key, n)
	for i := range keys {
		keys[i] = fixture.KeyOf(i)
	}
	run := func(q runtimes.Queue) (sample measure.Sample, err error) {
		cost, err := measure.Each(n, func() error {
			sample, err = f(q, keys)
			return err
		})
		if sample == nil {
			sample = measure.Sample{}
		}
		sample["time"], sample["allocs"] = float64(cost.Time), cost.Allocs
		return sample, err
	}
	benchmark := measure.Benchmark{
		Name: "queue/" + name, About: about, Metrics: metrics,
		Sides: sides(func(_ context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return run(rt.NewQueue(metricsName, limiter()))
		}),
	}
	benchmark.Sides = append(benchmark.Sides, measure.Side{Name: "client-go", Run: func(context.Context) (measure.Sample, error) {
		return run(clientGo{workqueue.NewTypedRateLimitingQueue(limiter())})
	}})
	return benchmark
}

func (o Options) queues() []measure.Benchmark {
	n := 10 * o.N
	perKey := []measure.Metric{{Name: "time", Unit: measure.Time}, {Name: "allocs", Unit: measure.Count}}
	// How often an allocation is avoided depends on the scheduling of the goroutines.
	shared := []measure.Metric{perKey[0], {Name: "allocs", Unit: measure.Variable}}
	target := []measure.Metric{{Name: "time", Unit: measure.Time, Target: 0.2}, {Name: "allocs", Unit: measure.Count, Limit: 1}}
	late := []measure.Metric{{Name: "late p50", Unit: measure.Time}, {Name: "late p99", Unit: measure.Time}, perKey[1]}
	ordered := append(perKey, measure.Metric{Name: "out of order", Unit: measure.Count})
	return []measure.Benchmark{
		queueBenchmark("cycle", "add, get and done, one key after the other", "", n, cycle, target...),
		withoutClientGo(queueBenchmark("cycle-metered", "add, get and done, with metrics, as a controller's queue has them", "bench", n, cycle, target...)),
		queueBenchmark("backlog", "add distinct keys, then get and done all of them", "", n, backlog, perKey...),
		queueBenchmark("workers-1", "1 worker takes what is added meanwhile", "", n, workers(1), shared...),
		queueBenchmark("workers-8", "8 workers take what is added meanwhile", "", n, workers(8), shared...),
		queueBenchmark("workers-64", "64 workers take what is added meanwhile", "", n, workers(64), shared...),
		queueBenchmark("delayed", "add distinct keys with delays of up to 5 µs for each, in no order, and take them when they are due", "", n, delayed, late...),
		queueBenchmark("limited", "add distinct keys with a rate limit of 1 ms, and take them", "", n, limited, perKey...),
		withoutClientGo(queueBenchmark("priorities", "add distinct keys with 10 priorities, and take them", "", n, priorities, ordered...)),
	}
}

func withoutClientGo(benchmark measure.Benchmark) measure.Benchmark {
	benchmark.Sides = benchmark.Sides[:len(both)]
	return benchmark
}

func cycle(q runtimes.Queue, keys []runtimes.Key) (measure.Sample, error) {
	for i := range keys {
		q.Add(keys[i%min(1000, len(keys))])
		key, _ := q.Get()
		q.Done(key)
	}
	q.ShutDown()
	return nil, nil
}

func backlog(q runtimes.Queue, keys []runtimes.Key) (measure.Sample, error) {
	for _, key := range keys {
		q.Add(key)
	}
	for range keys {
		key, _ := q.Get()
		q.Done(key)
	}
	q.ShutDown()
	return nil, nil
}

func workers(n int) func(runtimes.Queue, []runtimes.Key) (measure.Sample, error) {
	return func(q runtimes.Queue, keys []runtimes.Key) (measure.Sample, error) {
		var left, wg sync.WaitGroup
		left.Add(len(keys))
		for range n {
			wg.Go(func() {
				for key, shutdown := q.Get(); !shutdown; key, shutdown = q.Get() {
					q.Done(key)
					left.Done()
				}
			})
		}
		for _, key := range keys {
			q.Add(key)
		}
		left.Wait()
		q.ShutDown()
		wg.Wait()
		return nil, nil
	}
}

func delayed(q runtimes.Queue, keys []runtimes.Key) (measure.Sample, error) {
	// Half of it is more than it takes to add them all.
	longest := 20*time.Millisecond + time.Duration(len(keys))*5*time.Microsecond
	due := make(map[runtimes.Key]time.Time, len(keys))
	for i, key := range keys {
		delay := longest/2 + time.Duration(i*7919%len(keys))*(longest/2)/time.Duration(len(keys))
		due[key] = time.Now().Add(delay)
		q.AddAfter(key, delay)
	}
	late := make([]time.Duration, 0, len(keys))
	for range keys {
		key, _ := q.Get()
		late = append(late, time.Since(due[key]))
		q.Done(key)
	}
	q.ShutDown()
	return measure.Sample{"late p50": measure.Quantile(late, 0.5), "late p99": measure.Quantile(late, 0.99)}, nil
}

func limited(q runtimes.Queue, keys []runtimes.Key) (measure.Sample, error) {
	for _, key := range keys {
		q.AddRateLimited(key)
	}
	for range keys {
		key, _ := q.Get()
		q.Forget(key)
		q.Done(key)
	}
	q.ShutDown()
	return nil, nil
}

func priorities(q runtimes.Queue, keys []runtimes.Key) (measure.Sample, error) {
	priority := func(n int) int { return n * 7919 % 10 }
	for i, key := range keys {
		q.AddWithPriority(key, priority(i))
	}
	disorder, last := 0.0, 10
	for range keys {
		key, _ := q.Get()
		p := priority(fixture.Number(key))
		if p > last {
			disorder++
		}
		last = p
		q.Done(key)
	}
	q.ShutDown()
	return measure.Sample{"out of order": disorder}, nil
}
