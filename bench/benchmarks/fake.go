package benchmarks

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
)

// fake builds fake clients, as a test case does, and writes and reads with them.
func (o Options) fake() measure.Benchmark {
	b := measure.Benchmark{
		Name:  "fake/client",
		About: "build a fake client of a small scheme with an object; also 10 writes; also 10 reads (in memory)",
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) { return o.runFake(ctx, rt) }),
	}
	for _, name := range []string{"build", "write", "read"} {
		b.Metrics = append(b.Metrics,
			measure.Metric{Name: name, Unit: measure.Time},
			measure.Metric{Name: name + " allocs", Unit: measure.Count})
	}
	b.Metrics[2].Target = 0.1
	return b
}

func (o Options) runFake(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	build := func() runtimes.Fake {
		initial := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "initial"}}
		return rt.NewFake(scheme, []runtimes.Object{initial}, nil)
	}
	sample := measure.Sample{}
	for name, f := range map[string]func(runtimes.Fake) error{
		"build": func(runtimes.Fake) error { return nil },
		"write": func(c runtimes.Fake) error { return writeFake(ctx, c) },
		"read":  func(c runtimes.Fake) error { return readFake(ctx, c) },
	} {
		cost, err := measure.Repeat(o.Budget, func() error { return f(build()) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		sample[name], sample[name+" allocs"] = float64(cost.Time), cost.Allocs
	}
	return sample, nil
}

// writeFake makes 10 writes: 5 new objects, and an update of each.
func writeFake(ctx context.Context, c runtimes.Fake) error {
	for i := range 5 {
		labels := map[string]string{"app": "a"}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("d", i)},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
			}}
		if err := c.Create(ctx, d); err != nil {
			return err
		}
		d.Labels = labels
		if err := c.Update(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func readFake(ctx context.Context, c runtimes.Fake) error {
	for range 10 {
		var m corev1.ConfigMap
		if err := c.Get(ctx, runtimes.Key{Namespace: "default", Name: "initial"}, &m); err != nil {
			return err
		}
	}
	return nil
}
