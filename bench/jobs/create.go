package jobs

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"flyball.dev/bench/measure"
	"flyball.dev/bench/world"
)

// create is how many pods the control plane takes, which no runtime has a part
// in.
func (o Options) create() measure.Job {
	figures := []measure.Figure{{Name: "HTTPS", Unit: measure.Rate}}
	if o.Server != nil && o.Server.InProcess() != nil {
		figures = append(figures, measure.Figure{Name: "in-process", Unit: measure.Rate})
	}
	return measure.Job{
		Name:    "server/create",
		About:   fmt.Sprintf("8 writers create %d pods", o.N),
		Figures: figures,
		Setup:   func(ctx context.Context) (func(), error) { return o.clear, o.Server.Clear(ctx) },
		Sides: []measure.Side{{Name: "control plane", Run: func(ctx context.Context) (measure.Sample, error) {
			sample := measure.Sample{}
			clients := map[string]kubernetes.Interface{"HTTPS": o.Server.Client(), "in-process": o.Server.InProcess()}
			for _, f := range figures {
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

// createPods returns how many pods a second are created, and deletes them.
func (o Options) createPods(ctx context.Context, client kubernetes.Interface) (float64, error) {
	began := time.Now()
	err := world.Parallel(ctx, o.N, func(ctx context.Context, n int) error { return o.Server.CreatePod(ctx, client, n) })
	if err != nil {
		return 0, err
	}
	rate := float64(o.N) / time.Since(began).Seconds()
	return rate, o.Server.Clear(ctx)
}
