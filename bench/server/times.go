package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
)

// pages lists objects in pages of 500 and at once, in turn, and prints the times and their ratio.
func pages(ctx context.Context, s *server, n int) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	err = fixture.Parallel(ctx, n, func(ctx context.Context, i int) error {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%06d", i)}, Data: map[string]string{"n": fmt.Sprint(i)}}
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, c, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	list := func(limit int64) (time.Duration, error) {
		began, seen := time.Now(), 0
		for options := (metav1.ListOptions{Limit: limit}); ; {
			list, err := client.CoreV1().ConfigMaps("default").List(ctx, options)
			if err != nil {
				return 0, err
			}
			if seen += len(list.Items); list.Continue == "" {
				break
			}
			options.Continue = list.Continue
		}
		if seen < n {
			return 0, fmt.Errorf("%d objects of %d were listed", seen, n)
		}
		return time.Since(began), nil
	}
	for range 3 {
		whole, err := list(0)
		if err != nil {
			return err
		}
		paged, err := list(500)
		if err != nil {
			return err
		}
		fmt.Printf("at once %v, in pages %v: %.2f\n", whole.Round(time.Millisecond), paged.Round(time.Millisecond), float64(paged)/float64(whole))
	}
	return nil
}

// definitions creates definitions of custom resources, and prints how long it took after the
// creation until a first object was created.
func definitions(ctx context.Context, s *server, n int) error {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return err
	}
	var created, served []time.Duration
	for i := range n {
		plural := fmt.Sprintf("widgets%d", i)
		began := time.Now()
		crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
		if _, err := client.Resource(crds).Create(ctx, definition(plural), metav1.CreateOptions{}); err != nil {
			return err
		}
		created = append(created, time.Since(began))
		began = time.Now()
		resource := client.Resource(schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: plural})
		for {
			_, err := resource.List(ctx, metav1.ListOptions{})
			if err == nil {
				break
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		served = append(served, time.Since(began))
	}
	for name, took := range map[string][]time.Duration{"created": created, "served after that": served} {
		first := took[0]
		fmt.Printf("%s: the first after %.1f ms, p50 %.1f ms, p99 %.1f ms\n", name, float64(first)/1e6,
			measure.Quantile(took, 0.5)/1e6, measure.Quantile(took, 0.99)/1e6)
	}
	return nil
}

// definition returns a definition of a kind with a schema.
func definition(plural string) *unstructured.Unstructured {
	text := map[string]any{"type": "string"}
	spec := map[string]any{"type": "object", "properties": map[string]any{
		"size":  map[string]any{"type": "integer", "minimum": int64(1), "default": int64(3)},
		"image": text,
		"parts": map[string]any{"type": "array", "items": text},
	}}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".example.org"},
		"spec": map[string]any{
			"group": "example.org", "scope": "Namespaced",
			"names": map[string]any{"plural": plural, "kind": "W" + plural[1:]},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema":       map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": spec}}},
				"subresources": map[string]any{"status": map[string]any{}},
			}},
		},
	}}
}
