package admission

import (
	"errors"
	"net/http"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Allowed returns a response that allows the operation as it is.
func Allowed(message string) Response { return ValidationResponse(true, message) }

// Denied returns a response that refuses the operation with the reason Forbidden.
func Denied(message string) Response { return ValidationResponse(false, message) }

// Patched returns a response that allows the operation on the object with patches applied.
func Patched(message string, patches ...jsonpatch.JsonPatchOperation) Response {
	response := Allowed(message)
	response.Patches = patches
	return response
}

// Errored returns a response that refuses the operation because of an error, with an HTTP status
// code.
func Errored(code int32, err error) Response {
	return withStatus(false, metav1.Status{Code: code, Message: err.Error()})
}

// ValidationResponse returns a response with the code 200 if allowed, otherwise 403 and Forbidden.
func ValidationResponse(allowed bool, message string) Response {
	if allowed {
		return withStatus(true, metav1.Status{Code: http.StatusOK, Message: message})
	}
	return withStatus(false, metav1.Status{
		Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message,
	})
}

// PatchResponseFromRaw returns a response that allows the operation and changes the object from
// original to current, both in JSON. The original should be the bytes that came with the request:
// encoding the decoded object again would lose the fields that its Go type does not have, and the
// patch would not be about what the API server has.
func PatchResponseFromRaw(original, current []byte) Response {
	patches, err := createPatch(original, current)
	if err != nil {
		return Errored(http.StatusInternalServerError, err)
	}
	response := Response{Patches: patches, AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true}}
	if len(patches) > 0 {
		response.PatchType = ptr.To(admissionv1.PatchTypeJSONPatch)
	}
	return response
}

// withStatus returns a response with a status.
func withStatus(allowed bool, status metav1.Status) Response {
	return Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: allowed, Result: &status}}
}

// WithWarnings returns r with more warnings, which clients show to their users. A warning should
// not have more than 120 characters; the API server cuts one after 256 bytes, and all of a response
// after 4096.
func (r Response) WithWarnings(warnings ...string) Response {
	r.Warnings = slices.Concat(r.Warnings, warnings)
	return r
}

// responseForError returns the response to a request that a defaulter or validator refused with
// err: the status of an API error, and Forbidden for any other.
func responseForError(err error) Response {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return withStatus(false, status.Status())
	}
	return Denied(err.Error())
}
