package endpoints_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"flyball.dev/apiserver/store"
	"flyball.dev/controlplane"
	"flyball.dev/storage/memory"
)

// TestOneHistory lets many writers change one object by all types of writes. Each writer counts in its own annotation.
// No write may be lost, and all watchers must get the same events in the order of their resource versions. No count may
// decrease unless the object was replaced.
func TestOneHistory(t *testing.T) {
	for _, tc := range []struct {
		name, manifest string
		resource       schema.GroupVersionResource
		replaced       bool
	}{
		{"typed", exampleDeploymentJSON, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, false},
		{"custom", controlplanetest.ExampleWidget, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, false},
		{"typed, replaced", exampleDeploymentJSON, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, true},
		{"custom, replaced", controlplanetest.ExampleWidget, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			backend := memory.New(memory.Options{})
			plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, Storage: backend})
			cfg := plane.Config()
			cfg.QPS = -1
			client := dynamic.NewForConfigOrDie(cfg)
			controlplanetest.Must[*unstructured.Unstructured](t)(client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Create(t.Context(), controlplanetest.Decode(t, controlplanetest.Widgets), metav1.CreateOptions{}))
			h := &history{client.Resource(tc.resource).Namespace("default"), controlplanetest.Decode(t, tc.manifest), tc.name[0] == 't'}
			h.object.SetName("x")
			h.object.SetAnnotations(map[string]string{"created": "yes"})
			first := controlplanetest.Must[*unstructured.Unstructured](t)(h.Create(t.Context(), h.object, metav1.CreateOptions{}))
			const watchers, writers, writes = 4, 40, 6
			var following sync.WaitGroup
			seen := make([][]string, watchers)
			for i := range seen {
				w, err := h.Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.GetResourceVersion()})
				if err != nil {
					t.Fatal(err)
				}
				following.Go(func() { seen[i] = h.follow(t, w, first) })
			}
			var writing sync.WaitGroup
			for n := range writers {
				writing.Go(func() {
					for i := 1; i <= writes; i++ {
						if err := h.write(t.Context(), n, i, tc.replaced); err != nil {
							t.Errorf("writer %d: %v", n, err)
							return
						}
					}
				})
			}
			if tc.replaced {
				writing.Go(func() {
					for range writes {
						if err := h.Delete(t.Context(), first.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
							t.Error(err)
						}
						if _, err := h.Create(t.Context(), h.object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
							t.Error(err)
						}
					}
				})
			}
			writing.Wait()
			_, err := h.Patch(t.Context(), first.GetName(), types.MergePatchType, []byte(`{"metadata":{"annotations":{"end":"yes"}}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			following.Wait()
			for _, s := range seen {
				if !slices.Equal(s, seen[0]) {
					t.Errorf("one watcher got %d events %v, another %d %v", len(s), s, len(seen[0]), seen[0])
				}
			}
			last := controlplanetest.Must[*unstructured.Unstructured](t)(h.Get(t.Context(), first.GetName(), metav1.GetOptions{}))
			for n := range writers {
				if got := last.GetAnnotations()[counter(n)]; !tc.replaced && got != strconv.Itoa(writes) {
					t.Errorf("writer %d has written %s times", n, got)
				}
			}
			if err := store.Verify(t.Context(), backend); err != nil {
				t.Error(err)
			}
		})
	}
}

const exampleDeploymentJSON = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{
	"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`

// history are the writes of one object.
type history struct {
	dynamic.ResourceInterface
	object *unstructured.Unstructured
	typed  bool
}

func counter(n int) string { return "writer-" + strconv.Itoa(n) }

// write writes the i-th count of a writer, if need be several times. If the object may be replaced,
// its absence is no error, nor is it that an apply, which then creates it, lacks required fields.
func (h *history) write(ctx context.Context, n, i int, mayBeGone bool) error {
	for {
		result, err := h.try(ctx, n, i)
		switch {
		case apierrors.IsConflict(err):
			continue
		case mayBeGone && (apierrors.IsNotFound(err) || apierrors.IsInvalid(err)):
			return nil
		case err != nil:
			return err
		case result.GetAnnotations()[counter(n)] != strconv.Itoa(i):
			return fmt.Errorf("the response to write %d has %v", i, result.GetAnnotations())
		}
		return nil
	}
}

func (h *history) try(ctx context.Context, n, i int) (*unstructured.Unstructured, error) {
	name, key, value := h.object.GetName(), counter(n), strconv.Itoa(i)
	merge, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	options := metav1.PatchOptions{FieldManager: key}
	switch (n + i) % 6 {
	case 0:
		obj, err := h.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		_ = unstructured.SetNestedField(obj.Object, value, "metadata", "annotations", key)
		return h.Update(ctx, obj, metav1.UpdateOptions{FieldManager: key})
	case 1:
		obj, err := h.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		_ = unstructured.SetNestedField(obj.Object, int64(i), "spec", "replicas")
		_ = unstructured.SetNestedField(obj.Object, value, "metadata", "annotations", key)
		return h.Update(ctx, obj, metav1.UpdateOptions{FieldManager: key})
	case 2:
		return h.Patch(ctx, name, types.MergePatchType, merge, options)
	case 3:
		patch := fmt.Sprintf(`[{"op":"add","path":"/metadata/annotations/%s","value":"%s"}]`, key, value)
		return h.Patch(ctx, name, types.JSONPatchType, []byte(patch), options)
	case 4:
		if h.typed {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q},"finalizers":[],"$deleteFromPrimitiveList/finalizers":["x/y"]}}`, key, value)
			return h.Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), options)
		}
		return h.Patch(ctx, name, types.MergePatchType, merge, options)
	default:
		// The fields of the manager's updates and patches are not applied fields.
		config := &unstructured.Unstructured{Object: map[string]any{"apiVersion": h.object.GetAPIVersion(), "kind": h.object.GetKind(),
			"metadata": map[string]any{"name": name, "annotations": map[string]any{key: value}}}}
		if h.typed || i%2 == 0 {
			status, err := h.Patch(ctx, name, types.MergePatchType, []byte(fmt.Sprintf(`{"status":{%q:%d}}`, h.statusField(), i)), options, "status")
			if err != nil {
				return status, err
			}
		}
		if _, err := h.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return nil, err // an apply would create it
		}
		obj, err := h.Apply(ctx, name, config, metav1.ApplyOptions{FieldManager: key, Force: true})
		if apierrors.IsInvalid(err) {
			return nil, apierrors.NewNotFound(schema.GroupResource{}, name) // it was deleted meanwhile, and the rest is required
		}
		return obj, err
	}
}

func (h *history) statusField() string {
	if h.typed {
		return "observedGeneration"
	}
	return "ready"
}

// follow checks the events of a watch up to the last write, and returns them.
func (h *history) follow(t *testing.T, w watch.Interface, first *unstructured.Unstructured) []string {
	defer w.Stop()
	var events []string
	uid, was, version := first.GetUID(), map[string]string{}, 0
	for e := range w.ResultChan() {
		obj, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Error {
			t.Errorf("event %s %v", e.Type, e.Object)
			return events
		}
		events = append(events, fmt.Sprint(e.Type, obj.GetResourceVersion()))
		next, _ := strconv.Atoi(obj.GetResourceVersion())
		if next <= version {
			t.Errorf("%s at %d follows %d", e.Type, next, version)
		}
		version = next
		if e.Type == watch.Added {
			if obj.GetUID() == uid {
				t.Errorf("%s was added twice", uid)
			}
			uid, was = obj.GetUID(), map[string]string{}
		}
		if obj.GetUID() != uid {
			t.Errorf("%s of %s follows %s", e.Type, obj.GetUID(), uid)
		}
		is := obj.GetAnnotations()
		for key, value := range was {
			before, _ := strconv.Atoi(value)
			if after, _ := strconv.Atoi(is[key]); after < before {
				t.Errorf("at %d, %s is %d after %d", version, key, after, before)
			}
		}
		was = is
		if is["end"] != "" {
			return events
		}
	}
	t.Error("the watch has ended")
	return events
}
