package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SubResourceGetOptions are the options of reading a subresource.
type SubResourceGetOptions struct {
	// Raw is sent unchanged.
	Raw *metav1.GetOptions
}

// ApplyToSubResourceGet copies the options that are set into target.
func (o *SubResourceGetOptions) ApplyToSubResourceGet(target *SubResourceGetOptions) {
	if o.Raw != nil {
		target.Raw = o.Raw
	}
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *SubResourceGetOptions) ApplyOptions(opts []SubResourceGetOption) *SubResourceGetOptions {
	for _, opt := range opts {
		opt.ApplyToSubResourceGet(o)
	}
	return o
}

// AsGetOptions returns the options that are sent: Raw, if it is set.
func (o *SubResourceGetOptions) AsGetOptions() *metav1.GetOptions {
	if o.Raw == nil {
		return &metav1.GetOptions{}
	}
	return o.Raw
}

// SubResourceCreateOptions are the options of creating a subresource.
type SubResourceCreateOptions struct {
	CreateOptions
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *SubResourceCreateOptions) ApplyOptions(opts []SubResourceCreateOption) *SubResourceCreateOptions {
	for _, opt := range opts {
		opt.ApplyToSubResourceCreate(o)
	}
	return o
}

// ApplyToSubResourceCreate copies the options that are set into target.
func (o *SubResourceCreateOptions) ApplyToSubResourceCreate(target *SubResourceCreateOptions) {
	o.ApplyToCreate(&target.CreateOptions)
}

// SubResourceUpdateOptions are the options of updating a subresource.
type SubResourceUpdateOptions struct {
	UpdateOptions
	// SubResourceBody is sent instead of the object, for subresources with a type of their own.
	SubResourceBody Object
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *SubResourceUpdateOptions) ApplyOptions(opts []SubResourceUpdateOption) *SubResourceUpdateOptions {
	for _, opt := range opts {
		opt.ApplyToSubResourceUpdate(o)
	}
	return o
}

// ApplyToSubResourceUpdate copies the options that are set into target.
func (o *SubResourceUpdateOptions) ApplyToSubResourceUpdate(target *SubResourceUpdateOptions) {
	o.ApplyToUpdate(&target.UpdateOptions)
	if o.SubResourceBody != nil {
		target.SubResourceBody = o.SubResourceBody
	}
}

// SubResourcePatchOptions are the options of patching a subresource.
type SubResourcePatchOptions struct {
	PatchOptions
	// SubResourceBody is the object that the patch is computed from, for subresources with a type
	// of their own.
	SubResourceBody Object
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *SubResourcePatchOptions) ApplyOptions(opts []SubResourcePatchOption) *SubResourcePatchOptions {
	for _, opt := range opts {
		opt.ApplyToSubResourcePatch(o)
	}
	return o
}

// ApplyToSubResourcePatch copies the options that are set into target.
func (o *SubResourcePatchOptions) ApplyToSubResourcePatch(target *SubResourcePatchOptions) {
	o.ApplyToPatch(&target.PatchOptions)
	if o.SubResourceBody != nil {
		target.SubResourceBody = o.SubResourceBody
	}
}

// SubResourceApplyOptions are the options of applying to a subresource.
type SubResourceApplyOptions struct {
	ApplyOptions
	// SubResourceBody is sent instead of the configuration, for subresources with a type of their
	// own.
	SubResourceBody runtime.ApplyConfiguration
}

// ApplyOpts applies opts in order and returns the receiver.
func (o *SubResourceApplyOptions) ApplyOpts(opts []SubResourceApplyOption) *SubResourceApplyOptions {
	for _, opt := range opts {
		opt.ApplyToSubResourceApply(o)
	}
	return o
}

// ApplyToSubResourceApply copies the options that are set into target.
func (o *SubResourceApplyOptions) ApplyToSubResourceApply(target *SubResourceApplyOptions) {
	o.ApplyToApply(&target.ApplyOptions)
	if o.SubResourceBody != nil {
		target.SubResourceBody = o.SubResourceBody
	}
}

// SubResourceUpdateAndPatchOption is an option of both updating and patching a
// subresource.
type SubResourceUpdateAndPatchOption interface {
	SubResourceUpdateOption
	SubResourcePatchOption
}

// WithSubResourceBody sends body instead of the object, for subresources with a type of their own.
// The response overwrites it.
func WithSubResourceBody(body Object) SubResourceUpdateAndPatchOption {
	return subResourceBody{body}
}

// subResourceBody is the option WithSubResourceBody.
type subResourceBody struct{ body Object }

func (b subResourceBody) ApplyToSubResourceUpdate(target *SubResourceUpdateOptions) {
	target.SubResourceBody = b.body
}

func (b subResourceBody) ApplyToSubResourcePatch(target *SubResourcePatchOptions) {
	target.SubResourceBody = b.body
}
