package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"flyball.dev/bench/fixture"
)

// sampleInterval is the time between readings of the memory.
const sampleInterval = 20 * time.Millisecond

// lists creates n pods on nodes and lists them when nobody has used them for a while: each format three times, and
// the pods of one node. It prints the times until the last byte was read, and the anonymous memory and the live heap
// before, during and after the lists. A pod costs what the server takes above its memory at rest with one pod. The client
// decodes nothing.
func lists(ctx context.Context, s *server, n int) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	if err := s.createFirstPod(ctx, client); err != nil {
		return err
	}
	before, err := s.settled(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("one pod: %v\n", before)
	spent := time.Duration(0)
	peak, err := s.during(ctx, func() error {
		return s.addCPU(&spent, func() error { return s.createMorePods(ctx, client, n) })
	})
	if err != nil {
		return err
	}
	fmt.Printf("written: at most %v, %.2f KiB a pod; %.0f µs of CPU time for each\n",
		peak, peak.each(before, n), float64(spent.Microseconds())/float64(n))
	if err := s.printMemory("at once", before); err != nil {
		return err
	}
	idle, err := s.settled(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("idle: %v, %.2f KiB a pod\n", idle, idle.each(before, n))
	https, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return err
	}
	defer https.CloseIdleConnections()
	const protobuf, table = runtime.ContentTypeProtobuf, "application/json;as=Table;g=meta.k8s.io;v=v1"
	for _, l := range []struct{ name, query, accept, encoding string }{
		{"protobuf", "", protobuf, "identity"},
		{"protobuf, compressed", "", protobuf, "gzip"},
		{"JSON", "", runtime.ContentTypeJSON, "identity"},
		{"JSON, compressed", "", runtime.ContentTypeJSON, "gzip"},
		{"table", "", table, "identity"},
		{"protobuf, by label", "?labelSelector=" + fixture.AppLabel + "%3D" + fixture.App(0), protobuf, "identity"},
		{"protobuf, by node", "?fieldSelector=spec.nodeName%3D" + fixture.Node(0), protobuf, "identity"},
	} {
		for range 3 {
			if err := s.list(ctx, https, l.name, "/api/v1/pods"+l.query, l.accept, l.encoding, idle); err != nil {
				return err
			}
		}
	}
	again, err := s.settled(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("idle again: %v (%.2f)\n", again, again.to(idle))
	return nil
}

// list lists objects and prints the time and the anonymous memory, also in proportion to the idle memory.
func (s *server) list(ctx context.Context, https *http.Client, name, path, accept, encoding string, idle use) error {
	var took time.Duration
	var size int64
	before, err := s.cpu()
	if err != nil {
		return err
	}
	peak, err := s.during(ctx, func() error {
		var err error
		took, size, err = s.read(ctx, https, path, accept, encoding)
		return err
	})
	if err != nil {
		return err
	}
	after, err := s.cpu()
	if err != nil {
		return err
	}
	fmt.Printf("%s: %v, %v of CPU time, %.1f MB, at most %v (%.2f)\n", name, took.Round(time.Millisecond),
		after-before, float64(size)/1e6, peak, peak.to(idle))
	return nil
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

// createFirstPod creates nodes, and a pod on one of them. No kubelet runs pods there. The nodes stay ready until ctx ends.
func (s *server) createFirstPod(ctx context.Context, client kubernetes.Interface) error {
	for i, first := 0, ""; ; i += fixture.Namespaces {
		name := fixture.Node(i)
		if name == first {
			break
		}
		if i == 0 {
			first = name
		}
		if err := keepReady(ctx, client, name); err != nil {
			return err
		}
	}
	if err := createNamespaces(ctx, client); err != nil {
		return err
	}
	return s.createPod(ctx, client, 0, fixture.Node(0))
}

// createMorePods creates n pods less the first one.
func (s *server) createMorePods(ctx context.Context, client kubernetes.Interface, n int) error {
	return fixture.Parallel(ctx, n-1, func(ctx context.Context, i int) error {
		return s.createPod(ctx, client, i+1, fixture.Node(i+1))
	})
}

// keepReady creates a ready node and renews its lease as a kubelet does, so that no controller evicts the pods on it.
func keepReady(ctx context.Context, client kubernetes.Interface, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	ready := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	_, err := client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &name, LeaseDurationSeconds: new(int32(40)), RenewTime: new(metav1.NowMicro())}}
	if lease, err = leases.Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return err
	}
	go func() {
		for sleep(ctx, 10*time.Second) == nil {
			lease.Spec.RenewTime = new(metav1.NowMicro())
			if renewed, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
				lease = renewed
			}
		}
	}()
	return nil
}
