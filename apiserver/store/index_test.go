package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// counting is a memory store that counts the ranges by an index.
type counting struct {
	*memory.Store
	byIndex int
}

func (c *counting) Range(ctx context.Context, q storage.Query) (storage.Page, error) {
	if q.Index != "" {
		c.byIndex++
	}
	return c.Store.Range(ctx, q)
}

// podAttributes are the attributes of a pod.
func podAttributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod := obj.(*corev1.Pod)
	return pod.Labels, fields.Set{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace,
		"spec.nodeName": pod.Spec.NodeName, "status.phase": string(pod.Status.Phase)}, nil
}

// TestIndexedField compares lists of the pods on a node, from a store with an index and from one without, over the same
// backend: together with other selectors, with limits, after updates and deletions, and of pods that are stored as JSON.
func TestIndexedField(t *testing.T) {
	backend := &counting{Store: memory.New(memory.Options{})}
	defer backend.Close()
	config := podConfig
	config.Codec = builtin.StorageCodec(corev1.Resource("pods")) // which decodes JSON
	without := store.New(backend, config)
	config.Indexed = []string{"spec.nodeName", "spec.no.such"}
	with := store.New(backend, config)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 200 {
		pod := newPod(i)
		pod.Spec.NodeName = []string{"", "a", "b", "aa"}[random.IntN(4)]
		if i%5 == 0 {
			pod.APIVersion, pod.Kind = "v1", "Pod"
			value, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := backend.Put(t.Context(), storage.Write{Key: podKey(pod), Value: value}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		createPod(t, with, pod)
	}
	for i := 0; i < 200; i += 3 {
		key := podKey(newPod(i))
		if i%2 == 0 {
			deletePod(t, with, key)
			continue
		}
		updatePod(t, without, key, func(pod *corev1.Pod) { pod.Spec.NodeName = []string{"", "a", "b"}[random.IntN(3)] })
	}
	names := func(s *store.Store, path string, o apistorage.ListOptions) (names []string) {
		t.Helper()
		for {
			list := listPods(t, s, path, o)
			for _, pod := range list.Items {
				names = append(names, fmt.Sprint(pod.Namespace, "/", pod.Name, " ", pod.ResourceVersion))
			}
			if list.Continue == "" {
				return names
			}
			o.Predicate.Continue, o.ResourceVersion = list.Continue, ""
		}
	}
	selected := 0
	for _, node := range []string{"spec.nodeName=a", "spec.nodeName=b", "spec.nodeName=", "spec.nodeName=none", "spec.nodeName!=a", "spec.nodeName=a,spec.nodeName=b",
		"spec.nodeName=a,spec.nodeName!=a", "spec.nodeName=a,status.phase=Running", "spec.nodeName=b,status.phase!=Running", "spec.nodeName=a,metadata.namespace=ns-3"} {
		for _, label := range []string{"", "shard=3", "app=web,shard in (1,2,33)", "!app"} {
			for _, path := range []string{"/core/pods", "/core/pods/ns-3"} {
				for _, limit := range []int64{0, 3} {
					byLabel, err := labels.Parse(label)
					if err != nil {
						t.Fatal(err)
					}
					o := apistorage.ListOptions{Predicate: apistorage.SelectionPredicate{Label: byLabel, Field: fields.ParseSelectorOrDie(node),
						GetAttrs: podAttributes, Limit: limit}}
					got, want := names(with, path, o), names(without, path, o)
					selected += len(want)
					if !slices.Equal(got, want) {
						t.Errorf("%s and %q in %s with limit %d are %v, want %v", node, label, path, limit, got, want)
					}
				}
			}
		}
	}
	if selected < 500 || backend.byIndex < 100 {
		t.Errorf("%d pods were selected, and the index was used %d times", selected, backend.byIndex)
	}
}

// TestWatchByIndex: the initial events of a watch of the pods on a node come from the index, and the watch follows the
// pods.
func TestWatchByIndex(t *testing.T) {
	backend := &counting{Store: memory.New(memory.Options{})}
	defer backend.Close()
	config := podConfig
	config.Indexed = []string{"spec.nodeName"}
	s := store.New(backend, config)
	for i := range 100 {
		createPod(t, s, newPod(i)) // on node i%50
	}
	w, err := s.Watch(t.Context(), "/core/pods", apistorage.ListOptions{Recursive: true, Predicate: apistorage.SelectionPredicate{
		Label: labels.Everything(), Field: fields.ParseSelectorOrDie("spec.nodeName=node-7"), GetAttrs: podAttributes}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	want := func(kind watch.EventType, i int) {
		t.Helper()
		e := receive(t, w)
		got := &corev1.Pod{}
		if o, ok := e.Object.(runtime.CacheableObject); ok {
			got = o.GetObject().(*corev1.Pod)
		}
		if e.Type != kind || got.Name != newPod(i).Name {
			t.Errorf("the event is %s %s, want %s %s", e.Type, got.Name, kind, newPod(i).Name)
		}
	}
	want(watch.Added, 7)
	want(watch.Added, 57)
	updatePod(t, s, podKey(newPod(57)), func(pod *corev1.Pod) { pod.Spec.NodeName = "other" })
	updatePod(t, s, podKey(newPod(3)), func(pod *corev1.Pod) { pod.Spec.NodeName = "node-7" })
	want(watch.Deleted, 57)
	want(watch.Added, 3)
	if backend.byIndex != 1 {
		t.Errorf("the index was used %d times", backend.byIndex)
	}
}
