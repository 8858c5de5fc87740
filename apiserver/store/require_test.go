package store_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestRequire checks that the store calls Require again if another write interferes, and never calls it for updates.
func TestRequire(t *testing.T) {
	ctx := t.Context()
	backend := memory.New(memory.Options{})
	defer backend.Close()
	refused := errors.New("refused")
	var asked []string
	var writes int // of the required record, before the object's
	var last error
	c := podConfig
	c.Require = func(ctx context.Context, namespace, name string) ([]storage.Condition, error) {
		asked = append(asked, namespace+"/"+name)
		if writes == 0 && last != nil {
			return nil, last
		}
		r, err := backend.Put(ctx, storage.Write{Key: "/parent", If: storage.Any})
		if err == nil && writes > 0 {
			writes--
			_, err = backend.Put(ctx, storage.Write{Key: "/parent", If: storage.Any})
		}
		if err != nil {
			return nil, err
		}
		return []storage.Condition{{Key: "/parent", If: r.Revision}}, nil
	}
	s := store.New(backend, c)
	create := func(pod *corev1.Pod, before int, end error) (times int, err error) {
		asked, writes, last = nil, before, end
		err = s.Create(ctx, podKey(pod), pod, &corev1.Pod{}, 0)
		for _, who := range asked {
			if who != pod.Namespace+"/"+pod.Name {
				t.Errorf("asked for %s", who)
			}
		}
		return len(asked), err
	}
	if n, err := create(newPod(1), 0, nil); n != 1 || err != nil {
		t.Errorf("created: asked %d times, %v", n, err)
	}
	if n, err := create(newPod(2), 3, nil); n != 4 || err != nil {
		t.Errorf("three writes came between: asked %d times, %v", n, err)
	}
	if n, err := create(newPod(3), 2, refused); n != 3 || !errors.Is(err, refused) {
		t.Errorf("refused after two writes: asked %d times, %v", n, err)
	}
	if n, err := create(newPod(1), 0, nil); n != 1 || !apistorage.IsExist(err) {
		t.Errorf("of one that exists: asked %d times, %v", n, err)
	}

	update := func(pod *corev1.Pod) error {
		asked, writes, last = nil, 0, refused
		return s.GuaranteedUpdate(ctx, podKey(pod), &corev1.Pod{}, true, nil,
			func(obj runtime.Object, _ apistorage.ResponseMeta) (runtime.Object, *uint64, error) {
				old := obj.(*corev1.Pod)
				pod.Labels, pod.ResourceVersion = map[string]string{"a": "b"}, old.ResourceVersion
				return pod, nil, nil
			}, nil)
	}
	if err := update(newPod(1)); err != nil || len(asked) > 0 {
		t.Errorf("updated: asked %d times, %v", len(asked), err)
	}
	if err := update(newPod(4)); !errors.Is(err, refused) {
		t.Errorf("created by an update: %v", err)
	}
}
