package webhook

import (
	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl/webhook/admission"
)

// CustomDefaulter is [admission.CustomDefaulter].
//
// Deprecated: use admission.Defaulter.
type CustomDefaulter = admission.Defaulter[runtime.Object]

// CustomValidator is [admission.CustomValidator].
//
// Deprecated: use admission.Validator.
type CustomValidator = admission.Validator[runtime.Object]

// AdmissionRequest is [admission.Request].
type AdmissionRequest = admission.Request

// AdmissionResponse is [admission.Response].
type AdmissionResponse = admission.Response

// Admission is [admission.Webhook], which can be registered with a [Server].
type Admission = admission.Webhook

// AdmissionHandler is [admission.Handler].
type AdmissionHandler = admission.Handler

// AdmissionDecoder is [admission.Decoder].
type AdmissionDecoder = admission.Decoder

// JSONPatchOp is an operation of a JSON patch.
type JSONPatchOp = jsonpatch.Operation

var (
	// Allowed is [admission.Allowed].
	Allowed = admission.Allowed

	// Denied is [admission.Denied].
	Denied = admission.Denied

	// Patched is [admission.Patched].
	Patched = admission.Patched

	// Errored is [admission.Errored].
	Errored = admission.Errored
)
