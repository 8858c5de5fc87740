package cache

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/cache/internal/reflector"
	"flyball.dev/ctrl/cache/internal/wire"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/representation"
	"flyball.dev/internal/inprocess"
)

// listerWatcher lists and watches one resource in one representation, with the selectors of a
// config. It implements reflector.Source.
type listerWatcher struct {
	client    *wire.Client
	namespace string
	selectors client.ListOptions
}

// connection makes requests to the server.
type connection struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
}

// newListerWatcher returns the listerWatcher of a kind in a namespace, or in all.
func (c *connection) newListerWatcher(
	gvk schema.GroupVersionKind, gvr schema.GroupVersionResource, rep representation.Representation,
	namespace string, config Config,
) (*listerWatcher, error) {
	r := wire.Resource{Name: gvr.Resource, Namespace: config.requestNamespace(namespace)}
	restConfig := apiutil.ConfigForGVK(gvk, false, rep == representation.Unstructured, c.config, c.codecs)
	switch rep {
	case representation.Unstructured:
		r.Kind, r.ListKind = gvk, gvk.GroupVersion().WithKind("")
		r.New = func() client.Object { return &unstructured.Unstructured{} }
		r.NewList = func() (client.ObjectList, error) { return &unstructured.UnstructuredList{}, nil }
	case representation.Metadata:
		restConfig = metadata.ConfigFor(restConfig)
		r.Kind, r.ListKind = representation.MetadataKind, representation.MetadataListKind
		r.Accept = representation.AcceptMetadata(r.Kind)
		r.AcceptList = representation.AcceptMetadata(r.ListKind)
		r.New = func() client.Object { return &metav1.PartialObjectMetadata{} }
		r.NewList = func() (client.ObjectList, error) { return &metav1.PartialObjectMetadataList{}, nil }
	default:
		r.Kind, r.ListKind = gvk, gvk.GroupVersion().WithKind(gvk.Kind+"List")
		if _, err := newAs[client.Object](c.scheme, r.Kind); err != nil {
			return nil, err
		}
		r.New = func() client.Object { obj, _ := newAs[client.Object](c.scheme, r.Kind); return obj }
		r.NewList = func() (client.ObjectList, error) { return newAs[client.ObjectList](c.scheme, r.ListKind) }
		r.SharesObjects = inprocess.SharesObjects(c.config)
	}
	w, err := wire.NewClient(restConfig, c.http, r)
	if err != nil {
		return nil, err
	}
	selectors := client.ListOptions{LabelSelector: config.LabelSelector, FieldSelector: config.FieldSelector}
	return &listerWatcher{w, r.Namespace, selectors}, nil
}

// newAs returns an empty object of a kind as a T.
func newAs[T any](scheme *runtime.Scheme, gvk schema.GroupVersionKind) (none T, err error) {
	obj, err := scheme.New(gvk)
	if err != nil {
		return none, err
	}
	t, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("%T does not implement %v", obj, reflect.TypeFor[T]())
	}
	return t, nil
}

// List implements reflector.Source.
func (r *listerWatcher) List(ctx context.Context, opts metav1.ListOptions) (*wire.Page, error) {
	return r.client.List(ctx, r.withSelectors(opts))
}

// Watch implements reflector.Source.
func (r *listerWatcher) Watch(ctx context.Context, opts metav1.ListOptions) (reflector.Stream, error) {
	stream, err := r.client.Watch(ctx, r.withSelectors(opts))
	if err != nil {
		return nil, err
	}
	return stream, nil
}

// liveList lists the objects that match the selectors and calls each with them. The list is
// consistent with all writes before the call. An empty namespace means the one that is watched, an
// empty name all objects. It returns the resource version of the list.
func (r *listerWatcher) liveList(
	ctx context.Context, namespace, name string, each func(client.Object),
) (version string, err error) {
	opts := r.withSelectors(metav1.ListOptions{Limit: reflector.PageSize})
	if name != "" {
		named := fields.OneTermEqualSelector(nameField, name)
		if s := r.selectors.FieldSelector; s != nil && !s.Empty() {
			named = fields.AndSelectors(s, named)
		}
		opts.FieldSelector = named.String()
	}
	if namespace == "" {
		namespace = r.namespace
	}
	for {
		page, err := r.client.ListIn(ctx, namespace, opts)
		if err != nil {
			return "", err
		}
		for obj, err := range page.Objects {
			if err != nil {
				return "", err
			}
			each(obj)
		}
		if page.Next == "" {
			return page.Version, nil
		}
		opts.Continue = page.Next
	}
}

// withSelectors returns list options with the selectors.
func (r *listerWatcher) withSelectors(opts metav1.ListOptions) metav1.ListOptions {
	selectors := r.selectors.AsListOptions()
	opts.LabelSelector, opts.FieldSelector = selectors.LabelSelector, selectors.FieldSelector
	return opts
}
