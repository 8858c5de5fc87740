package komega

import (
	"context"

	"flyball.dev/ctrl/client"
)

// standard is what the functions of the package use.
var standard = &komega{ctx: context.Background()}

// SetClient sets the client of the package's functions. It must not be called at the same time as
// these.
func SetClient(c client.Client) { standard.client = c }

// SetContext sets the context of the package's functions, which is the background context before.
// It must not be called at the same time as these.
func SetContext(c context.Context) { standard.ctx = c }

// withClient returns standard. It panics if the client is not set.
func withClient() *komega {
	if standard.client == nil {
		panic("Default Komega's client is not set. Use SetClient to set it.")
	}
	return standard
}

// Get is [Komega.Get] with the client that SetClient has set, without which it panics.
func Get(obj client.Object) func() error { return withClient().Get(obj) }

// List is [Komega.List] with the client that SetClient has set, without which it panics.
func List(list client.ObjectList, opts ...client.ListOption) func() error {
	return withClient().List(list, opts...)
}

// Update is [Komega.Update] with the client that SetClient has set, without which it panics.
func Update(obj client.Object, f func(), opts ...client.UpdateOption) func() error {
	return withClient().Update(obj, f, opts...)
}

// UpdateStatus is [Komega.UpdateStatus] with the client that SetClient has set, without which it
// panics.
func UpdateStatus(obj client.Object, f func(), opts ...client.SubResourceUpdateOption) func() error {
	return withClient().UpdateStatus(obj, f, opts...)
}

// Object is [Komega.Object] with the client that SetClient has set, without which it panics.
func Object(obj client.Object) func() (client.Object, error) { return withClient().Object(obj) }

// ObjectList is [Komega.ObjectList] with the client that SetClient has set, without which it
// panics.
func ObjectList(list client.ObjectList, opts ...client.ListOption) func() (client.ObjectList, error) {
	return withClient().ObjectList(list, opts...)
}
