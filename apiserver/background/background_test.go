package background

import (
	"context"
	"testing"

	"flyball.dev/apiserver/authz"
	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/schema"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
)

// start starts the controllers over the built-in kinds in a storage, without a server.
func start(t *testing.T, of storage.Store, authentication Authentication) (c *Controllers, stop func()) {
	t.Helper()
	scheme := builtin.Scheme()
	all, err := kinds.NewLazy(kinds.Options{
		Scheme: scheme, Codecs: builtin.Codecs(),
		Storage:       store.RESTOptions(store.Options{Storage: of, Codec: builtin.StorageCodec, Default: scheme.Default}),
		TypeConverter: schema.TypeConverter(scheme),
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
