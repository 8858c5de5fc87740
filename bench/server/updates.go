package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// rounds is how often each definition is updated.
const rounds = 5

// definitionUpdates creates definitions with large schemas and an object of each kind, adds a field to
// each definition five times, updates the object each time, and deletes the definitions. After each
// round a client reads all documents that describe them, as kubectl does. It prints the memory after each
// step and at most, the CPU time that the server takes for an update, and whether the memory reaches the goals.
func definitionUpdates(ctx context.Context, s *server, n int) error {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return err
	}
	kinds := customKinds{client.Resource(apischema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}), client, n}
	before, err := s.use()
	if err != nil {
		return err
	}
	var took time.Duration // of the CPU
	steps := []func() error{
		func() error { return reportMemory(s, "at the start") },
		func() error { return kinds.create(ctx) },
		func() error { return reportMemory(s, "created") },
	}
	for round := range rounds {
		steps = append(steps,
			func() error { return s.addCPU(&took, func() error { return kinds.update(ctx, round) }) },
			func() error { return readDocuments(ctx, s) },
			func() error { return reportMemory(s, fmt.Sprintf("updated %d times", round+1)) })
	}
	reportAfter := func(d time.Duration, when string) func() error {
		return func() error {
			if err := sleep(ctx, d); err != nil {
				return err
			}
			return reportMemory(s, when)
		}
	}
	steps = append(steps,
		reportAfter(10*time.Second, "after 10 seconds"),
		func() error { return kinds.delete(ctx) },
		func() error { return readDocuments(ctx, s) },
		func() error { return reportMemory(s, "deleted") },
		reportAfter(10*time.Second, "after 10 seconds"),
		reportAfter(110*time.Second, "after 2 minutes"),
		reportAfter(collectTime-2*time.Minute, "after 3 minutes"))
	peak, err := s.during(ctx, func() error {
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	after, err := s.use()
	if err != nil {
		return err
	}
	fmt.Printf("CPU for each update: %.1f ms\n", took.Seconds()*1e3/float64(rounds*n))
	var goals goals
	goals.add("MiB of anonymous memory at most", float64(peak)/mib, 300e6/mib)
	goals.add("memory after all, to before", after.to(before), 1.3)
	goals.print()
	return nil
}

// addCPU adds the CPU time that the server takes while f runs.
func (s *server) addCPU(to *time.Duration, f func() error) error {
	began, err := s.cpu()
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	ended, err := s.cpu()
	*to += ended - began
	return err
}

// reportMemory prints the anonymous memory, and then the live heap, unless it is not known. To know it is to collect garbage,
// which a binary does when it wants to.
func reportMemory(s *server, when string) error {
	now, err := s.use()
	if err != nil {
		return err
	}
	fmt.Printf("%-16s %9v of anonymous memory", when+":", now)
	if s.out != nil {
		heap, err := s.heap()
		if err != nil {
			return err
		}
		fmt.Printf(", %7.1f MiB of live heap", float64(heap)/mib)
	}
	fmt.Println()
	return nil
}

// customKinds are n definitions and an object of each.
type customKinds struct {
	definitions dynamic.ResourceInterface
	client      dynamic.Interface
	n           int
}

// objects returns the client of the nth kind.
func (c customKinds) objects(n int) dynamic.ResourceInterface {
	gvr := apischema.GroupVersionResource{Group: customGroup(n), Version: "v1", Resource: fmt.Sprintf("gadget%ds", n)}
	return c.client.Resource(gvr).Namespace("default")
}

// create creates the definitions and the objects.
func (c customKinds) create(ctx context.Context) error {
	for i := range c.n {
		crd, err := customDefinition(i)
		if err != nil {
			return err
		}
		if _, err := c.definitions.Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return err
		}
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": customGroup(i) + "/v1", "kind": fmt.Sprintf("Gadget%d", i), "metadata": map[string]any{"name": "one"},
			"spec": map[string]any{"class": "a"},
		}}
		// A real server serves a kind a moment later.
		for ctx.Err() == nil {
			if _, err = c.objects(i).Create(ctx, object, metav1.CreateOptions{}); err == nil || !apierrors.IsNotFound(err) {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// update adds a field to each definition, and sets another one of each object.
func (c customKinds) update(ctx context.Context, round int) error {
	for i := range c.n {
		name := fmt.Sprintf("gadget%ds.%s", i, customGroup(i))
		crd, err := c.definitions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil {
			return err
		}
		for _, v := range versions {
			field := map[string]any{"type": "string", "description": "A field that a later release has added."}
			err := unstructured.SetNestedMap(v.(map[string]any), field,
				"schema", "openAPIV3Schema", "properties", "spec", "properties", fmt.Sprintf("added%d", round))
			if err != nil {
				return err
			}
		}
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			return err
		}
		if _, err := c.definitions.Update(ctx, crd, metav1.UpdateOptions{}); err != nil {
			return err
		}
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, round+2)
		if _, err := c.objects(i).Patch(ctx, "one", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes the definitions, and the objects with them.
func (c customKinds) delete(ctx context.Context) error {
	for i := range c.n {
		if err := c.definitions.Delete(ctx, fmt.Sprintf("gadget%ds.%s", i, customGroup(i)), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// readDocuments reads what describes the served kinds: discovery, and OpenAPI of both versions.
func readDocuments(ctx context.Context, s *server) error {
	config := rest.CopyConfig(s.config)
	config.Timeout = 5 * time.Minute // on a busy machine
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	if _, _, err := client.ServerGroupsAndResources(); err != nil {
		return err
	}
	if _, err := client.RESTClient().Get().AbsPath("/openapi/v2").DoRaw(ctx); err != nil {
		return err
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	for _, document := range paths {
		if _, err := document.Schema("application/json"); err != nil {
			return err
		}
	}
	return nil
}
