package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
)

// wanted and seen are what a user writes into an object and what the reconciler
// writes back.
const (
	wanted = "bench.flyball.dev/wanted"
	seen   = "bench.flyball.dev/seen"
)

// generations makes every run write something new.
var generations atomic.Int64

// patchOf returns a patch that sets the annotation to a generation.
func patchOf(generation int64) []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, wanted, generation)
}

// clear clears the server after a benchmark.
func (o Options) clear() { _ = o.Server.Clear(context.Background()) }

// writeBack touches an object and waits until the reconciler has written to it.
func (o Options) writeBack() measure.Benchmark {
	touches := max(1, o.N/50)
	return measure.Benchmark{
		Name:  "reconcile/write-back",
		About: fmt.Sprintf("%d times, touch an object and wait until its reconcile has written that back (HTTPS)", touches),
		Metrics: []measure.Metric{
			{Name: "p50", Unit: measure.Time},
			{Name: "p99", Unit: measure.Time},
			{Name: "conflicts", Unit: measure.Variable},
		},
		Setup: func(ctx context.Context) (func(), error) { return o.clear, o.createOwners(ctx, 1) },
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return o.touch(ctx, rt, touches)
		}),
	}
}

// touch changes an object again and again, and each time waits until its reconcile has written the
// change back; it counts the conflicts of these writes.
func (o Options) touch(ctx context.Context, rt runtimes.Runtime, touches int) (measure.Sample, error) {
	written := make(chan string, touches)
	var conflicts atomic.Int64
	m, err := manager(rt, o.Server.HTTPS(), runtimes.Controller{Name: "write-back", For: &corev1.ConfigMap{}, Workers: 1},
		func(ctx context.Context, m runtimes.Manager, key runtimes.Key) error {
			var obj corev1.ConfigMap
			if err := m.Get(ctx, key, &obj); err != nil {
				return err
			}
			want := obj.Annotations[wanted]
			if want == obj.Annotations[seen] {
				return nil
			}
			obj.Annotations[seen] = want
			err := m.Update(ctx, &obj)
			if err != nil {
				conflicts.Add(1)
				return err
			}
			written <- want
			return nil
		})
	if err != nil {
		return nil, err
	}
	running := begin(ctx, m.Start)
	defer running.stop()
	var took []time.Duration
	for range touches {
		generation := generations.Add(1)
		began := time.Now()
		_, err := o.Server.Client().CoreV1().ConfigMaps(o.Server.Namespace).Patch(ctx, owner(0), types.MergePatchType, patchOf(generation), metav1.PatchOptions{})
		for err == nil && <-written != strconv.FormatInt(generation, 10) {
		}
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	// The first one also waited for the manager to start.
	took = took[min(1, len(took)-1):]
	return measure.Sample{"p50": measure.Quantile(took, 0.5), "p99": measure.Quantile(took, 0.99), "conflicts": float64(conflicts.Load())}, running.stop()
}

// statusWrites starts a manager with a controller that writes the status of every object. It
// measures the memory that read-your-writes takes.
func (o Options) statusWrites() measure.Benchmark {
	var replay *fixture.Replay
	return measure.Benchmark{
		Name:    "reconcile/status-writes",
		About:   fmt.Sprintf("start a manager until 1 worker has updated the status of each of %d pods once and received the events of that; all but the time for one pod (replay)", o.N),
		Metrics: statusWritesMetrics,
		Setup: func(context.Context) (_ func(), err error) {
			replay, err = fixture.NewReplay(fixture.Pods, o.N, true)
			return func() { replay = nil }, err
		},
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return writeStatus(ctx, rt, replay.Server(), o.N)
		}),
	}
}

// The peer stores nothing, so heap shows what Flyball stores.
var statusWritesMetrics = []measure.Metric{
	{Name: "time", Unit: measure.Time},
	{Name: "cpu", Unit: measure.Time},
	{Name: "allocs", Unit: measure.Count},
	{Name: "garbage", Unit: measure.Garbage},
	{Name: "heap", Unit: measure.Memory, Target: 0.12},
}

// writeStatus measures a manager that updates the status of each of n pods once and receives the
// events of these updates.
func writeStatus(ctx context.Context, rt runtimes.Runtime, server runtimes.Server, n int) (measure.Sample, error) {
	updatesWanted, observed := int64(n), make(chan struct{})
	var updates atomic.Int64
	before := measure.Heap()
	stop := func() error { return nil }
	cost, err := measure.Each(n, func() error {
		m, err := manager(rt, server, runtimes.Controller{
			Name: "status-writes", For: fixture.Pods.One(), Workers: 1,
			Updated: func(runtimes.Object) bool {
				if updates.Add(1) == updatesWanted {
					close(observed)
				}
				return false
			},
		}, func(ctx context.Context, m runtimes.Manager, key runtimes.Key) error {
			pod := &corev1.Pod{}
			if err := m.Get(ctx, key, pod); err != nil {
				return err
			}
			pod.Status.Message = "reconciled"
			return m.UpdateStatus(ctx, pod)
		})
		if err != nil {
			return err
		}
		running := begin(ctx, m.Start)
		stop = running.stop
		return running.wait(ctx, observed)
	})
	heap := measure.Heap() - before
	return measure.Sample{
		"time": float64(cost.Time * time.Duration(n)), "cpu": float64(cost.CPU), "allocs": cost.Allocs, "garbage": cost.Bytes, "heap": heap / float64(n),
	}, errors.Join(err, stop())
}

