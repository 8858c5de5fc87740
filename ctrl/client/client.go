package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/overlay"
	"flyball.dev/ctrl/log"
)

// Options are the options of a client. The client of the zero value reads from the server, has the
// built-in kinds in its scheme and uses discovery.
type Options struct {
	// HTTPClient sends the requests. If nil, it is created from the rest.Config.
	HTTPClient *http.Client

	// Scheme maps Go types to kinds. client-go's scheme if nil.
	Scheme *runtime.Scheme

	// Mapper maps kinds to resources. apiutil.NewDynamicRESTMapper if nil.
	Mapper meta.RESTMapper

	// Cache, if not nil, makes the client read from a cache.
	Cache *CacheOptions

	// DryRun makes every write a dry run.
	DryRun *bool

	// FieldOwner is the field manager of writes that do not name another.
	FieldOwner string

	// FieldValidation is how the server handles unknown and duplicate fields in writes that do not
	// set it themselves: "Ignore", "Warn" or "Strict". Applies are always strict.
	FieldValidation string

	// Log logs what a method cannot return to its caller. Log of package log by default.
	Log logr.Logger
}

// CacheOptions select the reads from a cache. Writes always go to the server.
type CacheOptions struct {
	// Reader is the cache. Without it everything is read from the server.
	Reader Reader
	// DisableFor holds an object of each kind that is read from the server.
	DisableFor []Object
	// Unstructured enables reads of unstructured objects from the cache.
	Unstructured bool

	// EnableReadYourWritesConsistency makes reads from the cache include this client's writes as
	// soon as they have returned; see Reading one's own writes above. The Reader must be a cache of
	// package cache or embed one. Otherwise New logs that reads may be stale if the option is nil,
	// and fails if it is true. If nil, it is enabled where it is possible.
	EnableReadYourWritesConsistency *bool
}

// NewClientFunc creates a client.
type NewClientFunc func(config *rest.Config, options Options) (Client, error)

// New returns a client for the server of config. It makes no request and does not change config.
//
// The client works with typed objects of the kinds in the scheme, and with unstructured and
// metadata-only objects, which have their kind set. Typed objects of built-in kinds are encoded as
// protobuf if their Go types implement it, all others as JSON. The apiVersion and kind of an object
// that is read into are preserved.
//
// Warnings of the server are logged to the logger in the context, unless config has a warning
// handler.
func New(config *rest.Config, options Options) (Client, error) {
	c, err := newClient(config, options)
	if err != nil {
		return nil, err
	}
	return withDefaults(c, options), nil
}

// NewWithWatch returns a client like the one of New that can also watch.
func NewWithWatch(config *rest.Config, options Options) (WithWatch, error) {
	c, err := newClient(config, options)
	if err != nil {
		return nil, err
	}
	return watching{Client: withDefaults(c, options), watcher: c}, nil
}

// watching is a client that may be wrapped for all methods but Watch.
type watching struct {
	Client
	watcher
}

func withDefaults(c Client, options Options) Client {
	d := writeDefaults{
		dryRun:     ptr.Deref(options.DryRun, false),
		owner:      options.FieldOwner,
		validation: options.FieldValidation,
	}
	if d == (writeDefaults{}) {
		return c
	}
	return &defaulting{Client: c, writeDefaults: d}
}

// client sends requests to the server. The other clients of the package wrap it.
type client struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	mapper meta.RESTMapper
	log    logr.Logger

	contextMapper meta.RESTMapperWithContext // is mapper

	cache             Reader
	cacheUnstructured bool
	live              map[schema.GroupVersionKind]bool
	writes            overlay.Writes // nil without read-your-writes consistency

	resources     sync.Map // reflect.Type or resourceKey → *resource
	invalidations rate.Sometimes
}

var _ WithWatch = (*client)(nil)

// newClient returns a client for the API server without a cache. Missing options are derived from
// the config.
func newClient(config *rest.Config, options Options) (*client, error) {
	if config == nil {
		return nil, errors.New("must provide non-nil rest.Config to client.New")
	}
	c := &client{
		config: rest.CopyConfig(config),
		http:   options.HTTPClient,
		scheme: options.Scheme,
		mapper: options.Mapper,
		log:    options.Log,

		invalidations: rate.Sometimes{First: 10, Interval: time.Second},
	}
	if c.config.UserAgent == "" {
		c.config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if c.config.WarningHandler == nil && c.config.WarningHandlerWithContext == nil {
		c.config.WarningHandlerWithContext = log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{})
	}
	if c.scheme == nil {
		c.scheme = clientgoscheme.Scheme
	}
	c.codecs = serializer.NewCodecFactory(c.scheme)
	if c.log.IsZero() {
		c.log = log.Current().WithName("client")
	}
	var err error
	if c.http == nil {
		if c.http, err = rest.HTTPClientFor(c.config); err != nil {
			return nil, err
		}
	}
	if c.mapper == nil {
		if c.mapper, err = apiutil.NewDynamicRESTMapper(c.config, c.http); err != nil {
			return nil, err
		}
	}
	c.contextMapper = meta.ToRESTMapperWithContext(c.mapper)
	if options.Cache != nil && options.Cache.Reader != nil {
		return c, c.readFrom(options.Cache)
	}
	return c, nil
}

// readFrom makes the client read from a cache.
func (c *client) readFrom(o *CacheOptions) error {
	c.cache = o.Reader
	c.cacheUnstructured = o.Unstructured
	c.live = map[schema.GroupVersionKind]bool{}
	for _, obj := range o.DisableFor {
		gvk, err := c.GroupVersionKindFor(obj)
		if err != nil {
			return err
		}
		c.live[singular(obj, gvk)] = true
	}
	if ptr.Deref(o.EnableReadYourWritesConsistency, true) {
		switch c.writes = overlay.Find(o.Reader); {
		case c.writes != nil:
		case o.EnableReadYourWritesConsistency != nil:
			return fmt.Errorf("cache reader %T neither is a cache of package cache nor embeds one, "+
				"can not provide ReadYourWritesConsistency", o.Reader)
		default:
			c.log.Info("The cache reader neither is a cache of package cache nor embeds one, "+
				"so reads may not include this client's own writes", "cache", fmt.Sprintf("%T", o.Reader))
		}
	}
	return nil
}

// GroupVersionKindFor returns the kind of obj.
func (c *client) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.scheme)
}

// IsObjectNamespaced reports whether objects of obj's kind live in namespaces.
func (c *client) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	return apiutil.IsObjectNamespaced(obj, c.scheme, c.mapper)
}

// Scheme returns the client's scheme.
func (c *client) Scheme() *runtime.Scheme { return c.scheme }

// RESTMapper returns the client's mapper.
func (c *client) RESTMapper() meta.RESTMapper { return c.mapper }

// Status is SubResource("status").
func (c *client) Status() SubResourceWriter { return c.SubResource("status") }

// SubResource returns a client for a subresource.
func (c *client) SubResource(subResource string) SubResourceClient {
	return &subResourceClient{client: c, name: subResource}
}

// itemKind returns the kind of the items of a list of kind gvk. It returns any other kind
// unchanged.
func itemKind(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	return gvk
}
