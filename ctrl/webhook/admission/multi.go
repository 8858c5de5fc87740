package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// MultiMutatingHandler returns a handler that calls handlers in turn until one refuses the request.
// The response has the patches and warnings of all. Every handler gets the object as it was in the
// request, so their patches must be about different parts of it.
func MultiMutatingHandler(handlers ...Handler) Handler { return multiMutating(handlers) }

// MultiValidatingHandler returns a handler that calls handlers in turn until one refuses the
// request. The response has the warnings of all.
func MultiValidatingHandler(handlers ...Handler) Handler { return multiValidating(handlers) }

// multiMutating calls handlers one after the other and joins their patches.
type multiMutating []Handler

func (hs multiMutating) Handle(ctx context.Context, req Request) Response {
	patches := []jsonpatch.JsonPatchOperation{}
	response := withStatus(true, metav1.Status{Code: http.StatusOK})
	for _, h := range hs {
		one := h.Handle(ctx, req)
		if !one.Allowed {
			return one
		}
		if t := one.PatchType; t != nil && *t != admissionv1.PatchTypeJSONPatch {
			return Errored(http.StatusInternalServerError, fmt.Errorf(
				"unexpected patch type returned by the handler: %v, only allow: %v", *t, admissionv1.PatchTypeJSONPatch))
		}
		patches = append(patches, one.Patches...)
		response.Warnings = append(response.Warnings, one.Warnings...)
	}
	patch, err := json.Marshal(patches)
	if err != nil {
		return Errored(http.StatusBadRequest, fmt.Errorf("error when marshaling the patch: %w", err))
	}
	response.Patch, response.PatchType = patch, ptr.To(admissionv1.PatchTypeJSONPatch)
	return response
}

// multiValidating calls handlers until one denies the request.
type multiValidating []Handler

func (hs multiValidating) Handle(ctx context.Context, req Request) Response {
	response := withStatus(true, metav1.Status{Code: http.StatusOK})
	for _, h := range hs {
		one := h.Handle(ctx, req)
		if !one.Allowed {
			return one
		}
		response.Warnings = append(response.Warnings, one.Warnings...)
	}
	return response
}
