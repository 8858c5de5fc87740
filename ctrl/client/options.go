package client

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// An option has a method for each verb that it applies to. The option structs are options
// themselves: their fields that are set are copied to the target.

// CreateOption changes the options of a create request.
type CreateOption interface {
	// ApplyToCreate applies this option.
	ApplyToCreate(*CreateOptions)
}

// DeleteOption changes the options of a delete request.
type DeleteOption interface {
	// ApplyToDelete applies this option.
	ApplyToDelete(*DeleteOptions)
}

// GetOption changes the options of a get request.
type GetOption interface {
	// ApplyToGet applies this option.
	ApplyToGet(*GetOptions)
}

// ListOption changes the options of a list request.
type ListOption interface {
	// ApplyToList applies this option.
	ApplyToList(*ListOptions)
}

// UpdateOption changes the options of an update request.
type UpdateOption interface {
	// ApplyToUpdate applies this option.
	ApplyToUpdate(*UpdateOptions)
}

// PatchOption changes the options of a patch request.
type PatchOption interface {
	// ApplyToPatch applies this option.
	ApplyToPatch(*PatchOptions)
}

// ApplyOption changes the options of an apply request.
type ApplyOption interface {
	// ApplyToApply applies this option.
	ApplyToApply(*ApplyOptions)
}

// DeleteAllOfOption changes the options of a request that deletes a collection.
type DeleteAllOfOption interface {
	// ApplyToDeleteAllOf applies this option.
	ApplyToDeleteAllOf(*DeleteAllOfOptions)
}

// SubResourceGetOption changes the options of reading a subresource.
type SubResourceGetOption interface {
	// ApplyToSubResourceGet applies this option.
	ApplyToSubResourceGet(*SubResourceGetOptions)
}

// SubResourceUpdateOption changes the options of updating a subresource.
type SubResourceUpdateOption interface {
	// ApplyToSubResourceUpdate applies this option.
	ApplyToSubResourceUpdate(*SubResourceUpdateOptions)
}

// SubResourceCreateOption changes the options of creating a subresource.
type SubResourceCreateOption interface {
	// ApplyToSubResourceCreate applies this option.
	ApplyToSubResourceCreate(*SubResourceCreateOptions)
}

// SubResourcePatchOption changes the options of patching a subresource.
type SubResourcePatchOption interface {
	// ApplyToSubResourcePatch applies this option.
	ApplyToSubResourcePatch(*SubResourcePatchOptions)
}

// SubResourceApplyOption changes the options of applying to a subresource.
type SubResourceApplyOption interface {
	// ApplyToSubResourceApply applies this option.
	ApplyToSubResourceApply(*SubResourceApplyOptions)
}

// DryRunAll makes a write a dry run: the server responds as to a real write, but stores nothing.
var DryRunAll = dryRunAll{}

// dryRunAll is the option DryRunAll.
type dryRunAll struct{}

func (dryRunAll) all() []string { return []string{metav1.DryRunAll} }

// ApplyToCreate sets DryRun.
func (d dryRunAll) ApplyToCreate(opts *CreateOptions) { opts.DryRun = d.all() }

// ApplyToUpdate sets DryRun.
func (d dryRunAll) ApplyToUpdate(opts *UpdateOptions) { opts.DryRun = d.all() }

// ApplyToPatch sets DryRun.
func (d dryRunAll) ApplyToPatch(opts *PatchOptions) { opts.DryRun = d.all() }

// ApplyToApply sets DryRun.
func (d dryRunAll) ApplyToApply(opts *ApplyOptions) { opts.DryRun = d.all() }

// ApplyToDelete sets DryRun.
func (d dryRunAll) ApplyToDelete(opts *DeleteOptions) { opts.DryRun = d.all() }

// ApplyToDeleteAllOf sets DryRun.
func (d dryRunAll) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) { opts.DryRun = d.all() }

// ApplyToSubResourceCreate sets DryRun.
func (d dryRunAll) ApplyToSubResourceCreate(opts *SubResourceCreateOptions) { opts.DryRun = d.all() }

// ApplyToSubResourceUpdate sets DryRun.
func (d dryRunAll) ApplyToSubResourceUpdate(opts *SubResourceUpdateOptions) { opts.DryRun = d.all() }

// ApplyToSubResourcePatch sets DryRun.
func (d dryRunAll) ApplyToSubResourcePatch(opts *SubResourcePatchOptions) { opts.DryRun = d.all() }

// ApplyToSubResourceApply sets DryRun.
func (d dryRunAll) ApplyToSubResourceApply(opts *SubResourceApplyOptions) { opts.DryRun = d.all() }

// FieldOwner sets the field manager of a write.
type FieldOwner string

// ApplyToPatch sets FieldManager.
func (f FieldOwner) ApplyToPatch(opts *PatchOptions) { opts.FieldManager = string(f) }

// ApplyToCreate sets FieldManager.
func (f FieldOwner) ApplyToCreate(opts *CreateOptions) { opts.FieldManager = string(f) }

// ApplyToUpdate sets FieldManager.
func (f FieldOwner) ApplyToUpdate(opts *UpdateOptions) { opts.FieldManager = string(f) }

// ApplyToApply sets FieldManager.
func (f FieldOwner) ApplyToApply(opts *ApplyOptions) { opts.FieldManager = string(f) }

// ApplyToSubResourcePatch sets FieldManager.
func (f FieldOwner) ApplyToSubResourcePatch(opts *SubResourcePatchOptions) {
	opts.FieldManager = string(f)
}

// ApplyToSubResourceCreate sets FieldManager.
func (f FieldOwner) ApplyToSubResourceCreate(opts *SubResourceCreateOptions) {
	opts.FieldManager = string(f)
}

