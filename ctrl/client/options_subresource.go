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

// ApplyToSubResourceGet copies what is set into o.
func (getOpt *SubResourceGetOptions) ApplyToSubResourceGet(o *SubResourceGetOptions) {
	if getOpt.Raw != nil {
		o.Raw = getOpt.Raw
	}
}

// ApplyOptions applies opts in order and returns the receiver.
func (getOpt *SubResourceGetOptions) ApplyOptions(opts []SubResourceGetOption) *SubResourceGetOptions {
	for _, o := range opts {
		o.ApplyToSubResourceGet(getOpt)
	}
	return getOpt
}

// AsGetOptions returns the options that are sent: Raw, if it is set.
func (getOpt *SubResourceGetOptions) AsGetOptions() *metav1.GetOptions {
	if getOpt.Raw == nil {
		return &metav1.GetOptions{}
	}
	return getOpt.Raw
}

// SubResourceCreateOptions are the options of creating a subresource.
type SubResourceCreateOptions struct {
	CreateOptions
}

// ApplyOptions applies opts in order and returns the receiver.
func (co *SubResourceCreateOptions) ApplyOptions(opts []SubResourceCreateOption) *SubResourceCreateOptions {
	for _, o := range opts {
		o.ApplyToSubResourceCreate(co)
	}
	return co
}

// ApplyToSubResourceCreate copies what is set into o.
func (co *SubResourceCreateOptions) ApplyToSubResourceCreate(o *SubResourceCreateOptions) {
	co.ApplyToCreate(&o.CreateOptions)
}

// SubResourceUpdateOptions are the options of updating a subresource.
type SubResourceUpdateOptions struct {
	UpdateOptions
	// SubResourceBody is sent instead of the object, for subresources with a type of their own.
	SubResourceBody Object
}

// ApplyOptions applies opts in order and returns the receiver.
func (uo *SubResourceUpdateOptions) ApplyOptions(opts []SubResourceUpdateOption) *SubResourceUpdateOptions {
	for _, o := range opts {
		o.ApplyToSubResourceUpdate(uo)
	}
	return uo
}

// ApplyToSubResourceUpdate copies what is set into o.
func (uo *SubResourceUpdateOptions) ApplyToSubResourceUpdate(o *SubResourceUpdateOptions) {
	uo.ApplyToUpdate(&o.UpdateOptions)
	if uo.SubResourceBody != nil {
		o.SubResourceBody = uo.SubResourceBody
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
func (po *SubResourcePatchOptions) ApplyOptions(opts []SubResourcePatchOption) *SubResourcePatchOptions {
	for _, o := range opts {
		o.ApplyToSubResourcePatch(po)
	}
	return po
}

// ApplyToSubResourcePatch copies what is set into o.
func (po *SubResourcePatchOptions) ApplyToSubResourcePatch(o *SubResourcePatchOptions) {
	po.ApplyToPatch(&o.PatchOptions)
	if po.SubResourceBody != nil {
		o.SubResourceBody = po.SubResourceBody
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
func (ao *SubResourceApplyOptions) ApplyOpts(opts []SubResourceApplyOption) *SubResourceApplyOptions {
	for _, o := range opts {
		o.ApplyToSubResourceApply(ao)
	}
	return ao
}

// ApplyToSubResourceApply copies what is set into o.
func (ao *SubResourceApplyOptions) ApplyToSubResourceApply(o *SubResourceApplyOptions) {
	ao.ApplyToApply(&o.ApplyOptions)
	if ao.SubResourceBody != nil {
		o.SubResourceBody = ao.SubResourceBody
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

func (b subResourceBody) ApplyToSubResourceUpdate(o *SubResourceUpdateOptions) {
	o.SubResourceBody = b.body
}

func (b subResourceBody) ApplyToSubResourcePatch(o *SubResourcePatchOptions) {
	o.SubResourceBody = b.body
}
