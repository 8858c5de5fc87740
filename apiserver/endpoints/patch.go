package endpoints

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/registry/rest"
	kjson "sigs.k8s.io/json"

	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/resource"
)

// patch changes an existing object by a merge patch, a strategic merge patch, or an apply.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.PatchResource
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.patcher.patchResource
func (w *write) patch(ctx context.Context, storage rest.Updater) (runtime.Object, error) {
	contentType, _, _ := strings.Cut(w.request.Header.Get("Content-Type"), ";")
	if !slices.Contains(w.resource.PatchTypes, contentType) {
		return nil, errPatch
	}
	audit.LogRequestPatch(ctx, w.body)
	var change func(old object) (object, error)
	var err error
	switch types.PatchType(contentType) {
	case types.MergePatchType:
		change, err = w.mergePatch(false)
	case types.StrategicMergePatchType:
		change, err = w.mergePatch(true)
	case types.ApplyYAMLPatchType:
		change, err = w.apply(ctx)
	default:
		err = errPatch
	}
	if err != nil {
		return nil, err
	}
	result, err := w.replace(ctx, storage, "", change)
	if errors.IsNotFound(err) {
		return nil, errMissing // an apply creates it
	}
	return result, err
}

// mergePatch returns a function that applies the merge patch or strategic merge patch of the request.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.jsonPatcher
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.smpPatcher
func (w *write) mergePatch(strategic bool) (func(old object) (object, error), error) {
	patch, err := w.parsePatch()
	if err != nil {
		return nil, err
	}
	return func(old object) (object, error) {
		merge := w.merge
		if strategic && !isMergePatch(patch) {
			merge = w.strategicMerge
		}
		obj, err := merge(old, patch)
		if err != nil {
			return nil, err
		}
		return obj, w.track(old, obj)
	}, nil
}

// apply returns a function that applies the configuration of the request. The fast path does not support YAML other
// than JSON, numbers that JSON decoders treat differently, and the field manager kubectl, which keeps a copy of the
// configuration.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.applyPatcher
func (w *write) apply(ctx context.Context) (func(old object) (object, error), error) {
	var config map[string]any
	if w.parameters.fieldManager == "" || w.parameters.fieldManager == "kubectl" || bytes.ContainsAny(w.body, "\t\\") {
		return nil, errPatch
	}
	strict, err := kjson.UnmarshalStrict(w.body, &config)
	if err != nil || len(strict) > 0 || !isExact(config) || hasNull(config) {
		return nil, errPatch
	}
	u := unstructured.Unstructured{Object: config}
	if u.GroupVersionKind() != w.resource.Scope.Kind {
		return nil, errDocument
	}
	one := managedfields.Write{Manager: w.parameters.fieldManager, Operation: metav1.ManagedFieldsOperationApply,
		Subresource: w.resource.Scope.Subresource}
	force := w.parameters.force != nil && *w.parameters.force
	return func(old object) (object, error) {
		if merged, ok := w.resource.ManagedFields.Apply(ctx, old, config, one, force); ok {
			return w.shaped(merged.(object))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// The field manager of k8s.io/apiserver serves all other configurations, and finds conflicts.
		if err := checkApplied(config); err != nil {
			return nil, err
		}
		merged, err := w.resource.Scope.FieldManager.Apply(old.DeepCopyObject(), u.DeepCopy(), one.Manager, force)
		if err != nil {
			return nil, patchError(ctx, err)
		}
		return merged.(object), nil
	}, nil
}

// parsePatch returns the patch in the body. The fast path does not support duplicate fields, a kind, and managed fields
// in a patch.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.validateAndTranscodePatch
func (w *write) parsePatch() (map[string]any, error) {
	var patch map[string]any
	strict, err := kjson.UnmarshalStrict(w.body, &patch)
	if err != nil || len(strict) > 0 || w.parameters.force != nil || patch == nil {
		return nil, errPatch
	}
	metadata, _ := patch["metadata"].(map[string]any)
	_, managed := metadata["managedFields"]
	_, version := patch["apiVersion"]
	_, kind := patch["kind"]
	if managed || version || kind || hasNullInList(patch) {
		return nil, errPatch
	}
	return patch, nil
}

// merge returns a copy of an object with a merge patch applied.
func (w *write) merge(old object, patch map[string]any) (object, error) {
	if u, ok := old.(*unstructured.Unstructured); ok {
		return w.shaped(&unstructured.Unstructured{Object: mergeJSON(u.Object, patch)})
	}
	obj := old.DeepCopyObject()
	if !mergeValue(obj, patch) {
		return nil, errPatch
	}
	return w.decodeWith(parsed{obj, w.resource.Kind}, obj)
}

// shaped returns the object that decoding obj would give. An unstructured object may share parts with the stored
// object, so shaped copies it if decoding changes it.
func (w *write) shaped(obj object) (object, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if w.resource.Normalized != nil && w.resource.Normalized(u) {
			return u, nil
		}
		obj = u.DeepCopy()
	}
	return w.decodeWith(parsed{obj, w.resource.Kind}, obj)
}

// strategicMerge returns an object with a strategic merge patch applied.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.applyPatchToObject
func (w *write) strategicMerge(old object, patch map[string]any) (object, error) {
	patch = runtime.DeepCopyJSON(patch) // it is changed
	scope := w.resource.Scope
	if scope.Kind.GroupVersion() != scope.HubGroupVersion {
		return nil, errPatch
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(old)
	if err != nil {
		return nil, errPatch
	}
	obj := w.new()
	if err := checkPairs(content, patch, obj); err != nil {
		return nil, err
	}
	patched, err := mergeStrategically(content, patch, obj)
	if err != nil {
		return nil, errPatch
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(patched, obj, true); err != nil {
		return nil, errPatch
	}
	return w.decodeWith(parsed{obj, w.resource.Kind}, obj)
}

// mergeStrategically applies a patch to content and returns the result. It may change content. schema is an object of
// the Go type.
func mergeStrategically(content, patch map[string]any, schema runtime.Object) (merged map[string]any, err error) {
	defer func() {
		if recover() != nil {
			err = errMerge
		}
	}()
	return strategicpatch.StrategicMergeMapPatch(content, patch, schema)
}

// parsed is a decoder that returns an existing object instead of decoding a document. The decoders that a negotiated
// serializer wraps around it prune and default the object in place.
type parsed struct {
	object runtime.Object
	kind   schema.GroupVersionKind
}

var _ resource.StrictDecoder = parsed{}

// Decode implements [runtime.Decoder].
func (p parsed) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	p.object.GetObjectKind().SetGroupVersionKind(p.kind)
	return p.object, &p.kind, nil
}

// IsStrict returns true, so that unknown fields are errors.
func (p parsed) IsStrict() bool { return true }
