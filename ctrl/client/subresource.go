package client

import (
	"context"
	"net/http"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/representation"
)

// subResourceClient reads and writes one subresource of any kind. The object determines the path;
// the representation of the body determines the encoding.
type subResourceClient struct {
	client *client
	name   string
}

// resource returns the resource of obj with the encoding of body.
func (s *subResourceClient) resource(ctx context.Context, obj, body Object) (*resource, error) {
	r, err := s.client.resourceOf(ctx, obj)
	if err != nil || reflect.TypeOf(body) == reflect.TypeOf(obj) {
		return r, err
	}
	key := resourceKey{gvk: r.gvk, representation: representation.Of(body)}
	key.jsonOnly = key.representation == representation.Typed && !apiutil.ImplementsProtobuf(body)
	if key == r.resourceKey {
		return r, nil
	}
	return s.client.resource(ctx, key)
}

// wholeResource is resource for bodies that must not be metadata-only.
func (s *subResourceClient) wholeResource(ctx context.Context, obj, body Object, verb string) (*resource, error) {
	if representation.Of(body) == representation.Metadata {
		return nil, errOnlyMetadata(verb + " " + s.name)
	}
	return s.resource(ctx, obj, body)
}

// Get reads the subresource of obj.
func (s *subResourceClient) Get(
	ctx context.Context, obj Object, subResource Object, opts ...SubResourceGetOption,
) error {
	r, err := s.wholeResource(ctx, obj, subResource, "get")
	if err != nil {
		return err
	}
	o := (&SubResourceGetOptions{}).ApplyOptions(opts)
	req, err := withParams(r.object(http.MethodGet, ObjectKeyFromObject(obj), s.name), o.AsGetOptions())
	if err != nil {
		return err
	}
	return r.into(ctx, req, subResource)
}

// Create posts to the subresource of obj.
func (s *subResourceClient) Create(
	ctx context.Context, obj Object, subResource Object, opts ...SubResourceCreateOption,
) error {
	r, err := s.wholeResource(ctx, obj, subResource, "create")
	if err != nil {
		return err
	}
	// The server requires the name of the object.
	if subResource.GetName() == "" {
		subResource.SetName(obj.GetName())
	}
	o := (&SubResourceCreateOptions{}).ApplyOptions(opts)
	raw := o.AsCreateOptions()
	t := target{r, ObjectKeyFromObject(obj), s.name}
	req, err := withParams(t.object(http.MethodPost, t.key, t.subResource), raw)
	if err != nil {
		return err
	}
	a, err := t.send(ctx, req.Body(subResource), subResource)
	if err != nil {
		return err
	}
	s.client.wrote(ctx, t, a, raw.DryRun, o.DisableReadYourWritesConsistency)
	return nil
}

// Update replaces the subresource of obj.
func (s *subResourceClient) Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error {
	o := (&SubResourceUpdateOptions{}).ApplyOptions(opts)
	body := obj
	if o.SubResourceBody != nil {
		body = o.SubResourceBody
		if body.GetName() == "" {
			body.SetName(obj.GetName())
		}
		if body.GetNamespace() == "" {
			body.SetNamespace(obj.GetNamespace())
		}
	}
	r, err := s.wholeResource(ctx, obj, body, "update")
	if err != nil {
		return err
	}
	return s.client.update(ctx, target{r, ObjectKeyFromObject(obj), s.name}, body, &o.UpdateOptions)
}

// Patch patches the subresource of obj.
func (s *subResourceClient) Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error {
	o := (&SubResourcePatchOptions{}).ApplyOptions(opts)
	body := obj
	if o.SubResourceBody != nil {
		body = o.SubResourceBody
	}
	r, err := s.resource(ctx, obj, body)
	if err != nil {
		return err
	}
	return s.client.patch(ctx, target{r, ObjectKeyFromObject(obj), s.name}, body, patch, &o.PatchOptions)
}

// Apply applies a configuration to the subresource of the object that it names.
func (s *subResourceClient) Apply(
	ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption,
) error {
	o := (&SubResourceApplyOptions{}).ApplyOpts(opts)
	body := obj
	if o.SubResourceBody != nil {
		body = o.SubResourceBody
	}
	return s.client.apply(ctx, obj, body, s.name, &o.ApplyOptions)
}
