package kinds_test

import (
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/resource"
	kindschema "flyball.dev/apiserver/schema"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage/memory"
)

type gvr = schema.GroupVersionResource

// TestLazy checks that a fork has the same resources as its origin, that concurrent callers get the same resource, and that only
// the kinds are made that share state with the looked-up one.
func TestLazy(t *testing.T) {
	storage := memory.New(memory.Options{})
	defer storage.Close()
	o := kinds.Options{
		Scheme: builtin.Scheme(), Codecs: builtin.Codecs(), TypeConverter: kindschema.TypeConverter(builtin.Scheme()),
		Storage: store.RESTOptions(store.Options{Storage: storage, Codec: builtin.StorageCodec}),
	}
	origin, err := kinds.NewLazy(o, builtin.Sets(builtin.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	fork := origin.Fork(o, builtin.Sets(builtin.Options{}))
	if made := slices.Collect(fork.Made()); len(made) > 0 {
		t.Errorf("%d resources were made before their use", len(made))
	}
	names := fork.Names()
	pods := names[slices.IndexFunc(names, func(n gvr) bool { return n.Resource == "pods" })]
	var found [8]*resource.Resource
	var callers sync.WaitGroup
	for i := range found {
		callers.Go(func() { found[i] = fork.Resource(pods) })
	}
	callers.Wait()
	for _, r := range found {
		if r != found[0] || r == origin.Resource(pods) {
			t.Errorf("found %p, want %p; the origin has %p", r, found[0], origin.Resource(pods))
		}
	}
	var made []string
	for r := range fork.Made() {
		made = append(made, r.Name)
	}
	if want := []string{"pods", "bindings", "poddisruptionbudgets"}; !slices.Equal(made, want) {
		t.Errorf("made %v, want %v", made, want)
	}
	if fork.Resource(gvr{Group: "example.com", Version: "v1", Resource: "pods"}) != nil {
		t.Error("there is a resource of another group")
	}
	for _, name := range names {
		is, want := fork.Resource(name), origin.Resource(name)
		if is.GroupVersionResource() != name || is.Kind != want.Kind || is.Singular != want.Singular || len(is.Subresources) != len(want.Subresources) {
			t.Errorf("%s is %s with %d subresources, want %s with %d", name, is.Kind, len(is.Subresources), want.Kind, len(want.Subresources))
		}
	}
}
