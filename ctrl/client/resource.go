package client

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/representation"
	"flyball.dev/internal/responses"
)

// resource is a REST resource and the client for one representation of its objects.
type resource struct {
	resourceKey
	client     *client
	rest       rest.Interface
	name       string
	namespaced bool
	// protobuf is set if the server is asked for protobuf.
	protobuf bool
}

// resourceKey identifies a resource: by the kind of its objects and how they are encoded.
type resourceKey struct {
	gvk            schema.GroupVersionKind
	representation representation.Representation
	// jsonOnly is set for the body of a subresource if its Go type does not implement protobuf,
	// while the type of the resource does.
	jsonOnly bool
}

// resourceOf returns the resource of obj; for a list, the resource of its items.
func (c *client) resourceOf(ctx context.Context, obj runtime.Object) (*resource, error) {
	rep := representation.Of(obj)
	if rep != representation.Typed {
		gvk, err := c.GroupVersionKindFor(obj)
		if err != nil {
			return nil, err
		}
		return c.resource(ctx, resourceKey{gvk: singular(obj, gvk), representation: rep})
	}
	t := reflect.TypeOf(obj)
	if r, ok := c.resources.Load(t); ok {
		return r.(*resource), nil
	}
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return nil, err
	}
	r, err := c.resource(ctx, resourceKey{gvk: singular(obj, gvk), representation: rep})
	if err != nil {
		return nil, err
	}
	if gvks, _, err := c.scheme.ObjectKinds(obj); err == nil && len(gvks) == 1 {
		c.resources.Store(t, r)
	}
	return r, nil
}

// singular is itemKind if obj is a list, as the names of other kinds may end in "List" too.
func singular(obj runtime.Object, gvk schema.GroupVersionKind) schema.GroupVersionKind {
	if meta.IsListType(obj) {
		return itemKind(gvk)
	}
	return gvk
}

// resource returns the resource of a kind.
func (c *client) resource(ctx context.Context, key resourceKey) (*resource, error) {
	if r, ok := c.resources.Load(key); ok {
		return r.(*resource), nil
	}
	gvk := key.gvk
	mapping, err := c.contextMapper.RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("%w: if it is a CRD, it should be installed, and serve this version", err)
	}
	if err != nil {
		return nil, err
	}
	r := &resource{
		resourceKey: key,
		client:      c,
		name:        mapping.Resource.Resource,
		namespaced:  mapping.Scope.Name() != meta.RESTScopeNameRoot,
	}
	isUnstructured := key.representation == representation.Unstructured
	cfg := apiutil.ConfigForGVK(gvk, isUnstructured || key.jsonOnly, isUnstructured, c.config, c.codecs)
	if key.representation == representation.Metadata {
		cfg.ContentType = runtime.ContentTypeJSON // of a request; the Accept header is set by each
		cfg.NegotiatedSerializer = metadataSerializer{metainternalversionscheme.Codecs.WithoutConversion(), gvk}
	}
	r.protobuf = cfg.ContentType == runtime.ContentTypeProtobuf
	cfg.NegotiatedSerializer = responseSerializer{cfg.NegotiatedSerializer}
	if r.rest, err = rest.RESTClientForConfigAndClient(cfg, c.http); err != nil {
		return nil, err
	}
	c.resources.Store(key, r)
	return r, nil
}

// metadataSerializer sets the kind of decoded metadata to the kind of their objects, as all are
// encoded with the kind PartialObjectMetadata.
type metadataSerializer struct {
	runtime.NegotiatedSerializer
	gvk schema.GroupVersionKind
}

func (s metadataSerializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return metadataDecoder{s.NegotiatedSerializer.DecoderToVersion(d, gv), s.gvk}
}

// metadataDecoder decodes metadata-only objects and lists, and sets their kind.
type metadataDecoder struct {
	decoder runtime.Decoder
	gvk     schema.GroupVersionKind
}