// children is how many objects an owner has.
const children = 10

func owner(n int) string    { return fmt.Sprintf("owner-%d", n) }
func child(n, i int) string { return fmt.Sprintf("%s-child-%d", owner(n), i) }

const ownerLabel = "bench.flyball.dev/owner"

func (o Options) createOwners(ctx context.Context, n int) error {
	return fixture.Parallel(ctx, n, func(ctx context.Context, i int) error {
		_, err := o.Server.Client().CoreV1().ConfigMaps(o.Server.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: owner(i)}}, metav1.CreateOptions{})
		return err
	})
}

func (o Options) createFamilies(ctx context.Context, n int) error {
	if err := o.createOwners(ctx, n); err != nil {
		return err
	}
	core := o.Server.Client().CoreV1()
	return fixture.Parallel(ctx, n, func(ctx context.Context, i int) error {
		parent, err := core.ConfigMaps(o.Server.Namespace).Get(ctx, owner(i), metav1.GetOptions{})
		for c := 0; c < children && err == nil; c++ {
			meta := metav1.ObjectMeta{
				Name: child(i, c), Labels: map[string]string{ownerLabel: owner(i)},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(parent, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
			}
			_, err = core.Secrets(o.Server.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
		}
		return err
	})
}

// fanIn touches all children and waits until every owner has seen that.
func (o Options) fanIn() measure.Benchmark {
	owners := max(1, o.N/100)
	return measure.Benchmark{
		Name:  "reconcile/fan-in",
		About: fmt.Sprintf("8 writers touch the %d children of each of %d owners; until every owner has seen it in all children, listed by label (HTTPS)", children, owners),
		Metrics: []measure.Metric{
			{Name: "time", Unit: measure.Time},
			{Name: "reconciles of an owner", Unit: measure.Variable},
		},
		Setup: func(ctx context.Context) (func(), error) { return o.clear, o.createFamilies(ctx, owners) },
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return o.gather(ctx, rt, owners)
		}),
	}
}

// gather changes the children of each owner with several writers at once, and measures the time
// until a reconcile of every owner has listed all its children in their latest state.
func (o Options) gather(ctx context.Context, rt runtimes.Runtime, owners int) (measure.Sample, error) {
	initially, complete := newReconciled(owners), newReconciled(owners)
	generation := generations.Add(1)
	var reconciles atomic.Int64
	m, err := manager(rt, o.Server.HTTPS(), runtimes.Controller{Name: "fan-in", For: &corev1.ConfigMap{}, Owns: []runtimes.Object{&corev1.Secret{}}, Workers: 1},
		func(ctx context.Context, m runtimes.Manager, key runtimes.Key) error {
			reconciles.Add(1)
			have, err := count(ctx, m, key, strconv.FormatInt(generation, 10))
			if have == children {
				complete.add(key)
			}
			initially.add(key)
			return err
		})
	if err != nil {
		return nil, err
	}
	running := begin(ctx, m.Start)
	defer running.stop()
	if err := running.wait(ctx, initially.done); err != nil {
		return nil, err
	}
	before := reconciles.Load()
	began := time.Now()
	err = fixture.Parallel(ctx, owners*children, func(ctx context.Context, i int) error {
		_, err := o.Server.Client().CoreV1().Secrets(o.Server.Namespace).Patch(ctx, child(i/children, i%children), types.MergePatchType, patchOf(generation), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := running.wait(ctx, complete.done); err != nil {
		return nil, err
	}
	took := time.Since(began)
	sample := measure.Sample{"time": float64(took), "reconciles of an owner": float64(reconciles.Load()-before) / float64(owners)}
	return sample, running.stop()
}

// count returns how many children of an owner were touched.
func count(ctx context.Context, m runtimes.Manager, owner runtimes.Key, generation string) (int, error) {
	var secrets corev1.SecretList
	err := m.List(ctx, &secrets, runtimes.Selection{Namespace: owner.Namespace, Labels: labels.SelectorFromSet(labels.Set{ownerLabel: owner.Name})})
	touched := 0
	for _, s := range secrets.Items {
		if s.Annotations[wanted] == generation {
			touched++
		}
	}
	return touched, err
}
