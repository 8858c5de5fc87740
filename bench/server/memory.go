package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"flyball.dev/bench/fixture"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	// idleTime is how long nothing happens before a measurement.
	idleTime = time.Minute
	// collectTime is how long nothing happens until the Go runtime of a flyball binary has collected garbage and has returned it.
	collectTime = 3 * time.Minute
	// sampleInterval is the time between readings of the memory.
	sampleInterval = 20 * time.Millisecond
)

// client returns a client for built-in kinds, with protobuf.
func (s *server) client() (*kubernetes.Clientset, error) {
	config := rest.CopyConfig(s.config)
	config.ContentType = runtime.ContentTypeProtobuf
	return kubernetes.NewForConfig(config)
}

// idle prints the anonymous memory of a control plane that has nothing to do.
func idle(ctx context.Context, s *server, seconds int) error {
	if err := sleep(ctx, time.Duration(seconds)*time.Second); err != nil {
		return err
	}
	now, err := s.use()
	fmt.Printf("%v of anonymous memory\n", now)
	return err
}

// atRest prints the CPU time of a control plane that has nothing to do, and its anonymous memory. Kubelets post their status every five
// minutes, and renew their Leases every ten seconds.
func atRest(ctx context.Context, s *server, seconds int) error {
	if err := sleep(ctx, idleTime); err != nil {
		return err
	}
	var spent time.Duration
	took := time.Duration(seconds) * time.Second
	if err := s.addCPU(&spent, func() error { return sleep(ctx, took) }); err != nil {
		return err
	}
	now, err := s.use()
	fmt.Printf("%d nodes: %.2f %% of a core, %v of anonymous memory\n", s.options.Nodes, 100*spent.Seconds()/took.Seconds(), now)
	return err
}

// pods creates pods, in the state that controllers and a kubelet leave them in, and prints what
// each of them costs: at once, idle, and idle again after all were listed.
func pods(ctx context.Context, s *server, n int) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	before, err := s.settled(ctx)
	if err != nil {
		return err
	}
	began, spent := time.Now(), time.Duration(0)
	if err := s.addCPU(&spent, func() error { return s.createPods(ctx, client, n) }); err != nil {
		return err
	}
	fmt.Printf("%.0f pods created a second, %.0f µs of CPU time of the server for each\n",
		float64(n)/time.Since(began).Seconds(), float64(spent.Microseconds())/float64(n))
	cost := func(when string, use func(context.Context) (use, error)) error {
		now, err := use(ctx)
		if err == nil {
			fmt.Printf("%s: %v of anonymous memory, %.2f KiB a pod\n", when, now, now.each(before, n))
		}
		return err
	}
	present := func(context.Context) (use, error) { return s.use() }
	if err := cost("at once", present); err != nil {
		return err
	}
	if err := cost("idle", s.settled); err != nil {
		return err
	}
	for range 2 {
		began = time.Now()
		if _, err := client.CoreV1().RESTClient().Get().Resource("pods").DoRaw(ctx); err != nil {
			return err
		}
		fmt.Printf("%d pods listed in %v\n", n, time.Since(began).Round(time.Millisecond))
	}
	spent = 0
	if err := s.addCPU(&spent, func() error { return getPods(ctx, client, n) }); err != nil {
		return err
	}
	fmt.Printf("%.0f µs of CPU time of the server for each of %d reads of a pod\n", float64(spent.Microseconds())/reads, reads)
	if err := cost("listed", present); err != nil {
		return err
	}
	if err := cost("idle again", s.settled); err != nil {
		return err
	}
	if s.out != nil {
		heap, err := s.heap()
		if err == nil {
			fmt.Printf("live heap: %.1f MiB\n", float64(heap)/mib)
		}
		return err
	}
	return nil
}

// running creates pods for the scheduler, waits until all run, and prints what each of them costs, at most and idle.
func running(ctx context.Context, s *server, n int) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	if err := createNamespaces(ctx, client); err != nil {
		return err
	}
	before, err := s.settled(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("empty: %v\n", before)
	began := time.Now()
	written, err := s.during(ctx, func() error {
		err := fixture.Parallel(ctx, n, func(ctx context.Context, i int) error {
			pod := s.pod(i)
			_, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		return waitRunning(ctx, client)
	})
	if err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("until all ran: at most %v, %.2f KiB a pod; %.0f pods a second\n", written, written.each(before, n), float64(n)/took.Seconds())
	idle, err := s.settled(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("idle: %v, %.2f KiB a pod\n", idle, idle.each(before, n))
	return s.printMemory("idle", before)
}

// settled returns the use when nothing has happened for a while, and garbage is collected.
func (s *server) settled(ctx context.Context) (use, error) {
	if s.out == nil {
		if err := sleep(ctx, collectTime); err != nil {
			return 0, err
		}
		return s.use()
	}
	if err := sleep(ctx, idleTime); err != nil {
		return 0, err
	}
	if _, err := s.heap(); err != nil {
		return 0, err
	}
	return s.use()
}

// during returns the largest use while f runs.
func (s *server) during(ctx context.Context, f func() error) (peak use, err error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	ticks := time.NewTicker(sampleInterval)
	defer ticks.Stop()
	for {
		now, err := s.use()
		if err != nil {
			return 0, err
		}
		peak = max(peak, now)
		select {
		case err := <-done:
			return peak, err
		case <-ticks.C:
		case <-ctx.Done():
			return peak, ctx.Err()
		}
	}
}

// printMemory prints the use of memory, also in proportion to an earlier use, and the live heap if it is known.
func (s *server) printMemory(when string, before use) error {
	now, err := s.use()
	if err != nil {
		return err
	}
	fmt.Printf("%s: %v (%.2f)", when, now, now.to(before))
	if s.out != nil {
		heap, err := s.heap()
		if err != nil {
			return err
		}
		fmt.Printf(", %.0f MiB live heap", float64(heap)/mib)
	}
	fmt.Println()
	return nil
}

// reads is how often getPods reads.
const reads = 10_000

// getPods reads some of n pods, with 8 readers.
func getPods(ctx context.Context, client kubernetes.Interface, n int) error {
	return fixture.Parallel(ctx, reads, func(ctx context.Context, i int) error {
		pod := newPod(i * 7919 % n)
		_, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return err
	})
}

// churn creates pods and deletes them, and prints the live heap before, at once and every half
// minute until two minutes have passed.
func churn(ctx context.Context, s *server, n int) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	// The first pod, so that everything for the first request is made.
	if err := s.createPods(ctx, client, 1); err != nil {
		return err
	}
	remove := func(ctx context.Context, i int) error {
		key := fixture.KeyOf(i)
		return client.CoreV1().Pods(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}
	if err := remove(ctx, 0); err != nil {
		return err
	}
	start, err := s.heap()
	if err != nil {
		return err
	}
	fmt.Printf("at the start: %.1f MiB of live heap\n", float64(start)/mib)
	create := func(ctx context.Context, i int) error { return s.createPod(ctx, client, i, "") }
	if err := fixture.Parallel(ctx, n, create); err != nil {
		return err
	}
	if err := fixture.Parallel(ctx, n, remove); err != nil {
		return err
	}
	for waited := time.Duration(0); ; waited += idleTime / 2 {
		heap, err := s.heap()
		if err != nil {
			return err
		}
		now, err := s.use()
		if err != nil {
			return err
		}
		fmt.Printf("after %v: %+.1f MiB of live heap, %v of anonymous memory\n", waited, float64(heap-start)/mib, now)
		if waited == 2*idleTime {
			return nil
		}
		if err := sleep(ctx, idleTime/2); err != nil {
			return err
		}
	}
}