// ApplyToSubResourceUpdate sets FieldManager.
func (f FieldOwner) ApplyToSubResourceUpdate(opts *SubResourceUpdateOptions) {
	opts.FieldManager = string(f)
}

// ApplyToSubResourceApply sets FieldManager.
func (f FieldOwner) ApplyToSubResourceApply(opts *SubResourceApplyOptions) {
	opts.FieldManager = string(f)
}

// ForceOwnership makes an apply take over fields that others manage, instead of failing with a
// conflict. Controllers usually set it, as they own what they write.
var ForceOwnership = forceOwnership{}

// forceOwnership is the option ForceOwnership.
type forceOwnership struct{}

// ApplyToPatch sets Force.
func (forceOwnership) ApplyToPatch(opts *PatchOptions) { opts.Force = new(true) }

// ApplyToSubResourcePatch sets Force.
func (forceOwnership) ApplyToSubResourcePatch(opts *SubResourcePatchOptions) { opts.Force = new(true) }

// ApplyToApply sets Force.
func (forceOwnership) ApplyToApply(opts *ApplyOptions) { opts.Force = new(true) }

// ApplyToSubResourceApply sets Force.
func (forceOwnership) ApplyToSubResourceApply(opts *SubResourceApplyOptions) { opts.Force = new(true) }

// FieldValidation is how the server handles unknown and duplicate fields: "Ignore", "Warn" or
// "Strict" (the metav1.FieldValidation constants).
type FieldValidation string

// ApplyToPatch sets FieldValidation.
func (f FieldValidation) ApplyToPatch(opts *PatchOptions) { opts.FieldValidation = string(f) }

// ApplyToCreate sets FieldValidation.
func (f FieldValidation) ApplyToCreate(opts *CreateOptions) { opts.FieldValidation = string(f) }

// ApplyToUpdate sets FieldValidation.
func (f FieldValidation) ApplyToUpdate(opts *UpdateOptions) { opts.FieldValidation = string(f) }

// ApplyToSubResourcePatch sets FieldValidation.
func (f FieldValidation) ApplyToSubResourcePatch(opts *SubResourcePatchOptions) {
	opts.FieldValidation = string(f)
}

// ApplyToSubResourceCreate sets FieldValidation.
func (f FieldValidation) ApplyToSubResourceCreate(opts *SubResourceCreateOptions) {
	opts.FieldValidation = string(f)
}

// ApplyToSubResourceUpdate sets FieldValidation.
func (f FieldValidation) ApplyToSubResourceUpdate(opts *SubResourceUpdateOptions) {
	opts.FieldValidation = string(f)
}

// DisableReadYourWritesConsistency disables read-your-writes consistency for one request. A read
// returns only what the watch has delivered; a write is excluded from reads until the watch
// delivers it. It has no effect on reads from the server.
const DisableReadYourWritesConsistency = disableReadYourWritesConsistency(true)

// disableReadYourWritesConsistency is the option DisableReadYourWritesConsistency.
type disableReadYourWritesConsistency bool

// ApplyToGet sets DisableReadYourWritesConsistency.
func (disableReadYourWritesConsistency) ApplyToGet(opts *GetOptions) {
	opts.DisableReadYourWritesConsistency = true
}

// ApplyToList sets DisableReadYourWritesConsistency.
func (disableReadYourWritesConsistency) ApplyToList(opts *ListOptions) {
	opts.DisableReadYourWritesConsistency = true
}

// ApplyToCreate sets DisableReadYourWritesConsistency.
func (disableReadYourWritesConsistency) ApplyToCreate(opts *CreateOptions) {
	opts.DisableReadYourWritesConsistency = true
}

// ApplyToUpdate sets DisableReadYourWritesConsistency.
func (disableReadYourWritesConsistency) ApplyToUpdate(opts *UpdateOptions) {
	opts.DisableReadYourWritesConsistency = true
}

// ApplyToPatch sets DisableReadYourWritesConsistency.
func (disableReadYourWritesConsistency) ApplyToPatch(opts *PatchOptions) {
	opts.DisableReadYourWritesConsistency = true
}

// ApplyToApply sets DisableReadYourWritesConsistency.
func (disableReadYourWritesConsistency) ApplyToApply(opts *ApplyOptions) {
	opts.DisableReadYourWritesConsistency = true
}

// ApplyToDelete sets DisableReadYourWritesConsistency.
func (disableReadYourWritesConsistency) ApplyToDelete(opts *DeleteOptions) {
	opts.DisableReadYourWritesConsistency = true
}

// ApplyToSubResourceCreate sets DisableReadYourWritesConsistency.
func (disableReadYourWritesConsistency) ApplyToSubResourceCreate(opts *SubResourceCreateOptions) {
	opts.DisableReadYourWritesConsistency = true
}

// ApplyToSubResourceUpdate sets DisableReadYourWritesConsistency.
func (disableReadYourWritesConsistency) ApplyToSubResourceUpdate(opts *SubResourceUpdateOptions) {
	opts.DisableReadYourWritesConsistency = true
}

// ApplyToSubResourcePatch sets DisableReadYourWritesConsistency.
func (disableReadYourWritesConsistency) ApplyToSubResourcePatch(opts *SubResourcePatchOptions) {
	opts.DisableReadYourWritesConsistency = true
}

// ApplyToSubResourceApply sets DisableReadYourWritesConsistency.
func (disableReadYourWritesConsistency) ApplyToSubResourceApply(opts *SubResourceApplyOptions) {
	opts.DisableReadYourWritesConsistency = true
}
