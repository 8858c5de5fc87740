package client

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl/client/apiutil"
)

// NewNamespacedClient returns a client for one namespace. Objects of namespaced kinds without a
// namespace get this one; those with another are rejected. Cluster-scoped kinds are not affected.
func NewNamespacedClient(c Client, ns string) Client {
	return &namespaced{Client: c, namespace: ns}
}

// namespaced is a client that is restricted to one namespace for namespaced kinds.
type namespaced struct {
	Client
	namespace string
}

// check rejects a namespace that is neither empty nor the client's.
func (n *namespaced) check(namespace, name string) error {
	if namespace != "" && namespace != n.namespace {
		return fmt.Errorf("namespace %s of the object %s does not match the namespace %s on the client",
			namespace, name, n.namespace)
	}
	return nil
}

// scoped reports whether obj's kind is namespaced.
func (n *namespaced) scoped(obj runtime.Object) (bool, error) {
	scoped, err := n.IsObjectNamespaced(obj)
	if err != nil {
		return false, fmt.Errorf("error finding the scope of the object: %w", err)
	}
	return scoped, nil
}

// setNamespace sets the namespace of obj to the client's.
func (n *namespaced) setNamespace(obj Object) error {
	scoped, err := n.scoped(obj)
	if err != nil {
		return err
	}
	if err := n.check(obj.GetNamespace(), obj.GetName()); err != nil {
		return err
	}
	if scoped {
		obj.SetNamespace(n.namespace)
	}
	return nil
}

// setConfigurationNamespace is setNamespace for apply configurations.
func (n *namespaced) setConfigurationNamespace(ac runtime.ApplyConfiguration) error {
	gvk, key, err := identify(ac)
	if err != nil {
		return err
	}
	scoped, err := apiutil.IsGVKNamespaced(gvk, n.RESTMapper())
	if err != nil {
		return fmt.Errorf("error finding the scope of the object: %w", err)
	}
	if !scoped {
		return nil
	}
	if err := n.check(key.Namespace, key.Name); err != nil {
		return err
	}
	if u, ok := ac.(*unstructuredApplyConfiguration); ok {
		u.SetNamespace(n.namespace)
		return nil
	}
	// Every generated type has this method, with a result of its own type.
	set := reflect.ValueOf(ac).MethodByName("WithNamespace")
	if !set.IsValid() || set.Type().NumIn() != 1 || set.Type().In(0).Kind() != reflect.String {
		return fmt.Errorf("ApplyConfiguration %T does not have a WithNamespace(string) method", ac)
	}
	set.Call([]reflect.Value{reflect.ValueOf(n.namespace)})
	return nil
}

func (n *namespaced) Get(ctx context.Context, key ObjectKey, obj Object, opts ...GetOption) error {
	scoped, err := n.scoped(obj)
	if err != nil {
		return err
	}
	if scoped {
		if err := n.check(key.Namespace, key.Name); err != nil {
			return err
		}
		key.Namespace = n.namespace
	}
	return n.Client.Get(ctx, key, obj, opts...)
}

func (n *namespaced) List(ctx context.Context, list ObjectList, opts ...ListOption) error {
	scoped, err := n.scoped(list)
	if err != nil {
		return err
	}
	if scoped {
		opts = append(opts[:len(opts):len(opts)], InNamespace(n.namespace))
	}
	return n.Client.List(ctx, list, opts...)
}

func (n *namespaced) Create(ctx context.Context, obj Object, opts ...CreateOption) error {
	if err := n.setNamespace(obj); err != nil {
		return err
	}
	return n.Client.Create(ctx, obj, opts...)
}

func (n *namespaced) Update(ctx context.Context, obj Object, opts ...UpdateOption) error {
	if err := n.setNamespace(obj); err != nil {
		return err
	}
	return n.Client.Update(ctx, obj, opts...)
}

func (n *namespaced) Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error {
	if err := n.setNamespace(obj); err != nil {
		return err
	}
	return n.Client.Patch(ctx, obj, patch, opts...)
}

func (n *namespaced) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error {
	if err := n.setConfigurationNamespace(obj); err != nil {
		return err
	}
	return n.Client.Apply(ctx, obj, opts...)
}

func (n *namespaced) Delete(ctx context.Context, obj Object, opts ...DeleteOption) error {
	if err := n.setNamespace(obj); err != nil {
		return err
	}
	return n.Client.Delete(ctx, obj, opts...)
}

func (n *namespaced) DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error {
	scoped, err := n.scoped(obj)
	if err != nil {
		return err
	}
	if scoped {
		opts = append(opts[:len(opts):len(opts)], InNamespace(n.namespace))
	}
	return n.Client.DeleteAllOf(ctx, obj, opts...)
}

func (n *namespaced) Status() SubResourceWriter { return n.SubResource("status") }

func (n *namespaced) SubResource(subResource string) SubResourceClient {
	return &namespacedSubResource{client: n, subResource: n.Client.SubResource(subResource)}
}

// namespacedSubResource is the subresource client of a namespaced client.
type namespacedSubResource struct {
	client      *namespaced
	subResource SubResourceClient
}

func (s *namespacedSubResource) Get(ctx context.Context, obj, subResource Object, opts ...SubResourceGetOption) error {
	if err := s.client.setNamespace(obj); err != nil {
		return err
	}
	return s.subResource.Get(ctx, obj, subResource, opts...)
}

func (s *namespacedSubResource) Create(
	ctx context.Context, obj, subResource Object, opts ...SubResourceCreateOption,
) error {
	if err := s.client.setNamespace(obj); err != nil {
		return err
	}
	return s.subResource.Create(ctx, obj, subResource, opts...)
}

func (s *namespacedSubResource) Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error {
	if err := s.client.setNamespace(obj); err != nil {
		return err
	}
	return s.subResource.Update(ctx, obj, opts...)
}

func (s *namespacedSubResource) Patch(
	ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption,
) error {
	if err := s.client.setNamespace(obj); err != nil {
		return err
	}
	return s.subResource.Patch(ctx, obj, patch, opts...)
}

func (s *namespacedSubResource) Apply(
	ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption,
) error {
	if err := s.client.setConfigurationNamespace(obj); err != nil {
		return err
	}
	return s.subResource.Apply(ctx, obj, opts...)
}
