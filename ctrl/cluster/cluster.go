// Package cluster puts together what a program needs to work with one API
// server: a cache, a client that reads from it, a mapper and event recorders,
// all on one HTTP client.
//
// A manager is a cluster and more. A program that works with further API servers
// makes a cluster for each, and adds it to the manager as a runnable.
//
// A request that is made with a context that is within an OpenTelemetry span, as
// a reconcile's is if there is a tracer provider, has a span below that one, of
// the same provider: with method, resource and status, but nothing of headers,
// query and bodies. The server is told of it by the header traceparent. Requests
// outside of spans cost nothing more.
package cluster

import (
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

// Cluster is one API server and what is needed to work with it. It is safe for
// concurrent use.
type Cluster interface {
	recorder.Provider

	// GetHTTPClient returns the HTTP client that carries all requests.
	GetHTTPClient() *http.Client

	// GetConfig returns the config that the cluster was made with.
	GetConfig() *rest.Config

	// GetCache returns the cache.
	GetCache() cache.Cache

	// GetScheme returns the scheme that tells the kinds of Go types.
	GetScheme() *runtime.Scheme

	// GetClient returns the client, which by default reads from the cache and
	// writes to the server.
	GetClient() client.Client

	// GetFieldIndexer returns what adds indexes to the cache.
	GetFieldIndexer() client.FieldIndexer

	// GetRESTMapper returns the mapper that tells the resources of kinds.
	GetRESTMapper() meta.RESTMapper

	// GetAPIReader returns a client that reads from the server. It is slower,
	// and puts load on the server, but works before the cache has started.
	GetAPIReader() client.Reader

	// Start runs the cache and delivers events until ctx is done. Then it
	// delivers the events that still wait, for a few seconds at most, and
	// returns. It must be called no more than once.
	Start(ctx context.Context) error
}

// Options are the options of a cluster. What is not set is made from the
// rest.Config.
type Options struct {
	// Scheme tells the kinds of Go types. client-go's scheme if nil.
	Scheme *runtime.Scheme

	// MapperProvider makes the mapper. apiutil.NewDynamicRESTMapper if nil.
	MapperProvider func(c *rest.Config, httpClient *http.Client) (meta.RESTMapper, error)

	// Logger is the logger of the cluster.
	Logger logr.Logger

	// HTTPClient carries all requests. Those of one that is set here have no
	// spans.
	HTTPClient *http.Client

	// Cache are the options of the cache. Scheme, mapper and HTTP client are
	// the cluster's unless they are set.
	Cache cache.Options

	// NewCache makes the cache. cache.New if nil. One that wraps what cache.New
	// returns embeds it in a struct, so that the client reads its own writes; see
	// package client.
	NewCache cache.NewCacheFunc

	// Client are the options of the client. Scheme, mapper, HTTP client and
	// cache are the cluster's unless they are set.
	Client client.Options

	// NewClient makes the client. client.New if nil.
	NewClient client.NewClientFunc

	// EventBroadcaster delivers the events of the core API, instead of the
	// cluster.
	//
	// Deprecated: whoever sets it must shut it down, after the cluster.
	EventBroadcaster record.EventBroadcaster
}

// Option changes Options.
type Option func(*Options)

// New returns a cluster for the server that config describes. It makes no
// request yet, and starts nothing.
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
	if c.live, err = client.New(config, client.Options{HTTPClient: c.http, Scheme: c.scheme, Mapper: c.mapper}); err != nil {
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
		o.Logger = log.Log.WithName("cluster")
	}
	return nil
}

// cluster gets its recorders' methods from the provider.
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

// cacheOptions fills in what the cache shares with the rest of the cluster.
func (c *cluster) cacheOptions(o cache.Options) cache.Options {
	if o.Scheme == nil {
		o.Scheme = c.scheme
	}
	if o.Mapper == nil {
		o.Mapper = c.mapper
	}
	if o.HTTPClient == nil {
		o.HTTPClient = c.http
	}
	return o
}

// clientOptions fills in what the client shares with the rest of the cluster.
func (c *cluster) clientOptions(o client.Options) client.Options {
	if o.Scheme == nil {
		o.Scheme = c.scheme
	}
	if o.Mapper == nil {
		o.Mapper = c.mapper
	}
	if o.HTTPClient == nil {
		o.HTTPClient = c.http
	}
	// The caller's own cache options stay as they are.
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
	// Events are delivered for longer than the cache runs: whoever reads from
	// it may record some as they stop.
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
