package client

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CreateOptions are the options of a create request.
type CreateOptions struct {
	// DryRun is empty or "All": process the request without storing the result.
	DryRun []string

	// FieldManager is the field manager of the fields that are set.
	FieldManager string

	// FieldValidation is how the server handles unknown and duplicate fields: "Ignore", "Warn" or
	// "Strict". The server's default if empty.
	FieldValidation string

	// DisableReadYourWritesConsistency excludes this write from cached reads until the watch
	// delivers it.
	DisableReadYourWritesConsistency bool

	// Raw is the base of the options that are sent; the fields above override it if they are set.
	Raw *metav1.CreateOptions
}

// AsCreateOptions returns the options that are sent. The caller owns the result.
func (o *CreateOptions) AsCreateOptions() *metav1.CreateOptions {
	out := &metav1.CreateOptions{}
	if o == nil {
		return out
	}
	if o.Raw != nil {
		*out = *o.Raw
	}
	override(&out.DryRun, &out.FieldManager, &out.FieldValidation, o.DryRun, o.FieldManager, o.FieldValidation)
	return out
}

// override replaces the options that the three kinds of writes have in common, if they are set.
func override(dryRun *[]string, manager, validation *string, newDryRun []string, newManager, newValidation string) {
	if newDryRun != nil {
		*dryRun = newDryRun
	}
	if newManager != "" {
		*manager = newManager
	}
	if newValidation != "" {
		*validation = newValidation
	}
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *CreateOptions) ApplyOptions(opts []CreateOption) *CreateOptions {
	for _, opt := range opts {
		opt.ApplyToCreate(o)
	}
	return o
}

// ApplyToCreate copies the options that are set into co.
func (o *CreateOptions) ApplyToCreate(co *CreateOptions) {
	override(&co.DryRun, &co.FieldManager, &co.FieldValidation, o.DryRun, o.FieldManager, o.FieldValidation)
	if o.DisableReadYourWritesConsistency {
		co.DisableReadYourWritesConsistency = true
	}
	if o.Raw != nil {
		co.Raw = o.Raw
	}
}

// UpdateOptions are the options of an update request.
type UpdateOptions struct {
	// DryRun is empty or "All": process the request without storing the result.
	DryRun []string

	// FieldManager is the field manager of the fields that are set.
	FieldManager string

	// FieldValidation is how the server handles unknown and duplicate fields: "Ignore", "Warn" or
	// "Strict". The server's default if empty.
	FieldValidation string

	// DisableReadYourWritesConsistency excludes this write from cached reads until the watch
	// delivers it.
	DisableReadYourWritesConsistency bool

	// Raw is the base of the options that are sent; the fields above override it if they are set.
	Raw *metav1.UpdateOptions
}

// AsUpdateOptions returns the options that are sent. The caller owns the result.
func (o *UpdateOptions) AsUpdateOptions() *metav1.UpdateOptions {
	out := &metav1.UpdateOptions{}
	if o == nil {
		return out
	}
	if o.Raw != nil {
		*out = *o.Raw
	}
	override(&out.DryRun, &out.FieldManager, &out.FieldValidation, o.DryRun, o.FieldManager, o.FieldValidation)
	return out
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *UpdateOptions) ApplyOptions(opts []UpdateOption) *UpdateOptions {
	for _, opt := range opts {
		opt.ApplyToUpdate(o)
	}
	return o
}

// ApplyToUpdate copies the options that are set into uo.
func (o *UpdateOptions) ApplyToUpdate(uo *UpdateOptions) {
	override(&uo.DryRun, &uo.FieldManager, &uo.FieldValidation, o.DryRun, o.FieldManager, o.FieldValidation)
	if o.DisableReadYourWritesConsistency {
		uo.DisableReadYourWritesConsistency = true
	}
	if o.Raw != nil {
		uo.Raw = o.Raw
	}
}

// PatchOptions are the options of a patch request.
type PatchOptions struct {
	// DryRun is empty or "All": process the request without storing the result.
	DryRun []string

	// Force makes an apply patch take over fields that others manage. It must
	// not be set for other patches.
	Force *bool

	// FieldManager is the field manager of the fields that are set. Required for an apply patch.
	FieldManager string

	// FieldValidation is how the server handles unknown and duplicate fields: "Ignore", "Warn" or
	// "Strict". The server's default if empty.
	FieldValidation string

	// DisableReadYourWritesConsistency excludes this write from cached reads until the watch
	// delivers it.
	DisableReadYourWritesConsistency bool

	// Raw is the base of the options that are sent; the fields above override it if they are set.
	Raw *metav1.PatchOptions
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *PatchOptions) ApplyOptions(opts []PatchOption) *PatchOptions {
	for _, opt := range opts {
		opt.ApplyToPatch(o)
	}
	return o
}

// AsPatchOptions returns the options that are sent. The caller owns the result.
func (o *PatchOptions) AsPatchOptions() *metav1.PatchOptions {
	out := &metav1.PatchOptions{}
	if o == nil {
		return out
	}
	if o.Raw != nil {
		*out = *o.Raw
	}
	override(&out.DryRun, &out.FieldManager, &out.FieldValidation, o.DryRun, o.FieldManager, o.FieldValidation)
	if o.Force != nil {
		out.Force = o.Force
	}
	return out
}

// ApplyToPatch copies the options that are set into po.
func (o *PatchOptions) ApplyToPatch(po *PatchOptions) {
	override(&po.DryRun, &po.FieldManager, &po.FieldValidation, o.DryRun, o.FieldManager, o.FieldValidation)
	if o.Force != nil {
		po.Force = o.Force
	}
	if o.DisableReadYourWritesConsistency {
		po.DisableReadYourWritesConsistency = true
	}
	if o.Raw != nil {
		po.Raw = o.Raw
	}
}

// ApplyOptions are the options of an apply request.
type ApplyOptions struct {
	// DryRun is empty or "All": process the request without storing the result.
	DryRun []string

	// Force takes over fields that others manage, instead of failing with a
	// conflict.
	Force *bool

	// FieldManager is the field manager of the applied fields. Required; at most 128 printable
	// characters.
	FieldManager string

	// DisableReadYourWritesConsistency excludes this write from cached reads until the watch
	// delivers it.
	DisableReadYourWritesConsistency bool
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *ApplyOptions) ApplyOptions(opts []ApplyOption) *ApplyOptions {
	for _, opt := range opts {
		opt.ApplyToApply(o)
	}
	return o
}

// ApplyToApply copies the options that are set into opts.
func (o *ApplyOptions) ApplyToApply(opts *ApplyOptions) {
	if o.DryRun != nil {
		opts.DryRun = o.DryRun
	}
	if o.Force != nil {
		opts.Force = o.Force
	}
	if o.FieldManager != "" {
		opts.FieldManager = o.FieldManager
	}
	if o.DisableReadYourWritesConsistency {
		opts.DisableReadYourWritesConsistency = true
	}
}

// AsPatchOptions returns the options that are sent, as an apply is a type of patch.
func (o *ApplyOptions) AsPatchOptions() *metav1.PatchOptions {
	return &metav1.PatchOptions{DryRun: o.DryRun, Force: o.Force, FieldManager: o.FieldManager}
}
