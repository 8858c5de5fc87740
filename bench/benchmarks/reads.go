package benchmarks

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
)

// nodeIndex is an index by the name of the node.
const nodeIndex = "spec.nodeName"

// read is a way to read from a cache.
type read struct {
	name   string
	target float64
	do     func(context.Context, runtimes.Cache) error
}

// reads reads from one cache in all ways.
func (o Options) reads() measure.Benchmark {
	reads := o.ways()
	benchmark := measure.Benchmark{
		Name:  "cache/reads",
		About: fmt.Sprintf("reads of %d pods in 10 namespaces; each way is tried once before it is measured (replay)", o.N),
	}
	for _, r := range reads {
		benchmark.Metrics = append(benchmark.Metrics,
			measure.Metric{Name: r.name, Unit: measure.Time, Target: r.target},
			measure.Metric{Name: r.name + " cpu", Unit: measure.Time},
			measure.Metric{Name: r.name + " allocs", Unit: measure.Count})
	}
	var replay *fixture.Replay
	benchmark.Setup = func(context.Context) (_ func(), err error) {
		replay, err = fixture.NewReplay(fixture.Pods, o.N, false)
		return func() { replay = nil }, err
	}
	benchmark.Sides = sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
		c, err := startCache(ctx, rt, replay.Server(), func(c runtimes.Cache) error {
			return c.Index(ctx, &corev1.Pod{}, nodeIndex, func(obj runtimes.Object) []string {
				return []string{obj.(*corev1.Pod).Spec.NodeName}
			})
		}, fixture.Pods)
		if err != nil {
			return nil, err
		}
		sample, err := o.readAll(ctx, c, reads)
		return sample, errors.Join(err, c.stop())
	})
	return benchmark
}

func (o Options) readAll(ctx context.Context, c runtimes.Cache, reads []read) (measure.Sample, error) {
	sample := measure.Sample{}
	for _, r := range reads {
		cost, err := measure.Repeat(o.Budget, func() error { return r.do(ctx, c) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		sample[r.name], sample[r.name+" cpu"], sample[r.name+" allocs"] = float64(cost.Time), float64(cost.CPU), cost.Allocs
	}
	return sample, nil
}

// ways are all the ways to read. Each way fails if it does not find what
// there is.
func (o Options) ways() []read {
	list := func(want int, s runtimes.Selection) func(context.Context, runtimes.Cache) error {
		return func(ctx context.Context, c runtimes.Cache) error {
			var pods corev1.PodList
			if err := c.List(ctx, &pods, s); err != nil || len(pods.Items) == want {
				return err
			}
			return fmt.Errorf("found %d of %d", len(pods.Items), want)
		}
	}
	keys := make([]runtimes.Key, o.N)
	for i := range keys {
		keys[i] = fixture.KeyOf(i)
	}
	n := 0
	get := func(ctx context.Context, c runtimes.Cache) error {
		n = (n + 7919) % o.N
		var pod corev1.Pod
		return c.Get(ctx, keys[n], &pod)
	}
	return []read{
		{"get", 1, get},
		{"list all", 0.5, list(o.N, runtimes.Selection{})},
		{"list namespace 10%", 0, list(o.count(fixture.Namespace), runtimes.Selection{Namespace: fixture.Namespace(0)})},
		{"list label 1%", 0.1, list(o.count(fixture.App), runtimes.Selection{Labels: labels.SelectorFromSet(labels.Set{fixture.AppLabel: fixture.App(0)})})},
		{"list index 1%", 0, list(o.count(fixture.Node), runtimes.Selection{Fields: fields.OneTermEqualSelector(nodeIndex, fixture.Node(0))})},
		// The last, as it may leave the cache with more in memory than before.
		{"list all uncopied", 0, list(o.N, runtimes.Selection{Shared: true})},
	}
}

// count returns how many objects have the same value of a property as the first.
func (o Options) count(property func(int) string) int {
	count := 0
	for i := range o.N {
		if property(i) == property(0) {
			count++
		}
	}
	return count
}
