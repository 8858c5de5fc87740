package admission

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Defaulter changes objects of a type before they are created or updated, usually by setting fields
// that are not set. It must be safe for concurrent use.
type Defaulter[T runtime.Object] interface {
	// Default changes obj in place. The operation is refused if it returns an error: with the status
	// of an API error, and with Forbidden for any other. [RequestFromContext] returns the request.
	Default(ctx context.Context, obj T) error
}

// CustomDefaulter is a [Defaulter] of any type.
//
// Deprecated: use Defaulter.
type CustomDefaulter = Defaulter[runtime.Object]

// defaulterOptions are what DefaulterOptions set.
type defaulterOptions struct {
	removeUnknownOrOmitableFields bool
}

// DefaulterOption is an option of a defaulting webhook.
type DefaulterOption func(*defaulterOptions)

// DefaulterRemoveUnknownOrOmitableFields removes fields of the object that its Go type does not
// have, such as fields of a newer version of its definition, and fields that are zero and omitempty.
// Without it, fields are left alone that the defaulter has not changed.
func DefaulterRemoveUnknownOrOmitableFields(o *defaulterOptions) {
	o.removeUnknownOrOmitableFields = true
}

// WithDefaulter returns a webhook that calls defaulter, but not for deletions. It panics if scheme
// is nil; a nil defaulter panics when a request is served, which is recovered by default. If T is
// an interface, objects have the type that scheme has for the kind in the request.
func WithDefaulter[T runtime.Object](
	scheme *runtime.Scheme, defaulter Defaulter[T], opts ...DefaulterOption,
) *Webhook {
	return newDefaulting(newTypedDecoder[T](scheme), defaulter, opts)
}

// WithCustomDefaulter returns a webhook that calls defaulter with objects of the type of obj.
//
// Deprecated: use WithDefaulter.
func WithCustomDefaulter(
	scheme *runtime.Scheme, obj runtime.Object, defaulter CustomDefaulter, opts ...DefaulterOption,
) *Webhook {
	return newDefaulting(decoderLike(scheme, obj), defaulter, opts)
}

func newDefaulting[T runtime.Object](decoder typedDecoder[T], defaulter Defaulter[T], opts []DefaulterOption) *Webhook {
	h := &defaulterForType[T]{typedDecoder: decoder, defaulter: defaulter}
	for _, opt := range opts {
		opt(&h.defaulterOptions)
	}
	return &Webhook{Handler: h}
}

// defaulterForType is a Defaulter as a Handler.
type defaulterForType[T runtime.Object] struct {
	typedDecoder[T]
	defaulterOptions
	defaulter Defaulter[T]
}

// Handle answers with the patch from the object in req, as it came, to the defaulted one.
func (h *defaulterForType[T]) Handle(ctx context.Context, req Request) Response {
	if h.defaulter == nil {
		panic("defaulter should never be nil")
	}
	if req.Operation == admissionv1.Delete {
		return withStatus(true, metav1.Status{Code: http.StatusOK})
	}
	obj, err := h.decode(req, req.Object)
	if err != nil {
		return Errored(http.StatusBadRequest, err)
	}
	original := obj.DeepCopyObject()
	if err := h.defaulter.Default(NewContextWithRequest(ctx, req), obj); err != nil {
		return responseForError(err)
	}
	if !h.removeUnknownOrOmitableFields && reflect.DeepEqual(original, runtime.Object(obj)) {
		return Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true}}
	}
	defaulted, err := json.Marshal(obj)
	if err != nil {
		return Errored(http.StatusInternalServerError, err)
	}
	response := PatchResponseFromRaw(req.Object.Raw, defaulted)
	if !h.removeUnknownOrOmitableFields {
		return keepUnknownFields(response, req.Object.Raw, original)
	}
	return response
}

// keepUnknownFields deletes those removals from the patches of a response that the defaulter did
// not make: decoding raw into its Go type and encoding it again, undefaulted, makes them as well.
func keepUnknownFields(response Response, raw []byte, original runtime.Object) Response {
	if !slices.ContainsFunc(response.Patches, isRemoval) {
		return response
	}
	encoded, err := json.Marshal(original)
	if err != nil {
		return Errored(http.StatusInternalServerError, err)
	}
	lost, err := createPatch(raw, encoded)
	if err != nil {
		return Errored(http.StatusInternalServerError, err)
	}
	paths := map[string]bool{}
	for _, op := range lost {
		if isRemoval(op) {
			paths[op.Path] = true
		}
	}
	response.Patches = slices.DeleteFunc(response.Patches, func(op jsonpatch.JsonPatchOperation) bool {
		return isRemoval(op) && paths[op.Path]
	})
	if len(response.Patches) == 0 {
		response.PatchType = nil
	}
	return response
}

func isRemoval(op jsonpatch.JsonPatchOperation) bool { return op.Operation == "remove" }
