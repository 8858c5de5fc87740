package jobs

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
	"flyball.dev/bench/world"
)

// limiter lets a key wait as little as a rate limiter can, on every side.
func limiter() workqueue.TypedRateLimiter[runtimes.Key] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[runtimes.Key](time.Millisecond, time.Second)
}

// clientGo is client-go's queue, which has no priorities.
type clientGo struct {
	workqueue.TypedRateLimitingInterface[runtimes.Key]
}

func (q clientGo) AddWithPriority(key runtimes.Key, _ int) { q.Add(key) }

// queueJob measures what f does with a queue and n keys, by the key. F shuts the
// queue down. Metrics is the queue's name in its metrics, or empty for none.
func queueJob(name, about, metrics string, n int, f func(runtimes.Queue, []runtimes.Key) (measure.Sample, error), figures ...measure.Figure) measure.Job {
	keys := make([]runtimes.Key, n)
	for i := range keys {
		keys[i] = world.KeyOf(i)
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
	job := measure.Job{
		Name: "queue/" + name, About: about, Figures: figures,
		Sides: sides(func(_ context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return run(rt.NewQueue(metrics, limiter()))
		}),
	}
	job.Sides = append(job.Sides, measure.Side{Name: "client-go", Run: func(context.Context) (measure.Sample, error) {
		return run(clientGo{workqueue.NewTypedRateLimitingQueue(limiter())})
	}})
	return job
}

func (o Options) queues() []measure.Job {
	n := 10 * o.N
	perKey := []measure.Figure{{Name: "time", Unit: measure.Time}, {Name: "allocs", Unit: measure.Count}}
	// How often an allocation is saved depends on who is faster.
	shared := []measure.Figure{perKey[0], {Name: "allocs", Unit: measure.Tally}}
	reach := []measure.Figure{{Name: "time", Unit: measure.Time, Reach: 0.2}, {Name: "allocs", Unit: measure.Count, Most: 1}}
	late := []measure.Figure{{Name: "late p50", Unit: measure.Time}, {Name: "late p99", Unit: measure.Time}, perKey[1]}
	ordered := append(perKey, measure.Figure{Name: "out of order", Unit: measure.Count})
	return []measure.Job{
		queueJob("cycle", "add, get and done, one key after the other", "", n, cycle, reach...),
		withoutClientGo(queueJob("cycle-metered", "add, get and done, with metrics, as a controller's queue has them", "bench", n, cycle, reach...)),
		queueJob("backlog", "add distinct keys, then get and done all of them", "", n, backlog, perKey...),
		queueJob("workers-1", "1 worker takes what is added meanwhile", "", n, workers(1), shared...),
		queueJob("workers-8", "8 workers take what is added meanwhile", "", n, workers(8), shared...),
		queueJob("workers-64", "64 workers take what is added meanwhile", "", n, workers(64), shared...),
		queueJob("delayed", "add distinct keys with delays of up to 5 µs for each, in no order, and take them when they are due", "", n, delayed, late...),
		queueJob("limited", "add distinct keys with a rate limit of 1 ms, and take them", "", n, limited, perKey...),
		withoutClientGo(queueJob("priorities", "add distinct keys with 10 priorities, and take them", "", n, priorities, ordered...)),
	}
}

func withoutClientGo(job measure.Job) measure.Job {
	job.Sides = job.Sides[:len(both)]
	return job
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
		var left, hands sync.WaitGroup
		left.Add(len(keys))
		for range n {
			hands.Go(func() {
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
		hands.Wait()
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
		p := priority(world.Number(key))
		if p > last {
			disorder++
		}
		last = p
		q.Done(key)
	}
	q.ShutDown()
	return measure.Sample{"out of order": disorder}, nil
}
