package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/internal/representation"
)

// Create creates obj on the server.
func (c *client) Create(ctx context.Context, obj Object, opts ...CreateOption) error {
	r, err := c.wholeResourceOf(ctx, obj, "create")
	if err != nil {
		return err
	}
	o := (&CreateOptions{}).ApplyOptions(opts)
	raw := o.AsCreateOptions()
	req, err := withParams(r.collection(http.MethodPost, obj.GetNamespace(), ""), raw)
	if err != nil {
		return err
	}
	res, err := r.send(ctx, req.Body(obj), obj)
	if err != nil {
		return err
	}
	c.wrote(ctx, target{resource: r, key: ObjectKeyFromObject(obj)}, res, raw.DryRun, o.DisableReadYourWritesConsistency)
	return nil
}

// Update replaces an object on the server.
func (c *client) Update(ctx context.Context, obj Object, opts ...UpdateOption) error {
	r, err := c.wholeResourceOf(ctx, obj, "update")
	if err != nil {
		return err
	}
	o := (&UpdateOptions{}).ApplyOptions(opts)
	return c.update(ctx, target{resource: r, key: ObjectKeyFromObject(obj)}, obj, o)
}

// update replaces the target with body.
func (c *client) update(ctx context.Context, t target, body Object, o *UpdateOptions) error {
	raw := o.AsUpdateOptions()
	req, err := withParams(t.object(http.MethodPut, t.key, t.subResource), raw)
	if err != nil {
		return err
	}
	res, err := t.send(ctx, req.Body(body), body)
	if err != nil {
		return err
	}
	c.wrote(ctx, t, res, raw.DryRun, o.DisableReadYourWritesConsistency)
	return nil
}

// Patch patches an object on the server.
func (c *client) Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error {
	r, err := c.resourceOf(ctx, obj)
	if err != nil {
		return err
	}
	o := (&PatchOptions{}).ApplyOptions(opts)
	return c.patch(ctx, target{resource: r, key: ObjectKeyFromObject(obj)}, obj, patch, o)
}

// patch patches the target with the patch that is computed from body.
func (c *client) patch(ctx context.Context, t target, body Object, patch Patch, o *PatchOptions) error {
	if reflectutil.IsNil(patch) {
		return fmt.Errorf("the patch of %s %s must not be nil", t.gvk.Kind, t.key)
	}
	data, err := patch.Data(body)
	if err != nil {
		return fmt.Errorf("failed to create the patch: %w", err)
	}
	raw := o.AsPatchOptions()
	req, err := withParams(t.object(http.MethodPatch, t.key, t.subResource), raw)
	if err != nil {
		return err
	}
	res, err := t.send(ctx, req.SetHeader("Content-Type", string(patch.Type())).Body(data), body)
	if err != nil {
		return err
	}
	c.wrote(ctx, t, res, raw.DryRun, o.DisableReadYourWritesConsistency)
	return nil
}

// Apply applies a configuration on the server.
func (c *client) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error {
	return c.apply(ctx, obj, obj, "", (&ApplyOptions{}).ApplyOptions(opts))
}

// apply applies body to the object that named identifies, or to its subresource. The response is
// decoded into body; if named is another configuration, the part that concerns the object is
// decoded into it.
func (c *client) apply(
	ctx context.Context, named, body runtime.ApplyConfiguration, subResource string, o *ApplyOptions,
) error {
	gvk, key, err := identify(named)
	if err != nil {
		return err
	}
	// Configurations are not in the scheme: they are encoded as plain JSON.
	r, err := c.resource(ctx, resourceKey{gvk: gvk, representation: representation.Unstructured})
	if err != nil {
		return err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := withParams(r.object(http.MethodPatch, key, subResource), o.AsPatchOptions())
	if err != nil {
		return err
	}
	res := req.SetHeader("Content-Type", string(types.ApplyYAMLPatchType)).
		SetHeader("Accept", runtime.ContentTypeJSON).Body(data).Do(ctx)
	if err := r.check(res.Error()); err != nil {
		return err
	}
	data, err = res.Raw()
	if err != nil {
		return err
	}
	if err := replaceConfiguration(body, data); err != nil {
		return fmt.Errorf("failed to decode the apply response: %w", err)
	}
	if named != body {
		if err := fillConfiguration(named, gvk, data); err != nil {
			return fmt.Errorf("failed to decode the apply response: %w", err)
		}
	}
	c.applied(ctx, target{r, key, subResource}, body, data, o)
	return nil
}

// replaceConfiguration decodes a response into a configuration. The former content is lost.
func replaceConfiguration(ac runtime.ApplyConfiguration, response []byte) error {
	if u, ok := ac.(*unstructuredApplyConfiguration); ok {
		return u.UnmarshalJSON(response)
	}
	pointer := reflect.ValueOf(ac)
	if pointer.Kind() != reflect.Pointer {
		return nil // a body that was passed by value
	}
	target := pointer.Elem()
	fresh := reflect.New(target.Type())
	if err := json.Unmarshal(response, fresh.Interface()); err != nil {
		return err
	}
	target.Set(fresh.Elem())
	return nil
}

// Delete deletes an object on the server.
func (c *client) Delete(ctx context.Context, obj Object, opts ...DeleteOption) error {
	r, err := c.resourceOf(ctx, obj)
	if err != nil {
		return err
	}
	o := (&DeleteOptions{}).ApplyOptions(opts)
	raw := o.AsDeleteOptions()
	req, err := withDeleteOptions(r.object(http.MethodDelete, ObjectKeyFromObject(obj), ""), raw)
	if err != nil {
		return err
	}
	res := req.Do(ctx)
	if err := r.check(res.Error()); err != nil {
		return err
	}
	c.deleted(ctx, r, obj, res, raw, o.DisableReadYourWritesConsistency)
	return nil
}

// DeleteAllOf deletes a collection on the server.
func (c *client) DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error {
	r, err := c.resourceOf(ctx, obj)
	if err != nil {
		return err
	}
	o := (&DeleteAllOfOptions{}).ApplyOptions(opts)
	req, err := withParams(r.collection(http.MethodDelete, o.Namespace, acceptMetadataList), o.AsListOptions())
	if err != nil {
		return err
	}
	raw := o.AsDeleteOptions()
	if req, err = withDeleteOptions(req, raw); err != nil {
		return err
	}
	res := req.Do(ctx)
	if err := r.check(res.Error()); err != nil {
		return err
	}
	c.deletedAll(ctx, r, res, raw, o.DeleteOptions.DisableReadYourWritesConsistency)
	return nil
}

// withDeleteOptions sets the body of a delete to its options, as JSON, which the servers of all
// kinds support.
func withDeleteOptions(req *rest.Request, o *metav1.DeleteOptions) (*rest.Request, error) {
	if reflect.ValueOf(*o).IsZero() {
		return req, nil
	}
	body := *o
	body.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	data, err := json.Marshal(&body)
	if err != nil {
		return nil, err
	}
	return req.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(data), nil
}

// wholeResourceOf is resourceOf for writes that need the whole object.
func (c *client) wholeResourceOf(ctx context.Context, obj runtime.Object, verb string) (*resource, error) {
	if representation.Of(obj) == representation.Metadata {
		return nil, errOnlyMetadata(verb)
	}
	return c.resourceOf(ctx, obj)
}

// errOnlyMetadata returns the error of a call that needs the whole object.
func errOnlyMetadata(call string) error {
	return fmt.Errorf("cannot %s using only metadata -- did you mean to patch?", call)
}
