package benchmarks

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
)

// create measures how many pods a second the control plane creates; it involves no runtime.
func (o Options) create() measure.Benchmark {
	metrics := []measure.Metric{{Name: "HTTPS", Unit: measure.Rate}}
	if o.Server != nil && o.Server.InProcess() != nil {
		metrics = append(metrics, measure.Metric{Name: "in-process", Unit: measure.Rate})
	}
	return measure.Benchmark{
		Name:    "server/create",
		About:   fmt.Sprintf("8 writers create %d pods", o.N),
		Metrics: metrics,
		Setup:   func(ctx context.Context) (func(), error) { return o.clear, o.Server.Clear(ctx) },
		Sides: []measure.Side{{Name: "control plane", Run: func(ctx context.Context) (measure.Sample, error) {
			sample := measure.Sample{}
			clients := map[string]kubernetes.Interface{"HTTPS": o.Server.Client(), "in-process": o.Server.InProcess()}
			for _, f := range metrics {
				rate, err := o.createPods(ctx, clients[f.Name])
				if err != nil {
					return nil, err
				}
				sample[f.Name] = rate
			}
			return sample, nil
		}}},
	}
}

// createPods creates pods, returns how many it created a second, and deletes them.
func (o Options) createPods(ctx context.Context, client kubernetes.Interface) (float64, error) {
	began := time.Now()
	err := fixture.Parallel(ctx, o.N, func(ctx context.Context, n int) error { return o.Server.CreatePod(ctx, client, n) })
	if err != nil {
		return 0, err
	}
	rate := float64(o.N) / time.Since(began).Seconds()
	return rate, o.Server.Clear(ctx)
}
