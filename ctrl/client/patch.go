package client

import (
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

var (
	// Apply sends the object itself as a server-side apply patch. The object
	// must have its kind set and no managed fields.
	//
	// Deprecated: Use [Writer.Apply], which takes an apply configuration and so distinguishes a zero
	// value from a field that is not set.
	Apply Patch = wholeObject(types.ApplyPatchType)

	// Merge sends the object itself as a merge patch. To send only what
	// changed, use MergeFrom.
	Merge Patch = wholeObject(types.MergePatchType)
)

// wholeObject is a patch of that type. Its body is the whole object.
type wholeObject types.PatchType

func (p wholeObject) Type() types.PatchType { return types.PatchType(p) }

func (wholeObject) Data(obj Object) ([]byte, error) { return json.Marshal(obj) }

// RawPatch returns a patch of the given type with the given body.
func RawPatch(patchType types.PatchType, data []byte) Patch {
	return rawPatch{patchType, data}
}

// rawPatch is a patch with given data.
type rawPatch struct {
	patchType types.PatchType
	data      []byte
}

func (p rawPatch) Type() types.PatchType { return p.patchType }

func (p rawPatch) Data(Object) ([]byte, error) { return p.data, nil }

// MergeFromOptions are the options of a patch that is computed from two states
// of an object.
type MergeFromOptions struct {
	// OptimisticLock puts the base's resource version into the patch, so that it
	// fails with a conflict if the object has changed since.
	OptimisticLock bool
}

// MergeFromOption changes MergeFromOptions.
type MergeFromOption interface {
	// ApplyToMergeFrom applies this option.
	ApplyToMergeFrom(*MergeFromOptions)
}

// MergeFromWithOptimisticLock makes a patch fail with a conflict if the object has changed since
// the base was read, as an update does. Unlike an update, it preserves fields that the Go type does
// not have.
type MergeFromWithOptimisticLock struct{}

// ApplyToMergeFrom sets OptimisticLock.
func (m MergeFromWithOptimisticLock) ApplyToMergeFrom(in *MergeFromOptions) {
	in.OptimisticLock = true
}

// MergeFrom returns a merge patch of the difference between obj and the object that is patched.
// Lists that differ are replaced completely. obj must not be modified until the patch is sent;
// usually it is a deep copy from before the changes.
func MergeFrom(obj Object) Patch {
	return MergeFromWithOptions(obj)
}

// MergeFromWithOptions is MergeFrom with options.
func MergeFromWithOptions(obj Object, opts ...MergeFromOption) Patch {
	return newDiff(types.MergePatchType, obj, opts)
}

// StrategicMergeFrom returns a strategic merge patch of the difference between
// obj and the object that is patched. Lists are merged element by element if
// their Go type declares a merge key. Custom resources do not support it.
func StrategicMergeFrom(obj Object, opts ...MergeFromOption) Patch {
	return newDiff(types.StrategicMergePatchType, obj, opts)
}

// diff is the patch from base to the object that is patched.
type diff struct {
	patchType types.PatchType
	base      Object
	opts      MergeFromOptions
}

func newDiff(patchType types.PatchType, base Object, opts []MergeFromOption) *diff {
	d := &diff{patchType: patchType, base: base}
	for _, opt := range opts {
		opt.ApplyToMergeFrom(&d.opts)
	}
	return d
}

func (d *diff) Type() types.PatchType { return d.patchType }

// Data returns the patch from the original object to obj, with the original's resource version if
// that is wanted.
func (d *diff) Data(obj Object) ([]byte, error) {
	base, target := d.base, obj
	if d.opts.OptimisticLock {
		version := base.GetResourceVersion()
		if version == "" {
			return nil, fmt.Errorf("cannot use OptimisticLock, object %q does not have any resource version we can use",
				ObjectKeyFromObject(base))
		}
		// The patch contains only differences, so the base must not have the version.
		base = base.DeepCopyObject().(Object)
		base.SetResourceVersion("")
		target = target.DeepCopyObject().(Object)
		target.SetResourceVersion(version)
	}
	from, err := json.Marshal(base)
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(target)
	if err != nil {
		return nil, err
	}
	if d.patchType == types.StrategicMergePatchType {
		return strategicpatch.CreateTwoWayMergePatch(from, to, obj)
	}
	return jsonpatch.CreateMergePatch(from, to)
}
