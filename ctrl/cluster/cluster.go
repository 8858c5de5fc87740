// Package cluster combines what a program needs to work with one API server: a cache, a client that
// reads from it, a mapper and event recorders, all with one HTTP client.
//
// A manager is a cluster. A program that works with further API servers creates a cluster for each,
// and adds it to the manager as a runnable.
//
// A request gets a child span if its context has an OpenTelemetry span. The context of a reconcile has
// one if there is a tracer provider. The child span is of the same provider: with method, resource and
// status, but without headers, query and bodies. The header traceparent propagates it to the server.
// Requests without a span have no overhead.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	intrecorder "flyball.dev/ctrl/internal/recorder"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/recorder"
)

// Cluster is the access to one API server. It is safe for concurrent use.
type Cluster interface {
	recorder.Provider

	// GetHTTPClient returns the HTTP client that carries all requests.
	GetHTTPClient() *http.Client

	// GetConfig returns the config that was passed to New.
	GetConfig() *rest.Config

	// GetCache returns the cache.
	GetCache() cache.Cache

	// GetScheme returns the scheme, which maps Go types to kinds.
	GetScheme() *runtime.Scheme

	// GetClient returns the client, which by default reads from the cache and
	// writes to the server.
	GetClient() client.Client

	// GetFieldIndexer returns the indexer of the cache.
	GetFieldIndexer() client.FieldIndexer

	// GetRESTMapper returns the mapper of kinds to resources.
	GetRESTMapper() meta.RESTMapper

	// GetAPIReader returns a client that reads from the server. It is slower,
	// and puts load on the server, but works before the cache has started.
	GetAPIReader() client.Reader

	// Start runs the cache and writes recorded events until ctx is done. Then it writes the queued
	// events, for a few seconds at most, and returns. It must not be called more than once.
	Start(ctx context.Context) error
}

// Options are the options of a cluster. The defaults are created from the rest.Config.
type Options struct {
	// Scheme maps Go types to kinds. client-go's scheme if nil.
	Scheme *runtime.Scheme

	// MapperProvider creates the mapper. apiutil.NewDynamicRESTMapper if nil.
	MapperProvider func(c *rest.Config, httpClient *http.Client) (meta.RESTMapper, error)

	// Logger is the logger of the cluster.
	Logger logr.Logger

	// HTTPClient sends all requests. If it is set, they have no spans.
	HTTPClient *http.Client

	// Cache are the options of the cache. Scheme, mapper and HTTP client are
	// the cluster's unless they are set.
	Cache cache.Options

	// NewCache creates the cache. cache.New if nil. A wrapper of a cache from cache.New must embed
	// it in a struct, so that the client reads its own writes; see package client.
	NewCache cache.NewCacheFunc

	// Client are the options of the client. Scheme, mapper, HTTP client and
	// cache are the cluster's unless they are set.
	Client client.Options

	// NewClient creates the client. client.New if nil.
	NewClient client.NewClientFunc

	// EventBroadcaster writes the events of the core API, instead of the cluster.
	//
	// Deprecated: the caller must shut it down, after the cluster.
	EventBroadcaster record.EventBroadcaster
}

// Option changes Options.
type Option func(*Options)

// New returns a cluster for the server of config. It makes no request and starts nothing.
func New(config *rest.Config, opts ...Option) (Cluster, error) {
	if config == nil {
		return nil, errors.New("must specify Config")
	}
	c := &cluster{config: config}
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	config.Wrap(withSpans)
	o := Options{}
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.setDefaults(config); err != nil {
		return nil, err
	}
	c.http, c.scheme, c.log = o.HTTPClient, o.Scheme, o.Logger
	var err error
	if c.mapper, err = o.MapperProvider(config, c.http); err != nil {
		return nil, err
	}
	if c.cache, err = o.NewCache(config, c.cacheOptions(o.Cache)); err != nil {
		return nil, err
	}
	if c.client, err = o.NewClient(config, c.clientOptions(o.Client)); err != nil {
		return nil, err
	}
	live := client.Options{HTTPClient: c.http, Scheme: c.scheme, Mapper: c.mapper}
	if c.live, err = client.New(config, live); err != nil {
		return nil, err
	}
	c.Provider, err = intrecorder.New(intrecorder.Options{
		Config:      config,
		HTTPClient:  c.http,
		Scheme:      c.scheme,
		Logger:      c.log.WithName("events"),
		Broadcaster: o.EventBroadcaster,
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (o *Options) setDefaults(config *rest.Config) (err error) {
	if o.HTTPClient == nil {
		if o.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return err
		}
	}
	if o.Scheme == nil {
		o.Scheme = clientgoscheme.Scheme
	}
	if o.MapperProvider == nil {
		o.MapperProvider = apiutil.NewDynamicRESTMapper
	}
	if o.NewCache == nil {
		o.NewCache = cache.New
	}
	if o.NewClient == nil {
		o.NewClient = client.New
	}
	if o.Logger.IsZero() {
		o.Logger = log.Current().WithName("cluster")
	}
	return nil
}

// cluster implements Cluster. The embedded provider has the methods for recorders.
type cluster struct {
	*intrecorder.Provider

	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	mapper meta.RESTMapper
	cache  cache.Cache
	client client.Client
	live   client.Reader
	log    logr.Logger
}

var _ Cluster = (*cluster)(nil)

// setDefaults sets the options that caches and clients share, unless they are set, to the parts of
// the cluster.
func (c *cluster) setDefaults(http **http.Client, scheme **runtime.Scheme, mapper *meta.RESTMapper) {
	*http = cmp.Or(*http, c.http)
	*scheme = cmp.Or(*scheme, c.scheme)
	*mapper = cmp.Or(*mapper, c.mapper)
}

// cacheOptions sets the defaults of the cache's options to the parts of the cluster.
func (c *cluster) cacheOptions(o cache.Options) cache.Options {
	c.setDefaults(&o.HTTPClient, &o.Scheme, &o.Mapper)
	return o
}

// clientOptions sets the defaults of the client's options to the parts of the cluster.
func (c *cluster) clientOptions(o client.Options) client.Options {
	c.setDefaults(&o.HTTPClient, &o.Scheme, &o.Mapper)
	// The caller's options must not be changed.
	reads := client.CacheOptions{}
	if o.Cache != nil {
		reads = *o.Cache
	}
	if reads.Reader == nil {
		reads.Reader = c.cache
	}
	o.Cache = &reads
	return o
}

func (c *cluster) GetHTTPClient() *http.Client          { return c.http }
func (c *cluster) GetConfig() *rest.Config              { return c.config }
func (c *cluster) GetCache() cache.Cache                { return c.cache }
func (c *cluster) GetScheme() *runtime.Scheme           { return c.scheme }
func (c *cluster) GetClient() client.Client             { return c.client }
func (c *cluster) GetFieldIndexer() client.FieldIndexer { return c.cache }
func (c *cluster) GetRESTMapper() meta.RESTMapper       { return c.mapper }
func (c *cluster) GetAPIReader() client.Reader          { return c.live }

// GetLogger returns the logger, for the manager.
func (c *cluster) GetLogger() logr.Logger { return c.log }

// Start runs the cluster.
func (c *cluster) Start(ctx context.Context) error {
	// The recorder stops after the cache, as readers of the cache may record events while they stop.
	delivering, stop := context.WithCancel(context.WithoutCancel(ctx))
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		c.Provider.Run(delivering)
	}()
	defer func() {
		stop()
		<-delivered
	}()
	return c.cache.Start(ctx)
}
