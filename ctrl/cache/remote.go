package cache

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
)

// remote lists and watches one resource in one form on the server, as far as
// the selectors of a config match. It implements reflector.Source.
type remote struct {
	resource  resourceClient
	selectors client.ListOptions
}

// resourceClient is what a client can do with a resource in one form.
type resourceClient interface {
	list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// connection is what it takes to reach the server.
type connection struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
}

// remote returns the source of a kind in a namespace, or in all.
func (c *connection) remote(gvk schema.GroupVersionKind, gvr schema.GroupVersionResource, f form, namespace string, config Config) (*remote, error) {
	r, err := c.resource(gvk, gvr, f, config.path(namespace))
	if err != nil {
		return nil, err
	}
	return &remote{r, client.ListOptions{LabelSelector: config.LabelSelector, FieldSelector: config.FieldSelector}}, nil
}

func (c *connection) resource(gvk schema.GroupVersionKind, gvr schema.GroupVersionResource, f form, namespace string) (resourceClient, error) {
	// The clients of the untyped forms bring serializers of their own.
	config := rest.CopyConfig(c.config)
	config.NegotiatedSerializer = nil
	switch f {
	case unstructuredForm:
		client, err := dynamic.NewForConfigAndClient(config, c.http)
		if err != nil {
			return nil, err
		}
		return unstructuredResource{client.Resource(gvr).Namespace(namespace)}, nil
	case metadataForm:
		client, err := metadata.NewForConfigAndClient(config, c.http)
		if err != nil {
			return nil, err
		}
		return metadataResource{client.Resource(gvr).Namespace(namespace)}, nil
	default:
		client, err := apiutil.RESTClientForGVK(gvk, false, false, c.config, c.codecs, c.http)
		if err != nil {
			return nil, err
		}
		return typedResource{client, runtime.NewParameterCodec(c.scheme), c.scheme, gvk, gvr.Resource, namespace}, nil
	}
}

// List implements reflector.Source.
func (r *remote) List(ctx context.Context, opts metav1.ListOptions) ([]client.Object, string, string, error) {
	list, err := r.resource.list(ctx, r.selected(opts))
	if err != nil {
		return nil, "", "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", "", err
	}
	objs := make([]client.Object, 0, meta.LenList(list))
	// An object must not keep the whole page in memory.
	err = meta.EachListItemWithAlloc(list, func(obj runtime.Object) error {
		objs = append(objs, obj.(client.Object))
		return nil
	})
	return objs, m.GetResourceVersion(), m.GetContinue(), err
}

// Watch implements reflector.Source.
func (r *remote) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return r.resource.Watch(ctx, r.selected(opts))
}

func (r *remote) selected(opts metav1.ListOptions) metav1.ListOptions {
	selectors := r.selectors.AsListOptions()
	opts.LabelSelector, opts.FieldSelector = selectors.LabelSelector, selectors.FieldSelector
	return opts
}

type unstructuredResource struct{ dynamic.ResourceInterface }

func (r unstructuredResource) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return r.List(ctx, opts)
}

type metadataResource struct{ metadata.ResourceInterface }

func (r metadataResource) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return r.List(ctx, opts)
}

type typedResource struct {
	client     rest.Interface
	parameters runtime.ParameterCodec
	scheme     *runtime.Scheme
	gvk        schema.GroupVersionKind
	resource   string
	namespace  string
}

func (r typedResource) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list, err := r.scheme.New(r.gvk.GroupVersion().WithKind(r.gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	return list, r.request(opts).Do(ctx).Into(list)
}

// Watch implements resourceClient.
func (r typedResource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return r.request(opts).Watch(ctx)
}

func (r typedResource) request(opts metav1.ListOptions) *rest.Request {
	return r.client.Get().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.resource).VersionedParams(&opts, r.parameters)
}
