// Package wire is how a cache's lists and watches come from the server: what is
// there at once is decoded on all cores and given on in the server's order.
//
// A watch is read by whoever asks for its events. As long as they come one by
// one, that is all there is to it: no goroutine, nothing handed from one to
// another. When much is there at once, such as the list that a watch begins
// with, a goroutine reads ahead, cuts what it reads into frames without copying
// them, and has them decoded in batches, a goroutine a batch. It ends when
// nothing more is there. The items of a page of a list are decoded likewise.
//
// What is the same for every object is read right here: the event and the
// envelope around an object, the list around its items. Objects are decoded by
// the code that their types bring along. Whatever looks unusual is left to
// client-go's decoders, so that unusual answers and errors are what they always
// were.
//
// What is in flight is bounded: a batch is what one chunk held, and as many
// batches wait as there are cores. An object larger than a chunk is decoded
// before anything else is read. Decoded objects keep nothing of the bytes that
// they were made of.
package wire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
)

// Resource is what is listed and watched, and in which form.
type Resource struct {
	// Name is what URLs call it. Namespace is empty for all namespaces.
	Name, Namespace string
	// Kind and ListKind are what an object and a list of them say they are. If
	// ListKind has no kind, any name that ends in List will do.
	Kind, ListKind schema.GroupVersionKind
	// New and NewList return an empty object and an empty list.
	New     func() client.Object
	NewList func() (client.ObjectList, error)
	// Accept and AcceptList are the media types to ask for, if not those of the
	// configuration.
	Accept, AcceptList string
}

// Client lists and watches a resource.
type Client struct {
	resource  Resource
	rest      rest.Interface
	encodings []*encoding

	// opening is held while a watch is being opened, and opened is where its
	// answer goes, nil if it is not to be handed over.
	opening sync.Mutex
	opened  *answer
}

// answer is the body of a watch and what it is encoded in.
type answer struct {
	body     io.ReadCloser
	encoding *encoding
}

// NewClient returns a client of a resource. The config is for the resource's
// group and version.
func NewClient(config *rest.Config, http *http.Client, resource Resource) (*Client, error) {
	c := &Client{resource: resource}
	config = rest.CopyConfig(config)
	c.encodings = encodings(resource, config.NegotiatedSerializer)
	if len(c.encodings) == 0 {
		return nil, fmt.Errorf("%s can be read neither as protobuf nor as JSON", resource.Kind)
	}
	config.NegotiatedSerializer = handover{config.NegotiatedSerializer, c}
	var err error
	c.rest, err = rest.RESTClientForConfigAndClient(config, http)
	return c, err
}

// Watch opens a watch, which ends with ctx. The errors are those of
// rest.Request.Watch.
func (c *Client) Watch(ctx context.Context, opts metav1.ListOptions) (*Stream, error) {
	var opened answer
	w, err := c.open(ctx, opts, &opened)
	if err != nil {
		return nil, err
	}
	// All that was left to client-go was to open the watch: for it, it has ended.
	for range w.ResultChan() {
	}
	return newStream(ctx, opened), nil
}

// PlainWatch opens a watch as client-go has them.
func (c *Client) PlainWatch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.open(ctx, opts, nil)
}

func (c *Client) open(ctx context.Context, opts metav1.ListOptions, to *answer) (watch.Interface, error) {
	c.opening.Lock()
	defer c.opening.Unlock()
	opts.Watch, c.opened = true, to
	return c.request(c.resource.Namespace, opts, c.resource.Accept).Watch(ctx)
}

// List asks for a page. The errors are those of rest.Result.Into.
func (c *Client) List(ctx context.Context, opts metav1.ListOptions) (*Page, error) {
	return c.ListIn(ctx, c.resource.Namespace, opts)
}

// ListIn is List in another namespace, or in all if it is empty.
func (c *Client) ListIn(ctx context.Context, namespace string, opts metav1.ListOptions) (*Page, error) {
	result := c.request(namespace, opts, c.resource.AcceptList).Do(ctx)
	if page := c.split(result); page != nil {
		return page, nil
	}
	list, err := c.whole(result)
	if err != nil {
		return nil, err
	}
	return wholePage(list), nil
}

// PlainList asks for a page and decodes it as client-go does.
func (c *Client) PlainList(ctx context.Context, opts metav1.ListOptions) (client.ObjectList, error) {
	return c.whole(c.request(c.resource.Namespace, opts, c.resource.AcceptList).Do(ctx))
}

func (c *Client) whole(result rest.Result) (client.ObjectList, error) {
	list, err := c.resource.NewList()
	if err != nil {
		return nil, err
	}
	return list, result.Into(list)
}

// split makes a page of an answer without decoding its items, if it can.
func (c *Client) split(result rest.Result) *Page {
	var contentType string
	result.ContentType(&contentType)
	data, err := result.Raw()
	if err != nil {
		return nil
	}
	for _, e := range c.encodings {
		if e.is(contentType) {
			return e.page(data)
		}
	}
	return nil
}

func (c *Client) request(namespace string, opts metav1.ListOptions, accept string) *rest.Request {
	r := c.rest.Get().
		NamespaceIfScoped(namespace, namespace != "").Resource(c.resource.Name).
		SpecificallyVersionedParams(&opts, parameters, version)
	if accept != "" {
		r.SetHeader("Accept", accept)
	}
	return r
}

var (
	version    = schema.GroupVersion{Version: "v1"}
	parameters = func() runtime.ParameterCodec {
		s := runtime.NewScheme()
		metav1.AddToGroupVersion(s, version)
		return runtime.NewParameterCodec(s)
	}()
)
