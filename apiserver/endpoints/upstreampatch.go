package endpoints

import (
	"context"
	stderrors "errors"
	"fmt"
	"net/http"
	goruntime "runtime"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
)

// patchStorage is the storage of the objects that a request patches. The patch handler of k8s.io/apiserver returns a
// plain error, and so a 500 response, for patches that cannot be applied, such as an apply with an unknown field.
type patchStorage struct {
	rest.Patcher
	kind  types.PatchType
	patch []byte
}

// newPatchStorage returns the storage for the patch in a request.
func newPatchStorage(storage rest.Patcher, r *http.Request) patchStorage {
	p := patchStorage{Patcher: storage}
	contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	p.kind = types.PatchType(contentType)
	if body, ok := r.Body.(*bufferedBody); ok {
		p.patch = body.bytes
	}
	return p
}

func (p patchStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, orCreate bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return p.Patcher.Update(ctx, name, patchInfo{info, p.kind, p.patch}, create, update, orCreate, options)
}

// patchInfo refuses patches that cost too much, and translates the errors of the patch handler.
type patchInfo struct {
	rest.UpdatedObjectInfo
	kind  types.PatchType
	patch []byte
}

func (p patchInfo) UpdatedObject(ctx context.Context, old runtime.Object) (obj runtime.Object, err error) {
	defer recoverMerge(&err)
	if err := checkPatchCost(p.kind, p.patch, old); err != nil {
		return nil, err
	}
	obj, err = p.UpdatedObjectInfo.UpdatedObject(ctx, old)
	return obj, patchError(ctx, err)
}

// patchError returns the API error for an error of a patch.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.interpretStrategicMergePatchError
func patchError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && !stderrors.As(err, new(errors.APIStatus)) {
		return errors.NewBadRequest(err.Error())
	}
	return err
}

// errMerge is returned for a strategic merge patch that makes apimachinery panic, because a directive or a merge key
// has an unexpected type.
var errMerge = errors.NewBadRequest("invalid strategic merge patch: a directive or a merge key has a value of a wrong type")

// recoverMerge is deferred. It turns a panic of apimachinery's strategic merge into an error; other panics continue.
func recoverMerge(err *error) {
	if mergePanics() {
		_ = recover()
		*err = errMerge
	}
}

// mergePanics reports whether the goroutine panics in apimachinery's strategic merge, or in a runtime function that the
// merge called.
func mergePanics() bool {
	var callers [32]uintptr
	frames := goruntime.CallersFrames(callers[:goruntime.Callers(1, callers[:])])
	panicking := false
	for {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.") || strings.HasPrefix(frame.Function, "internal/runtime/")
		if panicking && !inRuntime {
			return strings.HasPrefix(frame.Function, "k8s.io/apimachinery/pkg/util/strategicpatch.")
		}
		panicking = panicking || frame.Function == "runtime.gopanic"
		if !more {
			return false
		}
	}
}

// depthLimitedSerializer is a serializer that refuses documents nested too deep. It is for the results of patches: the
// JSON may be deeper than the object and the patch. readBody checks bodies.
type depthLimitedSerializer struct {
	runtime.NegotiatedSerializer
	typed bool // it decodes to Go types
}

func (s depthLimitedSerializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return depthLimitedDecoder{s.NegotiatedSerializer.DecoderToVersion(d, gv), s.typed}
}

// depthLimitedDecoder refuses documents that are nested too deep or have too many objects.
type depthLimitedDecoder struct {
	runtime.Decoder
	typed bool
}

func (d depthLimitedDecoder) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if jsonTooDeep(data) {
		return nil, nil, fmt.Errorf("the object would be nested more than %d levels deep", maxDepth)
	}
	if n := objectsOfJSON(data); d.typed && n > maxObjects {
		return nil, nil, fmt.Errorf("the object would have %d objects and nulls, more than %d", n, maxObjects)
	}
	return d.Decoder.Decode(data, defaults, into)
}
