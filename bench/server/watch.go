package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/bench/measure"
)

// openWatches opens watches of ConfigMaps, from now on.
func openWatches(ctx context.Context, s *server, n int) ([]watch.Interface, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var watches []watch.Interface
	for range n {
		w, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			return watches, err
		}
		watches = append(watches, w)
	}
	return watches, nil
}

// idleWatchers prints what watchers cost to which nothing is sent.
func idleWatchers(ctx context.Context, s *server, n int) error {
	before, err := s.settled(ctx)
	if err != nil {
		return err
	}
	watches, err := openWatches(ctx, s, n)
	if err != nil {
		return err
	}
	after, err := s.settled(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%v of anonymous memory, %v of which for %d watchers: %.1f KiB each\n", after, after-before, n, after.each(before, n))
	if s.out != nil {
		m, err := s.memory()
		if err != nil {
			return err
		}
		fmt.Printf("%.1f MiB of live heap, %.1f MiB of stacks\n", float64(m.Heap)/mib, float64(m.Stacks)/mib)
	}
	for _, w := range watches {
		w.Stop()
	}
	return nil
}

// watchLatency writes a ConfigMap again and again, each time when 1,000 watchers have received the
// last write, and prints how long that took from the beginning of the write: for each watcher, and
// for the last of them.
func watchLatency(ctx context.Context, s *server, writes int) error {
	const watchers = 1000
	client, err := s.client()
	if err != nil {
		return err
	}
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, one, metav1.CreateOptions{}); err != nil {
		return err
	}
	watches, err := openWatches(ctx, s, watchers)
	if err != nil {
		return err
	}
	received := make(chan time.Time, watchers)
	var running sync.WaitGroup
	for _, w := range watches {
		running.Go(func() {
			for e := range w.ResultChan() {
				if e.Type == watch.Modified {
					received <- time.Now()
				}
			}
		})
	}
	spent, err := s.cpu()
	if err != nil {
		return err
	}
	ownSpent, err := ownCPU()
	if err != nil {
		return err
	}
	var each, last []time.Duration
	for i := range writes {
		began := time.Now()
		patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, i)
		if _, err := client.CoreV1().ConfigMaps("default").Patch(ctx, "one", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
		for range watchers {
			select {
			case at := <-received:
				each = append(each, at.Sub(began))
			case <-time.After(30 * time.Second):
				return errors.New("a watcher has not received a write after 30 seconds")
			}
		}
		last = append(last, time.Since(began))
	}
	total, err := s.cpu()
	if err != nil {
		return err
	}
	ownTotal, err := ownCPU()
	if err != nil {
		return err
	}
	for _, w := range watches {
		w.Stop()
	}
	running.Wait()
	perEvent := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(writes*watchers) }
	fmt.Printf("CPU for each event: %.1f µs in the server, %.1f µs in the clients\n", perEvent(total-spent), perEvent(ownTotal-ownSpent))
	fmt.Printf("until a watcher has received a write: p50 %.1f ms, p99 %.1f ms\n", measure.Quantile(each, 0.5)/1e6, measure.Quantile(each, 0.99)/1e6)
	fmt.Printf("until all %d have: p50 %.1f ms, p99 %.1f ms\n", watchers, measure.Quantile(last, 0.5)/1e6, measure.Quantile(last, 0.99)/1e6)
	return nil
}
