// Package wire lists and watches resources on the server. What arrives together is decoded on all
// cores and returned in the server's order.
//
// A watch is read by the goroutine that asks for its events. As long as events arrive one by one,
// that is all: there is no other goroutine and no hand-off. When much arrives at once, such as the
// initial events of a watch list, a goroutine reads ahead, cuts the stream into frames without
// copying them, and has them decoded in batches, with a goroutine per batch. It ends when the rest
// is small. The items of a list page are decoded the same way.
//
// The package parses the parts that all objects have in common: the watch event and the envelope
// around an object, the list around its items. Objects are decoded by the unmarshalers of their types.
// client-go's decoders decode anything unusual, so that the results and errors are client-go's.
//
// The data in flight is bounded: a batch holds the frames of one chunk, and at most as many batches
// are queued as there are cores. An object larger than a chunk is decoded before anything else is
// read. Decoded objects do not refer to the bytes that they were decoded from.
//
// An API server in this process may answer a watch with the objects that it has itself, if it trusts the client not to change them.
//
// A test compares the decoding with client-go's.
package wire

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/internal/inprocess"
)

// Resource is a resource to list and watch, and the representation of its objects.
type Resource struct {
	// Name is the resource's name in URLs. An empty Namespace means all namespaces.
	Name, Namespace string
	// Kind and ListKind are the kinds of encoded objects and lists. If ListKind.Kind is empty, any
	// kind that ends in List is accepted.
	Kind, ListKind schema.GroupVersionKind
	// New and NewList return an empty object and an empty list.
	New     func() client.Object
	NewList func() (client.ObjectList, error)
	// SharesObjects is set if an API server in this process shares its objects; see [inprocess.SharesObjects].
	SharesObjects bool
	// Accept and AcceptList are the Accept headers of watches and lists. If empty, the header of the
	// configuration is sent.
	Accept, AcceptList string
}

// Client lists and watches a resource. It may be used by several goroutines.
type Client struct {
	resource  Resource
	config    *rest.Config
	http      *http.Client
	rest      rest.Interface
	encodings []*encoding
}

// NewClient returns a client of a resource. The config is for the resource's group and version.
func NewClient(config *rest.Config, http *http.Client, resource Resource) (*Client, error) {
	c := &Client{resource: resource, config: config, http: http}
	c.encodings = encodings(resource, config.NegotiatedSerializer)
	if len(c.encodings) == 0 {
		return nil, fmt.Errorf("the serializer of %s supports neither protobuf nor JSON", resource.Kind)
	}
	var err error
	c.rest, err = c.newREST(config.NegotiatedSerializer)
	return c, err
}

// newREST returns a REST client with a serializer.
func (c *Client) newREST(serializer runtime.NegotiatedSerializer) (rest.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.NegotiatedSerializer = serializer
	return rest.RESTClientForConfigAndClient(config, c.http)
}

// Watch opens a watch, which ends with ctx. It returns the errors of rest.Request.Watch.
func (c *Client) Watch(ctx context.Context, opts metav1.ListOptions) (*Stream, error) {
	// A REST client per watch, so that each has a serializer of its own to capture the body. The HTTP
	// client, and so its connections, are shared.
	serializer := &captureSerializer{NegotiatedSerializer: c.config.NegotiatedSerializer, encodings: c.encodings}
	r, err := c.newREST(serializer)
	if err != nil {
		return nil, err
	}
	opts.Watch = true
	asking := ctx
	if c.resource.SharesObjects {
		asking = inprocess.AskForObjects(ctx)
	}
	w, err := c.request(r, c.resource.Namespace, opts, c.resource.Accept).Watch(asking)
	if err != nil {
		return nil, err
	}
	// client-go has opened the watch and reads an empty body. Wait until it has ended.
	for range w.ResultChan() {
	}
	return newStream(ctx, serializer.captured), nil
}

// ClientGoWatch opens a watch that client-go decodes.
func (c *Client) ClientGoWatch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return c.request(c.rest, c.resource.Namespace, opts, c.resource.Accept).Watch(ctx)
}

// List requests a page. It returns the errors of rest.Result.Into.
func (c *Client) List(ctx context.Context, opts metav1.ListOptions) (*Page, error) {
	return c.ListIn(ctx, c.resource.Namespace, opts)
}

// ListIn is List in another namespace, or in all if it is empty.
func (c *Client) ListIn(ctx context.Context, namespace string, opts metav1.ListOptions) (*Page, error) {
	result := c.request(c.rest, namespace, opts, c.resource.AcceptList).Do(ctx)
	if page := c.splitPage(result); page != nil {
		return page, nil
	}
	list, err := c.decodeList(result)
	if err != nil {
		return nil, err
	}
	return decodedPage(list), nil
}

// ClientGoList requests a page that client-go decodes.
func (c *Client) ClientGoList(ctx context.Context, opts metav1.ListOptions) (client.ObjectList, error) {
	return c.decodeList(c.request(c.rest, c.resource.Namespace, opts, c.resource.AcceptList).Do(ctx))
}

// decodeList decodes a response with client-go's decoders.
func (c *Client) decodeList(result rest.Result) (client.ObjectList, error) {
	list, err := c.resource.NewList()
	if err != nil {
		return nil, err
	}
	return list, result.Into(list)
}

// splitPage returns a page with items that are not decoded yet, or nil if the response is not a list
// in the usual encoding.
func (c *Client) splitPage(result rest.Result) *Page {
	var contentType string
	result.ContentType(&contentType)
	data, err := result.Raw()
	if err != nil {
		return nil
	}
	for _, e := range c.encodings {
		if e.matches(contentType) {
			return e.page(data)
		}
	}
	return nil
}

// request returns a GET request of the resource, with an Accept header unless it is empty.
func (c *Client) request(
	r rest.Interface, namespace string, opts metav1.ListOptions, accept string,
) *rest.Request {
	req := r.Get().
		NamespaceIfScoped(namespace, namespace != "").Resource(c.resource.Name).
		SpecificallyVersionedParams(&opts, parameters, version)
	if accept != "" {
		req.SetHeader("Accept", accept)
	}
	return req
}

var (
	version    = schema.GroupVersion{Version: "v1"}
	parameters = func() runtime.ParameterCodec {
		s := runtime.NewScheme()
		metav1.AddToGroupVersion(s, version)
		return runtime.NewParameterCodec(s)
	}()
)
