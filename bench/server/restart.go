package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/bench/measure"
)

// restart creates n pods on a control plane with a data directory, stops it, and starts it again, three times. It prints
// the bytes that it has written for the pods, and for each start the wall-clock time and the CPU time of the process until
// a first write is answered. The first start is with an empty directory.
func restart(ctx context.Context, first *server, n int) (err error) {
	options := first.options
	if options.DataDir, err = os.MkdirTemp("", "flyball-bench-data-"); err != nil {
		return err
	}
	defer os.RemoveAll(options.DataDir)
	for i := range 4 {
		s, _, err := startAndWrite(ctx, i, first.binary, options)
		if err != nil {
			return err
		}
		s.pod = first.pod
		if err := errors.Join(s.fill(ctx, i, n), s.stop()); err != nil {
			return err
		}
	}
	return nil
}

// startGoal is how long a start of flyball up may take on a machine without other load, until the first write.
const startGoal = 250 * time.Millisecond

// start starts n control planes without a data directory, one after the other, and prints the median of the times until a first write
// is answered.
func start(ctx context.Context, first *server, n int) error {
	options := first.options
	options.DataDir = ""
	var times []time.Duration
	for i := range n {
		s, took, err := startAndWrite(ctx, i, first.binary, options)
		if err != nil {
			return err
		}
		if err := s.stop(); err != nil {
			return err
		}
		times = append(times, took)
	}
	fmt.Printf("first write: median %.0f ms, at most %.0f ms; the goal is %v\n",
		measure.Quantile(times, 0.5)/1e6, measure.Quantile(times, 1)/1e6, startGoal)
	return nil
}

// startAndWrite starts a control plane and writes an object. It returns and prints the time from the start of the process to the answer,
// and prints what the process has taken.
func startAndWrite(ctx context.Context, i int, binary string, options childOptions) (*server, time.Duration, error) {
	began := time.Now()
	s, err := startServer(ctx, binary, "", options)
	if err != nil {
		return nil, 0, err
	}
	if err := s.firstWrite(ctx, i); err != nil {
		return nil, 0, errors.Join(err, s.stop())
	}
	took := time.Since(began)
	if err := s.printStart(i, took); err != nil {
		return nil, 0, errors.Join(err, s.stop())
	}
	return s, took, nil
}

// firstWrite writes an object after the ith start.
func (s *server) firstWrite(ctx context.Context, i int) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("start-", i)}}
	_, err = client.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{})
	return err
}

// printStart prints what a start has taken.
func (s *server) printStart(i int, took time.Duration) error {
	faults, err := s.faults()
	if err != nil {
		return err
	}
	used, err := s.cpu()
	if err != nil {
		return err
	}
	now, err := s.use()
	fmt.Printf("start %d: first write after %v, %v of CPU time, %d page faults, %v of anonymous memory\n",
		i, took.Round(time.Millisecond), used, faults, now)
	return err
}

// create creates n pods with 8 writers, and prints how many a second, and what one took.
func create(ctx context.Context, s *server, n int) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.createPods(ctx, client, n); err != nil {
		return err
	}
	fmt.Printf("%.0f pods created a second", float64(n)/time.Since(began).Seconds())
	if s.cmd != nil {
		used, err := s.cpu()
		if err != nil {
			return err
		}
		written, disk, err := s.io()
		if err != nil {
			return err
		}
		fmt.Printf(", %.2f ms of CPU time, %.0f bytes written, responses included, and %.0f to the disk for each", used.Seconds()*1000/float64(n), float64(written)/float64(n), float64(disk)/float64(n))
	}
	own, err := ownCPU()
	fmt.Printf("; the clients took %.2f ms of CPU time\n", own.Seconds()*1000/float64(n))
	return err
}

// fill creates the pods in the first start.
func (s *server) fill(ctx context.Context, i, n int) error {
	if i > 0 {
		return nil
	}
	return create(ctx, s, n)
}
