package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		began := time.Now()
		s, err := startServer(ctx, first.binary, "", options)
		if err != nil {
			return err
		}
		s.pod = first.pod
		if err := errors.Join(s.printStart(ctx, i, began), s.fill(ctx, i, n), s.stop()); err != nil {
			return err
		}
	}
	return nil
}

// printStart writes an object, and prints the time since the process was started.
func (s *server) printStart(ctx context.Context, i int, began time.Time) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("start-", i)}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return err
	}
	took := time.Since(began)
	used, err := s.cpu()
	if err != nil {
		return err
	}
	resident, err := s.resident()
	fmt.Printf("start %d: first write after %v, %v of CPU time, %.0f MiB resident\n", i, took.Round(time.Millisecond), used, float64(resident)/mib)
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
