package background

import (
	"context"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/authz"
	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/resource"
	kindschema "flyball.dev/apiserver/schema"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// start starts the controllers over the built-in kinds in a storage, without a server.
func start(t *testing.T, of storage.Store, authentication Authentication) (c *Controllers, stop func()) {
	t.Helper()
	scheme := builtin.Scheme()
	all, err := kinds.NewLazy(kinds.Options{
		Scheme: scheme, Codecs: builtin.Codecs(),
		Storage:       store.RESTOptions(store.Options{Storage: of, Codec: builtin.StorageCodec, Default: scheme.Default}),
		TypeConverter: kindschema.TypeConverter(scheme),
		Authorizer:    authz.AlwaysAllow{},
	}, builtin.Sets(builtin.Options{Authorizer: authz.AlwaysAllow{}}))
	if err != nil {
		t.Fatal(err)
	}
	catalog := &resource.Catalog{}
	catalog.SetLazy("built-in", all)
	stopping, cancel := context.WithCancel(context.Background())
	c = New(stopping, Config{Storage: of, Catalog: catalog, Exclusive: func(f func()) {
		if stopping.Err() == nil {
			f()
		}
	}, RBAC: true, ServiceNetwork: core.DefaultServiceNetwork, Authentication: authentication})
	stop = func() {
		cancel()
		c.Wait()
	}
	t.Cleanup(stop)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, stop
}

// keeping has the controllers of a test that changes the server's own objects.
type keeping struct {
	*objects
	t    *testing.T
	stop func()
}

// newKeeping starts the controllers in a bubble.
func newKeeping(t *testing.T, authentication Authentication) *keeping {
	t.Helper()
	storage := memory.New(memory.Options{})
	t.Cleanup(func() { storage.Close() })
	c, stop := start(t, storage, authentication)
	synctest.Wait()
	return &keeping{c.objects, t, stop}
}

// get returns an object when the server has come to rest, without time having passed, or nil.
func (k *keeping) get(gvr schema.GroupVersionResource, namespace, name string) kinds.Object {
	k.t.Helper()
	synctest.Wait()
	obj, err := k.registry(gvr).(rest.Getter).Get(request.WithNamespace(context.Background(), namespace), name, &metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return obj.(kinds.Object)
}

func (k *keeping) change(gvr schema.GroupVersionResource, namespace, name string, change func(runtime.Object)) {
	k.t.Helper()
	if err := k.replace(gvr, namespace, name, change); err != nil {
		k.t.Fatal(err)
	}
}

func (k *keeping) delete(gvr schema.GroupVersionResource, namespace, name string) {
	k.t.Helper()
	if err := k.remove(gvr, namespace, name, nil); err != nil {
		k.t.Fatal(err)
	}
}