func (d metadataDecoder) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	switch t := into.(type) {
	case *metav1.PartialObjectMetadata:
		*t = metav1.PartialObjectMetadata{}
	case *metav1.PartialObjectMetadataList:
		*t = metav1.PartialObjectMetadataList{}
	}
	out, gvk, err := d.decoder.Decode(data, defaults, into)
	if runtime.IsNotRegisteredError(err) && into != nil {
		// Not every server supports the representation: this is the whole object.
		out, err = into, json.Unmarshal(data, into)
	}
	switch o := out.(type) {
	case *metav1.PartialObjectMetadata:
		o.SetGroupVersionKind(d.gvk)
	case *metav1.PartialObjectMetadataList:
		o.SetGroupVersionKind(d.gvk.GroupVersion().WithKind(d.gvk.Kind + "List"))
		for i := range o.Items {
			o.Items[i].SetGroupVersionKind(d.gvk)
		}
	}
	return out, gvk, err
}

var (
	acceptMetadata     = representation.AcceptMetadata(representation.MetadataKind)
	acceptMetadataList = representation.AcceptMetadata(representation.MetadataListKind)
)

// object returns a request for one object, or for a subresource of it.
func (r *resource) object(verb string, key ObjectKey, subResource string) *rest.Request {
	req := r.rest.Verb(verb).NamespaceIfScoped(key.Namespace, r.namespaced).Resource(r.name).Name(key.Name)
	if subResource != "" {
		req.SubResource(subResource)
	}
	if r.representation == representation.Metadata {
		req.SetHeader("Accept", acceptMetadata)
	}
	return req
}

// collection returns a request for all objects of a namespace.
func (r *resource) collection(verb, namespace, accept string) *rest.Request {
	req := r.rest.Verb(verb).NamespaceIfScoped(namespace, r.namespaced).Resource(r.name)
	if r.representation == representation.Metadata {
		req.SetHeader("Accept", accept)
	}
	return req
}

// withParams adds options to a request. They have the same names in all versions of the API.
func withParams(req *rest.Request, options any) (*rest.Request, error) {
	values, err := queryparams.Convert(options)
	if err != nil {
		return nil, err
	}
	for name, vs := range values {
		for _, v := range vs {
			req.Param(name, v)
		}
	}
	return req, nil
}

// into sends a request and decodes the response into obj. It preserves the apiVersion and kind of obj.
func (r *resource) into(ctx context.Context, req *rest.Request, obj runtime.Object) error {
	_, err := r.send(ctx, req, obj)
	return err
}

// send is into that also returns the response.
func (r *resource) send(ctx context.Context, req *rest.Request, obj runtime.Object) (*response, error) {
	kind := obj.GetObjectKind()
	before := kind.GroupVersionKind()
	res := &response{Object: obj}
	if r.protobuf && responses.IsVersionOnly(ctx) {
		res.versionOf = r.gvk
	}
	err := r.check(req.Do(ctx).Into(res))
	if !before.Empty() {
		kind.SetGroupVersionKind(before)
	}
	return res, err
}

// check detects from err that the server does not serve the resource any more: its definition may
// have been deleted, or created again with another name or scope. It then invalidates the cached
// mapping, with a rate limit, so that the next request uses discovery.
func (r *resource) check(err error) error {
	if apierrors.IsNotFound(err) && !concernsObject(err) {
		r.client.invalidations.Do(r.invalidate)
	}
	return err
}

// invalidate drops the cached resources of the kind, in all representations, and resets the mapper.
func (r *resource) invalidate() {
	r.client.resources.Range(func(key, value any) bool {
		if value.(*resource).gvk == r.gvk {
			r.client.resources.Delete(key)
		}
		return true
	})
	meta.MaybeResetRESTMapper(r.client.mapper)
}

// concernsObject reports whether a "not found" concerns the object, not the resource.
func concernsObject(err error) bool {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return true
	}
	details := status.Status().Details
	return details != nil && details.Name != "" && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
