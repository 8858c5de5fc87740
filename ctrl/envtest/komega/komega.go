// Package komega has functions and matchers for tests with gomega that read and write objects. It
// has the API of controller-runtime's package of this name.
//
// The functions return functions, so that gomega.Eventually can call these repeatedly:
//
//	Eventually(komega.Object(deployment)).Should(HaveField("Status.ReadyReplicas", BeEquivalentTo(3)))
//
// With a manager, manager.WaitIdle says when a result is there, without polling for it.
package komega

import (
	"context"

	"flyball.dev/ctrl/client"
)

// Komega reads and writes objects with one client and context. The functions that its methods
// return read into the object that the method was given.
type Komega interface {
	// Get returns a function that reads the object.
	Get(client.Object) func() error
	// List returns a function that lists objects.
	List(client.ObjectList, ...client.ListOption) func() error
	// Update returns a function that reads the object, calls the given function, which changes it, and
	// updates it.
	Update(client.Object, func(), ...client.UpdateOption) func() error
	// UpdateStatus is Update of the status.
	UpdateStatus(client.Object, func(), ...client.SubResourceUpdateOption) func() error
	// Object returns a function that reads the object and returns it.
	Object(client.Object) func() (client.Object, error)
	// ObjectList returns a function that lists objects and returns the list.
	ObjectList(client.ObjectList, ...client.ListOption) func() (client.ObjectList, error)
	// WithContext returns a Komega that uses another context.
	WithContext(context.Context) Komega
}

// komega implements Komega.
type komega struct {
	ctx    context.Context
	client client.Client
}

// New returns a Komega with a client and the background context.
func New(c client.Client) Komega { return &komega{ctx: context.Background(), client: c} }

func (k *komega) WithContext(ctx context.Context) Komega {
	return &komega{ctx: ctx, client: k.client}
}

func (k *komega) Get(obj client.Object) func() error {
	key := client.ObjectKeyFromObject(obj)
	return func() error { return k.client.Get(k.ctx, key, obj) }
}

func (k *komega) List(list client.ObjectList, opts ...client.ListOption) func() error {
	return func() error { return k.client.List(k.ctx, list, opts...) }
}

func (k *komega) Update(obj client.Object, change func(), opts ...client.UpdateOption) func() error {
	get := k.Get(obj)
	return func() error {
		if err := get(); err != nil {
			return err
		}
		change()
		return k.client.Update(k.ctx, obj, opts...)
	}
}

func (k *komega) UpdateStatus(obj client.Object, change func(), opts ...client.SubResourceUpdateOption) func() error {
	get := k.Get(obj)
	return func() error {
		if err := get(); err != nil {
			return err
		}
		change()
		return k.client.Status().Update(k.ctx, obj, opts...)
	}
}

func (k *komega) Object(obj client.Object) func() (client.Object, error) {
	get := k.Get(obj)
	return func() (client.Object, error) { return obj, get() }
}

func (k *komega) ObjectList(list client.ObjectList, opts ...client.ListOption) func() (client.ObjectList, error) {
	read := k.List(list, opts...)
	return func() (client.ObjectList, error) { return list, read() }
}
