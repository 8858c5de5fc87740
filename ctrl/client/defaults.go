package client

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// NewDryRunClient returns a client that makes every write a dry run: the responses are as for real
// writes, but nothing is stored.
func NewDryRunClient(c Client) Client {
	return &defaulting{Client: c, writeDefaults: writeDefaults{dryRun: true}}
}

// WithFieldOwner returns a client that writes with fieldOwner as the field manager by default.
func WithFieldOwner(c Client, fieldOwner string) Client {
	return &defaulting{Client: c, writeDefaults: writeDefaults{owner: fieldOwner}}
}

// WithFieldValidation returns a client that writes with this validation of unknown and duplicate
// fields by default. Apply is always strict.
func WithFieldValidation(c Client, validation FieldValidation) Client {
	return &defaulting{Client: c, writeDefaults: writeDefaults{validation: string(validation)}}
}

// writeDefaults are options of every write. The field owner and the validation precede the caller's
// options, which may override them; the dry run follows them.
type writeDefaults struct {
	dryRun     bool
	owner      string
	validation string
}

// around returns before, the caller's options and, for a dry run, after.
func around[O any](d writeDefaults, opts []O, before, after O) []O {
	all := append(make([]O, 0, len(opts)+2), before)
	all = append(all, opts...)
	if d.dryRun {
		all = append(all, after)
	}
	return all
}

// defaulting is a client that adds options to every write.
type defaulting struct {
	Client
	writeDefaults
}

func (c *defaulting) Create(ctx context.Context, obj Object, opts ...CreateOption) error {
	before := &CreateOptions{FieldManager: c.owner, FieldValidation: c.validation}
	return c.Client.Create(ctx, obj, around[CreateOption](c.writeDefaults, opts, before, DryRunAll)...)
}

func (c *defaulting) Update(ctx context.Context, obj Object, opts ...UpdateOption) error {
	before := &UpdateOptions{FieldManager: c.owner, FieldValidation: c.validation}
	return c.Client.Update(ctx, obj, around[UpdateOption](c.writeDefaults, opts, before, DryRunAll)...)
}

func (c *defaulting) Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error {
	before := &PatchOptions{FieldManager: c.owner, FieldValidation: c.validation}
	return c.Client.Patch(ctx, obj, patch, around[PatchOption](c.writeDefaults, opts, before, DryRunAll)...)
}

func (c *defaulting) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error {
	before := &ApplyOptions{FieldManager: c.owner}
	return c.Client.Apply(ctx, obj, around[ApplyOption](c.writeDefaults, opts, before, DryRunAll)...)
}

func (c *defaulting) Delete(ctx context.Context, obj Object, opts ...DeleteOption) error {
	return c.Client.Delete(ctx, obj, around[DeleteOption](c.writeDefaults, opts, &DeleteOptions{}, DryRunAll)...)
}

func (c *defaulting) DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error {
	return c.Client.DeleteAllOf(ctx, obj,
		around[DeleteAllOfOption](c.writeDefaults, opts, &DeleteAllOfOptions{}, DryRunAll)...)
}

func (c *defaulting) Status() SubResourceWriter { return c.SubResource("status") }

func (c *defaulting) SubResource(subResource string) SubResourceClient {
	return &defaultingSubResource{SubResourceClient: c.Client.SubResource(subResource), writeDefaults: c.writeDefaults}
}

// defaultingSubResource adds the defaults of writes to a subresource client.
type defaultingSubResource struct {
	SubResourceClient
	writeDefaults
}

func (s *defaultingSubResource) Create(
	ctx context.Context, obj, subResource Object, opts ...SubResourceCreateOption,
) error {
	before := &SubResourceCreateOptions{CreateOptions{FieldManager: s.owner, FieldValidation: s.validation}}
	return s.SubResourceClient.Create(ctx, obj, subResource,
		around[SubResourceCreateOption](s.writeDefaults, opts, before, DryRunAll)...)
}

func (s *defaultingSubResource) Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error {
	before := &SubResourceUpdateOptions{UpdateOptions: UpdateOptions{FieldManager: s.owner, FieldValidation: s.validation}}
	return s.SubResourceClient.Update(ctx, obj,
		around[SubResourceUpdateOption](s.writeDefaults, opts, before, DryRunAll)...)
}

func (s *defaultingSubResource) Patch(
	ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption,
) error {
	before := &SubResourcePatchOptions{PatchOptions: PatchOptions{FieldManager: s.owner, FieldValidation: s.validation}}
	return s.SubResourceClient.Patch(ctx, obj, patch,
		around[SubResourcePatchOption](s.writeDefaults, opts, before, DryRunAll)...)
}

func (s *defaultingSubResource) Apply(
	ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption,
) error {
	before := &SubResourceApplyOptions{ApplyOptions: ApplyOptions{FieldManager: s.owner}}
	return s.SubResourceClient.Apply(ctx, obj, around[SubResourceApplyOption](s.writeDefaults, opts, before, DryRunAll)...)
}
