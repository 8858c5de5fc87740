package cluster

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/fakeapi"
)

// unreachable returns a configuration with which all requests fail; it counts them.
func unreachable(n *int) *rest.Config {
	return &rest.Config{Host: "http://server", Transport: fakeapi.Func(func(*http.Request) (*http.Response, error) {
		*n++
		return nil, errors.New("no route to host")
	})}
}

func TestNewMakesNoRequests(t *testing.T) {
	requests := 0
	cfg := unreachable(&requests)
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if requests != 0 {
		t.Errorf("%d requests", requests)
	}
	if c.GetConfig() != cfg || cfg.UserAgent != "" {
		t.Error("the config is not as it was")
	}
	for name, got := range map[string]any{
		"http client":   c.GetHTTPClient(),
		"cache":         c.GetCache(),
		"scheme":        c.GetScheme(),
		"client":        c.GetClient(),
		"field indexer": c.GetFieldIndexer(),
		"mapper":        c.GetRESTMapper(),
		"API reader":    c.GetAPIReader(),
		"recorder":      c.GetEventRecorder("x"),
		//lint:ignore SA1019 part of the interface
		"core recorder": c.GetEventRecorderFor("x"),
	} {
		if got == nil {
			t.Errorf("no %s", name)
		}
	}
	if _, err := New(nil); err == nil {
		t.Error("no config, no error")
	}
}

// TestShares checks that all parts get the scheme, the mapper and the HTTP
// client of the cluster by default.
func TestShares(t *testing.T) {
	own := runtime.NewScheme()
	var cacheOpts cache.Options
	var clientOpts client.Options
	reads := &client.CacheOptions{Unstructured: true}
	mapper := meta.NewDefaultRESTMapper(nil)
	requests := 0
	c, err := New(unreachable(&requests), func(o *Options) {
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
		o.NewCache = func(_ *rest.Config, opts cache.Options) (cache.Cache, error) {
			cacheOpts = opts
			return &stubCache{}, nil
		}
		o.NewClient = func(cfg *rest.Config, opts client.Options) (client.Client, error) {
			clientOpts = opts
			return client.New(cfg, opts)
		}
		o.Client.Scheme = own
		o.Client.Cache = reads
	})
	if err != nil {
		t.Fatal(err)
	}
	if cacheOpts.Scheme != c.GetScheme() || cacheOpts.Mapper != mapper || cacheOpts.HTTPClient != c.GetHTTPClient() {
		t.Errorf("cache got %+v", cacheOpts)
	}
	if clientOpts.Scheme != own || clientOpts.Mapper != mapper || clientOpts.HTTPClient != c.GetHTTPClient() {
		t.Errorf("client got %+v", clientOpts)
	}
	if clientOpts.Cache.Reader != c.GetCache() || !clientOpts.Cache.Unstructured {
		t.Errorf("client reads from %+v", clientOpts.Cache)
	}
	if reads.Reader != nil {
		t.Error("the caller's options were changed")
	}
}

func TestErrorsOfParts(t *testing.T) {
	broken := errors.New("broken")
	for name, opt := range map[string]Option{
		"mapper": func(o *Options) {
			o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return nil, broken }
		},
		"cache": func(o *Options) {
			o.NewCache = func(*rest.Config, cache.Options) (cache.Cache, error) { return nil, broken }
		},
		"client": func(o *Options) {
			o.NewClient = func(*rest.Config, client.Options) (client.Client, error) { return nil, broken }
		},
	} {
		requests := 0
		if c, err := New(unreachable(&requests), opt); !errors.Is(err, broken) || c != nil {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}

// TestStart checks that the cache runs as long as the context, and that events
// which are recorded while it stops still arrive.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(corev1.SchemeGroupVersion.WithKind("Event"))
		cfg := &rest.Config{Host: "http://server", Transport: server}
		cfg.ContentType = "application/json"
		stopped := errors.New("stopped")
		stub := &stubCache{}
		c, err := New(cfg, func(o *Options) {
			o.NewCache = func(*rest.Config, cache.Options) (cache.Cache, error) { return stub, nil }
		})
		if err != nil {
			t.Fatal(err)
		}
		stub.start = func(ctx context.Context) error {
			<-ctx.Done()
			//lint:ignore SA1019 part of the interface
			c.GetEventRecorderFor("me").Event(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}, "Normal", "Last", "words")
			return stopped
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Start(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != stopped {
			t.Errorf("error %v", err)
		}
		if got := server.Requests(); len(got) != 1 || got[0].Method != "POST" || got[0].Path != "/api/v1/namespaces/a/events" {
			t.Errorf("wrote %v", got)
		}
	})
}

// stubCache is a cache. Only Start is called.
type stubCache struct {
	cache.Cache
	start func(context.Context) error
}

func (c *stubCache) Start(ctx context.Context) error { return c.start(ctx) }
