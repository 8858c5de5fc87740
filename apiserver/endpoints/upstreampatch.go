package endpoints

import (
	"bytes"
	"context"
	"encoding/json"
	stderrors "errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apiserver/pkg/registry/rest"
)

// patchStorage is storage whose objects are patched. Upstream's patches report a patch that cannot
// be applied, such as an apply with an unknown field, as a plain error, for which the response
// would be 500.
type patchStorage struct{ rest.Patcher }

func (p patchStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, orCreate bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return p.Patcher.Update(ctx, name, patchInfo{info}, create, update, orCreate, options)
}

// patchInfo translates the errors of upstream's patches.
type patchInfo struct{ rest.UpdatedObjectInfo }

func (p patchInfo) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj, err := p.UpdatedObjectInfo.UpdatedObject(ctx, old)
	if err != nil && ctx.Err() == nil && !stderrors.As(err, new(errors.APIStatus)) {
		err = errors.NewBadRequest(err.Error())
	}
	return obj, err
}

const retainKeys = "$retainKeys"

// checkDirectives refuses a strategic merge patch on which upstream would panic: one that retains a
// key that is not a string.
func checkDirectives(r *http.Request) error {
	body, ok := r.Body.(*bufferedBody)
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !ok || mediaType != string(types.StrategicMergePatchType) || !bytes.Contains(body.bytes, []byte(retainKeys)) {
		return nil
	}
	var patch any
	if err := json.Unmarshal(body.bytes, &patch); err != nil {
		return nil // upstream's error is more specific
	}
	if !retainsStrings(patch) {
		return errors.NewBadRequest(mergepatch.ErrBadPatchFormatForRetainKeys.Error())
	}
	return nil
}

func retainsStrings(patch any) bool {
	switch patch := patch.(type) {
	case map[string]any:
		for key, value := range patch {
			list, ok := value.([]any)
			if ok && key == retainKeys && slices.ContainsFunc(list, func(v any) bool { _, text := v.(string); return !text }) {
				return false
			}
			if !retainsStrings(value) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(patch, func(v any) bool { return !retainsStrings(v) })
	}
	return true
}

// depthLimitedSerializer is a serializer that refuses documents that are nested too deep. It is for
// the results of patches, which are JSON and may be deeper than the object and the patch; bodies
// are checked by readBody.
type depthLimitedSerializer struct{ runtime.NegotiatedSerializer }

func (s depthLimitedSerializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return depthLimitedDecoder{s.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

// depthLimitedDecoder refuses documents that are nested too deep.
type depthLimitedDecoder struct{ runtime.Decoder }

func (d depthLimitedDecoder) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if jsonTooDeep(data) {
		return nil, nil, fmt.Errorf("the object would be nested more than %d levels deep", maxDepth)
	}
	return d.Decoder.Decode(data, defaults, into)
}
