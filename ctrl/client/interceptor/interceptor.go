// Package interceptor wraps a client and replaces its methods with functions, for tests that inject
// errors or record calls.
package interceptor

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/client"
)

// Funcs are the functions that replace methods. A function has the wrapped client as an argument.
// The calls of methods without a function are passed on unchanged.
//
// SubResource replaces the client of a subresource, and with it the functions for its methods.
// Status is SubResource("status").
type Funcs struct {
	Get func(
		ctx context.Context, client client.WithWatch, key client.ObjectKey, obj client.Object,
		opts ...client.GetOption,
	) error
	List func(
		ctx context.Context, client client.WithWatch, list client.ObjectList, opts ...client.ListOption,
	) error
	Create func(
		ctx context.Context, client client.WithWatch, obj client.Object, opts ...client.CreateOption,
	) error
	Delete func(
		ctx context.Context, client client.WithWatch, obj client.Object, opts ...client.DeleteOption,
	) error
	DeleteAllOf func(
		ctx context.Context, client client.WithWatch, obj client.Object, opts ...client.DeleteAllOfOption,
	) error
	Update func(
		ctx context.Context, client client.WithWatch, obj client.Object, opts ...client.UpdateOption,
	) error
	Patch func(
		ctx context.Context, client client.WithWatch, obj client.Object, patch client.Patch,
		opts ...client.PatchOption,
	) error
	Apply func(
		ctx context.Context, client client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption,
	) error
	Watch func(
		ctx context.Context, client client.WithWatch, obj client.ObjectList, opts ...client.ListOption,
	) (watch.Interface, error)
	SubResource    func(client client.WithWatch, subResource string) client.SubResourceClient
	SubResourceGet func(
		ctx context.Context, client client.Client, subResourceName string, obj client.Object, subResource client.Object,
		opts ...client.SubResourceGetOption,
	) error
	SubResourceCreate func(
		ctx context.Context, client client.Client, subResourceName string, obj client.Object, subResource client.Object,
		opts ...client.SubResourceCreateOption,
	) error
	SubResourceUpdate func(
		ctx context.Context, client client.Client, subResourceName string, obj client.Object,
		opts ...client.SubResourceUpdateOption,
	) error
	SubResourcePatch func(
		ctx context.Context, client client.Client, subResourceName string, obj client.Object, patch client.Patch,
		opts ...client.SubResourcePatchOption,
	) error
	SubResourceApply func(
		ctx context.Context, client client.Client, subResourceName string, obj runtime.ApplyConfiguration,
		opts ...client.SubResourceApplyOption,
	) error
}

// NewClient returns a client that calls funcs instead of the methods of interceptedClient.
func NewClient(interceptedClient client.WithWatch, funcs Funcs) client.WithWatch {
	return &interceptor{WithWatch: interceptedClient, funcs: funcs}
}

// interceptor calls the functions, and the embedded client for methods without one.
type interceptor struct {
	client.WithWatch
	funcs Funcs
}

// Unwrap returns the intercepted client.
func (c *interceptor) Unwrap() client.WithWatch { return c.WithWatch }

func (c *interceptor) Get(
	ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
) error {
	if f := c.funcs.Get; f != nil {
		return f(ctx, c.WithWatch, key, obj, opts...)
	}
	return c.WithWatch.Get(ctx, key, obj, opts...)
}

func (c *interceptor) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if f := c.funcs.List; f != nil {
		return f(ctx, c.WithWatch, list, opts...)
	}
	return c.WithWatch.List(ctx, list, opts...)
}

func (c *interceptor) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if f := c.funcs.Create; f != nil {
		return f(ctx, c.WithWatch, obj, opts...)
	}
	return c.WithWatch.Create(ctx, obj, opts...)
}

func (c *interceptor) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if f := c.funcs.Delete; f != nil {
		return f(ctx, c.WithWatch, obj, opts...)
	}
	return c.WithWatch.Delete(ctx, obj, opts...)
}

func (c *interceptor) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	if f := c.funcs.DeleteAllOf; f != nil {
		return f(ctx, c.WithWatch, obj, opts...)
	}
	return c.WithWatch.DeleteAllOf(ctx, obj, opts...)
}

func (c *interceptor) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if f := c.funcs.Update; f != nil {
		return f(ctx, c.WithWatch, obj, opts...)
	}
	return c.WithWatch.Update(ctx, obj, opts...)
}

func (c *interceptor) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	if f := c.funcs.Patch; f != nil {
		return f(ctx, c.WithWatch, obj, patch, opts...)
	}
	return c.WithWatch.Patch(ctx, obj, patch, opts...)
}

func (c *interceptor) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if f := c.funcs.Apply; f != nil {
		return f(ctx, c.WithWatch, obj, opts...)
	}
	return c.WithWatch.Apply(ctx, obj, opts...)
}

func (c *interceptor) Watch(
	ctx context.Context, list client.ObjectList, opts ...client.ListOption,
) (watch.Interface, error) {
	if f := c.funcs.Watch; f != nil {
		return f(ctx, c.WithWatch, list, opts...)
	}
	return c.WithWatch.Watch(ctx, list, opts...)
}

func (c *interceptor) Status() client.SubResourceWriter { return c.SubResource("status") }

func (c *interceptor) SubResource(subResource string) client.SubResourceClient {
	if f := c.funcs.SubResource; f != nil {
		return f(c.WithWatch, subResource)
	}
	return &subResourceInterceptor{
		SubResourceClient: c.WithWatch.SubResource(subResource),
		name:              subResource,
		client:            c.WithWatch,
		funcs:             c.funcs,
	}
}

// subResourceInterceptor calls the functions of Funcs for one subresource, where they are set.
type subResourceInterceptor struct {
	client.SubResourceClient
	name   string
	client client.Client
	funcs  Funcs
}

func (s *subResourceInterceptor) Get(
	ctx context.Context, obj, subResource client.Object, opts ...client.SubResourceGetOption,
) error {
	if f := s.funcs.SubResourceGet; f != nil {
		return f(ctx, s.client, s.name, obj, subResource, opts...)
	}
	return s.SubResourceClient.Get(ctx, obj, subResource, opts...)
}

func (s *subResourceInterceptor) Create(
	ctx context.Context, obj, subResource client.Object, opts ...client.SubResourceCreateOption,
) error {
	if f := s.funcs.SubResourceCreate; f != nil {
		return f(ctx, s.client, s.name, obj, subResource, opts...)
	}
	return s.SubResourceClient.Create(ctx, obj, subResource, opts...)
}

func (s *subResourceInterceptor) Update(
	ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption,
) error {
	if f := s.funcs.SubResourceUpdate; f != nil {
		return f(ctx, s.client, s.name, obj, opts...)
	}
	return s.SubResourceClient.Update(ctx, obj, opts...)
}

func (s *subResourceInterceptor) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	if f := s.funcs.SubResourcePatch; f != nil {
		return f(ctx, s.client, s.name, obj, patch, opts...)
	}
	return s.SubResourceClient.Patch(ctx, obj, patch, opts...)
}

func (s *subResourceInterceptor) Apply(
	ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
) error {
	if f := s.funcs.SubResourceApply; f != nil {
		return f(ctx, s.client, s.name, obj, opts...)
	}
	return s.SubResourceClient.Apply(ctx, obj, opts...)
}
