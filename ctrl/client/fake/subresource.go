package fake

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/reflectutil"
)

// Status implements [client.StatusClient].
func (c *fakeClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements [client.SubResourceClientConstructor].
func (c *fakeClient) SubResource(subResource string) client.SubResourceClient {
	return &subResourceClient{client: c, name: subResource}
}

// subResourceClient is the client of a subresource of any kind.
type subResourceClient struct {
	client *fakeClient
	name   string
}

// Get gets a scale. Of it and the object that has it, both are set.
func (s *subResourceClient) Get(
	ctx context.Context, obj, subResource client.Object, _ ...client.SubResourceGetOption,
) error {
	if s.name != "scale" {
		return fmt.Errorf("the fake client cannot get the subresource %s", s.name)
	}
	if _, err := s.client.kindOf(obj); err != nil {
		return err
	}
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return err
	}
	scale, ok := subResource.(*autoscalingv1.Scale)
	if !ok || scale == nil {
		return badRequest("expected Scale, got %T", subResource)
	}
	result, err := scaleOf(obj)
	if err != nil {
		return err
	}
	*scale = *result
	return nil
}

// Create evicts a pod, which deletes it, or creates a token of a service account, which is not
// valid.
func (s *subResourceClient) Create(
	ctx context.Context, obj, subResource client.Object, opts ...client.SubResourceCreateOption,
) error {
	o := (&client.SubResourceCreateOptions{}).ApplyOptions(opts)
	switch s.name {
	case "eviction":
		return s.evict(ctx, obj, subResource, o)
	case "token":
		request, ok := subResource.(*authenticationv1.TokenRequest)
		if !ok || request == nil {
			return badRequest("got invalid type %T, expected TokenRequest", subResource)
		}
		if err := s.expect(obj, corev1.SchemeGroupVersion.WithKind("ServiceAccount")); err != nil {
			return err
		}
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil || isDryRun(o.DryRun) {
			return err
		}
		request.Status.Token = "fake-token"
		request.Status.ExpirationTimestamp = metav1.Date(6041, time.January, 1, 0, 0, 0, 0, time.UTC)
		return nil
	default:
		return fmt.Errorf("the fake client cannot create the subresource %s", s.name)
	}
}

// expect returns the error for a kind that does not have the subresource: it was not found.
func (s *subResourceClient) expect(obj client.Object, gvk schema.GroupVersionKind) error {
	if kind, err := s.client.kindOf(obj); err != nil || kind != gvk {
		return apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	return nil
}

func (s *subResourceClient) evict(
	ctx context.Context, obj, eviction client.Object, o *client.SubResourceCreateOptions,
) error {
	if reflectutil.IsNil(eviction) {
		return badRequest("got invalid type %T, expected Eviction", eviction)
	}
	var options *metav1.DeleteOptions
	switch eviction := eviction.(type) {
	case *policyv1.Eviction:
		options = eviction.DeleteOptions
	case *policyv1beta1.Eviction:
		options = eviction.DeleteOptions
	default:
		return badRequest("got invalid type %T, expected Eviction", eviction)
	}
	if err := s.expect(obj, corev1.SchemeGroupVersion.WithKind("Pod")); err != nil {
		return err
	}
	deletion := client.DeleteOptions{DryRun: o.DryRun}
	if options != nil {
		deletion.Preconditions = options.Preconditions
		deletion.DryRun = append(deletion.DryRun, options.DryRun...)
	}
	return s.client.Delete(ctx, obj, &deletion)
}

// Update updates the scale or, for all other names, the status.
func (s *subResourceClient) Update(
	ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption,
) error {
	o := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	if s.name != "scale" {
		body := obj
		if o.SubResourceBody != nil {
			body = o.SubResourceBody
		}
		return s.client.update(body, true, &o.UpdateOptions)
	}
	gvk, err := s.client.kindOf(obj)
	if err != nil {
		return err
	}
	if _, err := s.client.read(id{gvk, client.ObjectKeyFromObject(obj)}); err != nil {
		return err
	}
	if o.SubResourceBody == nil {
		return badRequest("missing SubResourceBody")
	}
	scale, ok := o.SubResourceBody.(*autoscalingv1.Scale)
	if !ok || scale == nil {
		return badRequest("expected Scale, got %T", o.SubResourceBody)
	}
	if err := setReplicas(obj, scale.Spec.Replicas); err != nil {
		return err
	}
	return s.client.update(obj, false, &o.UpdateOptions)
}

// Patch patches the status or, for all other names, the object.
func (s *subResourceClient) Patch(
	_ context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	o := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	body := obj
	if o.SubResourceBody != nil {
		body = o.SubResourceBody
	}
	return s.client.patch(body, patch, s.name == "status", &o.PatchOptions)
}

// Apply applies a configuration of the status or of the scale.
func (s *subResourceClient) Apply(
	ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
) error {
	o := (&client.SubResourceApplyOptions{}).ApplyOpts(opts)
	switch s.name {
	case "status":
		body := obj
		if o.SubResourceBody != nil {
			body = o.SubResourceBody
		}
		return s.client.apply(obj, body, true, &o.ApplyOptions)
	case "scale":
		return s.applyScale(ctx, obj, o)
	default:
		return errors.New("the fake client applies only the subresources status and scale")
	}
}

// applyScale sets the replicas that a configuration of a scale has, and obj to the whole object.
func (s *subResourceClient) applyScale(
	ctx context.Context, obj runtime.ApplyConfiguration, o *client.SubResourceApplyOptions,
) error {
	u, err := configuration(obj)
	if err != nil {
		return err
	}
	if o.SubResourceBody == nil {
		return badRequest("missing SubResourceBody")
	}
	data, err := json.Marshal(o.SubResourceBody)
	if err != nil {
		return err
	}
	var scale autoscalingv1.Scale
	if err := json.Unmarshal(data, &scale); err != nil {
		return err
	}
	target := s.client.newObject(u.GroupVersionKind())
	target.GetObjectKind().SetGroupVersionKind(u.GroupVersionKind())
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(u), target); err != nil {
		return err
	}
	if err := setReplicas(target, scale.Spec.Replicas); err != nil {
		return err
	}
	raw := o.AsPatchOptions()
	update := &client.UpdateOptions{FieldManager: raw.FieldManager, DryRun: raw.DryRun}
	if err := s.client.update(target, false, update); err != nil {
		return err
	}
	target.GetObjectKind().SetGroupVersionKind(u.GroupVersionKind())
	return setConfiguration(obj, target)
}
