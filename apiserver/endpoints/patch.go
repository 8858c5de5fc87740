package endpoints

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/registry/rest"
	kjson "sigs.k8s.io/json"
)

// patch serves a usual patch: a merge patch or a strategic merge patch.
func (w *write) patch(ctx context.Context, storage rest.Updater) (runtime.Object, error) {
	contentType, _, _ := strings.Cut(w.request.Header.Get("Content-Type"), ";")
	strategic := false
	switch types.PatchType(contentType) {
	case types.MergePatchType:
	case types.StrategicMergePatchType:
		strategic = true
	default:
		return nil, errUnusual
	}
	patch, err := w.parsePatch()
	if err != nil || !w.accepts(contentType) {
		return nil, errUnusual
	}
	audit.LogRequestPatch(ctx, w.body)
	return w.replace(ctx, storage, "", func(old object) (object, error) {
		if strategic && !isMergePatch(patch) {
			return w.strategicMerge(old)
		}
		return w.merge(old, patch)
	})
}

// accepts reports whether the resource can be patched with a content type.
func (w *write) accepts(contentType string) bool {
	for _, accepted := range w.resource.PatchTypes {
		if accepted == contentType {
			return true
		}
	}
	return false
}

// parsePatch returns the patch in the body. One that has a field twice, or says of what kind it is, or
// who manages the object, is not usual.
func (w *write) parsePatch() (map[string]any, error) {
	var patch map[string]any
	strict, err := kjson.UnmarshalStrict(w.body, &patch)
	if err != nil || len(strict) > 0 || w.parameters.force != nil || patch == nil {
		return nil, errUnusual
	}
	metadata, _ := patch["metadata"].(map[string]any)
	_, managed := metadata["managedFields"]
	_, version := patch["apiVersion"]
	_, kind := patch["kind"]
	if managed || version || kind || hasNullInList(patch) {
		return nil, errUnusual
	}
	return patch, nil
}

// merge returns a copy of an object with a merge patch applied.
func (w *write) merge(old object, patch map[string]any) (object, error) {
	obj := old.DeepCopyObject()
	if u, ok := obj.(*unstructured.Unstructured); ok {
		mergeJSON(u.Object, patch)
	} else if !mergeValue(obj, patch) {
		return nil, errUnusual
	}
	return w.decodeWith(parsed{obj, w.resource.Kind}, nil)
}

// strategicMerge returns an object with the strategic merge patch in the body applied.
func (w *write) strategicMerge(old object) (object, error) {
	patch, err := w.parsePatch() // its own, since it is changed
	if err != nil {
		return nil, err
	}
	scope := w.resource.Scope
	if scope.Kind.GroupVersion() != scope.HubGroupVersion || !retainsStrings(patch) {
		return nil, errUnusual
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(old)
	if err != nil {
		return nil, err
	}
	patched, err := strategicpatch.StrategicMergeMapPatch(content, patch, w.new())
	if err != nil {
		return nil, err
	}
	obj := w.new()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(patched, obj, true); err != nil {
		return nil, err
	}
	return w.decodeWith(parsed{obj, w.resource.Kind}, nil)
}

// parsed is a decoder whose document is an object already. What a negotiated serializer puts around
// it defaults and converts the object as if it had been decoded.
type parsed struct {
	object runtime.Object
	kind   schema.GroupVersionKind
}

// Decode implements [runtime.Decoder].
func (p parsed) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return p.object, &p.kind, nil
}

// IsStrict makes unknown fields an error.
func (p parsed) IsStrict() bool { return true }
