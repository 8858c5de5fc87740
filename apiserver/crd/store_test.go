package crd

import (
	"context"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"flyball.dev/apiserver/resource"
	"flyball.dev/storage/memory"
)

// TestStaleWrites writes a definition while another write of it is computed: the lock is free, and
// the other write is computed again, once.
func TestStaleWrites(t *testing.T) {
	backend := memory.New(memory.Options{})
	defer backend.Close()
	k, err := New(Options{Storage: backend, Catalog: &resource.Catalog{}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	key, out := k.store.root+"/apps.example.com", &apiextensions.CustomResourceDefinition{}
	if err := k.store.Create(t.Context(), key, everythingDefinition(t), out, 0); err != nil {
		t.Fatal(err)
	}
	label := func(name string) error {
		return k.store.GuaranteedUpdate(t.Context(), key, &apiextensions.CustomResourceDefinition{}, false, nil,
			storage.SimpleUpdate(func(in runtime.Object) (runtime.Object, error) {
				crd := in.DeepCopyObject().(*apiextensions.CustomResourceDefinition)
				crd.SetLabels(map[string]string{name: ""})
				return crd, nil
			}), nil)
	}
	computed := 0
	err = k.store.GuaranteedUpdate(t.Context(), key, out, false, nil,
		storage.SimpleUpdate(func(in runtime.Object) (runtime.Object, error) {
			if computed++; computed == 1 {
				if err := label("first"); err != nil {
					return nil, err
				}
			}
			crd := in.DeepCopyObject().(*apiextensions.CustomResourceDefinition)
			crd.Annotations = map[string]string{"second": ""}
			return crd, nil
		}), nil)
	_, labelled := out.Labels["first"]
	_, annotated := out.Annotations["second"]
	if err != nil || computed != 2 || !labelled || !annotated {
		t.Errorf("update: %v; computed %d times: labels %v, annotations %v", err, computed, out.Labels, out.Annotations)
	}

	computed = 0
	err = k.store.Delete(t.Context(), key, out, nil, func(context.Context, runtime.Object) error {
		if computed++; computed == 1 {
			return label("third")
		}
		return nil
	}, nil, storage.DeleteOptions{})
	if err != nil || computed != 2 || k.definitions["apps.example.com"] != nil {
		t.Errorf("deletion: %v; validated %d times", err, computed)
	}
	if groups := k.options.Catalog.Snapshot().Groups(); len(groups) != 1 {
		t.Errorf("%d groups are served after the deletion", len(groups))
	}
}
