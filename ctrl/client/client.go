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

// Options are the options of a new client. The zero value is a client that
// reads from the server, knows the built-in kinds and finds out the rest.
type Options struct {
	// HTTPClient carries the requests. If nil, one is made of the rest.Config,
	// whose Transport it then uses.
	HTTPClient *http.Client

	// Scheme tells the kinds of Go types. client-go's scheme if nil.
	Scheme *runtime.Scheme

	// Mapper tells the resources of kinds. If nil, the client asks the server.
	Mapper meta.RESTMapper

	// Cache, if it is set, is where the client reads from.
	Cache *CacheOptions

	// DryRun makes every write a dry run.
	DryRun *bool

	// FieldOwner is the field manager of writes that do not name another.
	FieldOwner string

	// FieldValidation is what the server does about unknown and duplicate
	// fields in writes that do not say it themselves: "Ignore", "Warn" or
	// "Strict". Applies are always strict.
	FieldValidation string

	// Log is for what a method cannot return to its caller. Log of package log
	// if it is not set.
	Log logr.Logger
}

// CacheOptions say what is read from a cache. Writes always go to the server.
type CacheOptions struct {
	// Reader is the cache. Without it everything is read from the server.
	Reader Reader
	// DisableFor holds an object of each kind that is read from the server.
	DisableFor []Object
	// Unstructured makes unstructured objects be read from the cache too.
	Unstructured bool

	// EnableReadYourWritesConsistency makes reads from the cache include what
	// this client has written, from the moment that the write returned; see
	// Reading one's own writes above. Nil means true for a Reader that can do it,
	// as those of package cache can and what embeds one; for another, New logs
	// that it cannot. If it is true and the Reader cannot do it, New fails.
	EnableReadYourWritesConsistency *bool
}

// NewClientFunc makes a client.
type NewClientFunc func(config *rest.Config, options Options) (Client, error)

// New returns a client for the server that config describes. It makes no request
// yet, and does not change config.
//
// The client works with typed objects, whose kinds are in the scheme, with
// unstructured ones and with those that hold only the metadata, which say their
// kind themselves. Typed objects of built-in kinds are sent and asked for as
// protobuf if their Go types implement it, all others as JSON. An object keeps the
// apiVersion and kind that it came with.
//
// Warnings from the server are logged to the logger in the context, unless
// config has a handler for them.
func New(config *rest.Config, options Options) (Client, error) {
	c, err := newClient(config, options)
	if err != nil {
		return nil, err
	}
	return withDefaults(c, options), nil
}

// NewWithWatch is New for a client that can watch.
func NewWithWatch(config *rest.Config, options Options) (WithWatch, error) {
	c, err := newClient(config, options)
	if err != nil {
		return nil, err
	}
	return watching{Client: withDefaults(c, options), watcher: c}, nil
}

// watching is a client whose other methods may be wrapped.
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

// client is the one that talks to the server. The rest of the package wraps it.
type client struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	mapper meta.RESTMapper
	log    logr.Logger

	cache             Reader
	cacheUnstructured bool
	live              map[schema.GroupVersionKind]bool
	writes            overlay.Writes // nil if nobody wants to know

	resources sync.Map // reflect.Type or resourceKey → *resource
	forgets   rate.Sometimes
}

var _ WithWatch = (*client)(nil)

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

		forgets: rate.Sometimes{First: 10, Interval: time.Second},
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
		c.log = log.Log.WithName("client")
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
			return errors.New("reads cannot include this client's own writes: the cache neither is one of package cache, nor embeds one")
		default:
			c.log.Info("Reads from the cache may be older than what this client has written: the cache neither is one of package cache, nor embeds one", "cache", fmt.Sprintf("%T", o.Reader))
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

// itemKind returns the kind of what a list of kind gvk holds; any other kind
// stays as it is.
func itemKind(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	return gvk
}
