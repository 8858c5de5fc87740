package client_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/fakeapi"
)

// countingReader counts the reads of a cache.
type countingReader struct{ reads *[]string }

func (r countingReader) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	*r.reads = append(*r.reads, "get "+key.Name)
	return nil
}

func (r countingReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	*r.reads = append(*r.reads, "list")
	return nil
}

func TestDelegatingClient(t *testing.T) {
	server := fakeapi.New(corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Secret"))
	live, err := client.New(&rest.Config{Host: "http://server", Transport: server}, client.Options{Mapper: server.Mapper()})
	if err != nil {
		t.Fatal(err)
	}
	var reads []string
	c, err := client.NewDelegatingClient(client.NewDelegatingClientInput{
		CacheReader: countingReader{&reads}, Client: live, UncachedObjects: []client.Object{&corev1.Secret{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	pods := &unstructured.UnstructuredList{}
	pods.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "PodList"})
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}, pods} {
		if err := c.List(t.Context(), list); err != nil {
			t.Error(err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "x"}, &corev1.Pod{}); err != nil {
		t.Error(err)
	}
	if want := []string{"list", "get x"}; !slices.Equal(reads, want) {
		t.Errorf("read %v from the cache, want %v", reads, want)
	}
	if n := len(server.Requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}

	if _, err := client.NewDelegatingClient(client.NewDelegatingClientInput{Client: live}); err == nil {
		t.Error("no error without a cache")
	}
}
