package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
)

// customMemory creates n custom resources, and prints their anonymous memory in proportion to their size as JSON: at most while they
// are written, idle, at most during lists, and idle again; and the times of gets of active and of idle objects. The memory
// at rest with one object does not count.
func customMemory(ctx context.Context, s *server, n int) error {
	objects, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return err
	}
	widgets, err := defineWidgets(ctx, objects)
	if err != nil {
		return err
	}
	if _, err := widgets.Create(ctx, widget(n), metav1.CreateOptions{}); err != nil {
		return err
	}
	before, err := s.settled(ctx)
	if err != nil {
		return err
	}
	written, err := s.during(ctx, func() error {
		return fixture.Parallel(ctx, n, func(ctx context.Context, i int) error {
			_, err := widgets.Create(ctx, widget(i), metav1.CreateOptions{})
			return err
		})
	})
	if err != nil {
		return err
	}
	https, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return err
	}
	defer https.CloseIdleConnections()
	gets := func(when string, from int) error {
		var times []time.Duration
		for i := from; i < min(n, from+2000); i++ {
			began := time.Now()
			if _, err := get(ctx, https, fmt.Sprintf("%s%s/w-%06d", s.config.Host, widgetsPath, i)); err != nil {
				return err
			}
			times = append(times, time.Since(began))
		}
		fmt.Printf("get, %s: p50 %.2f ms, p99 %.2f ms\n", when, measure.Quantile(times, 0.5)/1e6, measure.Quantile(times, 0.99)/1e6)
		return nil
	}
	for range 2 {
		if err := gets("active", max(0, n-2000)); err != nil {
			return err
		}
	}
	idle, err := s.settled(ctx)
	if err != nil {
		return err
	}
	if err := gets("idle", 0); err != nil {
		return err
	}
	var size int64
	cost := func(when string, u use) {
		fmt.Printf("%s: %.2f KiB an object of %.2f KiB: %.2f\n", when, float64(u-before)/float64(n)/kib,
			float64(size)/float64(n)/kib, float64(u-before)/float64(size))
	}
	const table = "application/json;as=Table;g=meta.k8s.io;v=v1"
	for i, accept := range []string{runtime.ContentTypeJSON, runtime.ContentTypeJSON, table} {
		spent, of := time.Duration(0), int64(0)
		listed, err := s.during(ctx, func() error {
			return s.addCPU(&spent, func() (err error) {
				_, of, err = s.read(ctx, https, widgetsPath, accept, "identity")
				return err
			})
		})
		if err != nil {
			return err
		}
		if i == 0 {
			size = of
			cost("written, at most", written)
			cost("idle", idle)
		}
		cost(fmt.Sprintf("list as %s, %v of CPU time, at most", accept, spent), listed)
	}
	again, err := s.settled(ctx)
	if err != nil {
		return err
	}
	cost("idle again", again)
	return nil
}

// widgetsPath is where the custom resources are.
const widgetsPath = "/apis/example.org/v1/namespaces/default/widgets"

// defineWidgets creates the definition of the custom resources, and waits until they are served.
func defineWidgets(ctx context.Context, objects dynamic.Interface) (dynamic.ResourceInterface, error) {
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := objects.Resource(crds).Create(ctx, definition("widgets"), metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	widgets := objects.Resource(schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}).Namespace("default")
	for {
		_, err := widgets.List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil || !apierrors.IsNotFound(err) {
			return widgets, err
		}
	}
}

// get reads a response and returns its size.
func get(ctx context.Context, https *http.Client, url string) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := https.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.Copy(io.Discard, response.Body)
}

// widget returns the nth custom resource, of about 3 KiB.
func widget(n int) *unstructured.Unstructured {
	var parts []any
	for i := range 100 {
		parts = append(parts, fmt.Sprintf("part-%d-of-%d-%s", i, n, strings.Repeat("x", n%13)))
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Widgets",
		"metadata": map[string]any{"name": fmt.Sprintf("w-%06d", n), "namespace": "default"},
		"spec":     map[string]any{"image": fmt.Sprint("registry.example.org/app:", n), "parts": parts}}}
}
