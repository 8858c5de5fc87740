package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"flyball.dev/bench/fixture"
	"flyball.dev/controlplane"
	"flyball.dev/storage"
)

const (
	// growthFactor is the ratio of the sizes that growth compares, and growthRounds the number of comparisons.
	growthFactor, growthRounds = 50, 5
	// fillBatch is the number of objects that fill writes at once.
	fillBatch = 100
)

// growth lists n idle pods and a fiftieth of them in turn, the latter more often, so that both take as long. It prints the CPU time
// for an object of each, and the ratio. Each server has the pods in its storage at its start.
func growth(ctx context.Context, s *server, n int) error {
	few, many := n/growthFactor, n
	var servers [2]*server
	for i, fill := range []int{few, many} {
		o := s.options
		o.Fill = fill
		started, err := startServer(ctx, "", "", o)
		if err != nil {
			return err
		}
		defer started.stop()
		servers[i] = started
	}
	if err := sleep(ctx, idleTime); err != nil {
		return err
	}
	for i := range servers { // the first list notes of each object how it is encoded
		client, err := servers[i].client()
		if err != nil {
			return err
		}
		if err := listPages(ctx, client); err != nil {
			return err
		}
	}
	if err := sleep(ctx, idleTime); err != nil {
		return err
	}
	for _, format := range []struct{ name, accept string }{
		{"protobuf", runtime.ContentTypeProtobuf},
		{"JSON", runtime.ContentTypeJSON},
		{"table", "application/json;as=Table;g=meta.k8s.io;v=v1"},
	} {
		var costs [2][]time.Duration
		var ratios []float64
		for range growthRounds {
			for i, times := range []int{growthFactor, 1} {
				spent, err := servers[i].listTimes(ctx, format.accept, times)
				if err != nil {
					return err
				}
				costs[i] = append(costs[i], spent)
			}
			last := len(ratios)
			ratios = append(ratios, float64(costs[1][last])/float64(costs[0][last]))
		}
		each := func(spent []time.Duration) float64 {
			slices.Sort(spent)
			return float64(spent[len(spent)/2].Nanoseconds()) / float64(few*growthFactor) / 1000
		}
		slices.Sort(ratios)
		fmt.Printf("%s: CPU time for an object of %d: %.2f µs, of %d: %.2f µs; ratio %.2f (%.2f to %.2f)\n",
			format.name, few, each(costs[0]), many, each(costs[1]), ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	}
	for i, name := range []string{"few", "many"} {
		now, err := servers[i].use()
		if err != nil {
			return err
		}
		fmt.Printf("%s: %v\n", name, now)
	}
	return nil
}

// listTimes lists all pods several times, and returns the CPU time that the server has taken.
func (s *server) listTimes(ctx context.Context, accept string, times int) (time.Duration, error) {
	https, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return 0, err
	}
	defer https.CloseIdleConnections()
	var spent time.Duration
	err = s.addCPU(&spent, func() error {
		for range times {
			if _, _, err := s.read(ctx, https, "/api/v1/pods", accept, "identity"); err != nil {
				return err
			}
		}
		return nil
	})
	return spent, err
}

// listPages lists all pods in pages.
func listPages(ctx context.Context, client kubernetes.Interface) error {
	for options := (metav1.ListOptions{Limit: 5000}); ; {
		page, err := client.CoreV1().Pods("").List(ctx, options)
		if err != nil {
			return err
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// read reads a path and discards it. It returns the time until the last byte, and the number of bytes.
func (s *server) read(ctx context.Context, https *http.Client, path, accept, encoding string) (took time.Duration, size int64, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+path, nil)
	if err != nil {
		return 0, 0, err
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", encoding)
	began := time.Now()
	response, err := https.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	size, err = io.Copy(io.Discard, response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, response.Status)
	}
	return time.Since(began), size, err
}

// fill stores n small pods that run, as the control plane would: in the state in which it has stored one.
func fill(ctx context.Context, plane *controlplane.ControlPlane, n int) error {
	config := rest.CopyConfig(plane.Config())
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := createNamespaces(ctx, client); err != nil {
		return err
	}
	first := smallPod(0)
	first.Spec.NodeName = fixture.Node(0)
	if first, err = client.CoreV1().Pods(first.Namespace).Create(ctx, first, metav1.CreateOptions{}); err != nil {
		return err
	}
	class := first.Status.QOSClass
	first.Status = fixture.Pod(0).Status
	first.Status.QOSClass = class
	if _, err := client.CoreV1().Pods(first.Namespace).UpdateStatus(ctx, first, metav1.UpdateOptions{}); err != nil {
		return err
	}
	const prefix = "/registry/pods/"
	store, codec := plane.Storage(), protobuf.NewSerializer(fixture.Scheme, fixture.Scheme)
	stored, err := store.Get(ctx, prefix+first.Namespace+"/"+first.Name)
	if err != nil {
		return err
	}
	object, _, err := codec.Decode(stored.Value(), nil, nil)
	if err != nil {
		return err
	}
	pod := object.(*corev1.Pod)
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	for from := 1; from < n; from += fillBatch {
		var writes []storage.Write
		for i := from; i < min(n, from+fillBatch); i++ {
			key := fixture.KeyOf(i)
			pod.Namespace, pod.Name, pod.UID = key.Namespace, key.Name, types.UID(fmt.Sprintf("6f0f9a52-0b6e-4c1f-9d0e-%012x", i))
			pod.Labels[fixture.AppLabel], pod.Spec.NodeName = fixture.App(i), fixture.Node(i)
			value, err := runtime.Encode(codec, pod)
			if err != nil {
				return err
			}
			writes = append(writes, storage.Write{Key: prefix + pod.Namespace + "/" + pod.Name, Value: value, If: storage.Absent})
		}
		if _, err := store.Commit(ctx, writes); err != nil {
			return err
		}
	}
	return nil
}
