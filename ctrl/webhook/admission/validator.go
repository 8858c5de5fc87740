package admission

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Warnings are messages that clients show to their users; see [Response.WithWarnings].
type Warnings []string

// Validator decides whether objects of a type may be created, updated and deleted. An operation is
// refused if it returns an error: with the status of an API error, such as errors.NewInvalid, and
// with Forbidden for any other. [RequestFromContext] returns the request. It must be safe for
// concurrent use.
type Validator[T runtime.Object] interface {
	// ValidateCreate decides whether obj may be created.
	ValidateCreate(ctx context.Context, obj T) (warnings Warnings, err error)

	// ValidateUpdate decides whether newObj may replace oldObj.
	ValidateUpdate(ctx context.Context, oldObj, newObj T) (warnings Warnings, err error)

	// ValidateDelete decides whether obj may be deleted. It is called only if the configuration of the
	// webhook has the operation DELETE.
	ValidateDelete(ctx context.Context, obj T) (warnings Warnings, err error)
}

// CustomValidator is a [Validator] of any type.
//
// Deprecated: use Validator.
type CustomValidator = Validator[runtime.Object]

// WithValidator returns a webhook that calls validator. It panics if scheme is nil. If T is an
// interface, objects have the type that scheme has for the kind in the request.
func WithValidator[T runtime.Object](scheme *runtime.Scheme, validator Validator[T]) *Webhook {
	return &Webhook{Handler: &validatorForType[T]{newTypedDecoder[T](scheme), validator}}
}

// WithCustomValidator returns a webhook that calls validator with objects of the type of obj.
//
// Deprecated: use WithValidator.
func WithCustomValidator(scheme *runtime.Scheme, obj runtime.Object, validator CustomValidator) *Webhook {
	return &Webhook{Handler: &validatorForType[runtime.Object]{decoderLike(scheme, obj), validator}}
}

// validatorForType is a Validator as a Handler.
type validatorForType[T runtime.Object] struct {
	typedDecoder[T]
	validator Validator[T]
}

func (h *validatorForType[T]) Handle(ctx context.Context, req Request) Response {
	if h.validator == nil {
		panic("validator should never be nil")
	}
	validate, err := h.validation(req)
	if err != nil {
		return Errored(http.StatusBadRequest, err)
	}
	warnings, err := validate(NewContextWithRequest(ctx, req))
	if err != nil {
		return responseForError(err).WithWarnings(warnings...)
	}
	return Allowed("").WithWarnings(warnings...)
}

// validation decodes the objects of req and returns the call of the validator. CONNECT is not
// validated.
func (h *validatorForType[T]) validation(req Request) (func(context.Context) (Warnings, error), error) {
	switch req.Operation {
	case admissionv1.Connect:
		return func(context.Context) (Warnings, error) { return nil, nil }, nil
	case admissionv1.Create:
		obj, err := h.decode(req, req.Object)
		return func(ctx context.Context) (Warnings, error) { return h.validator.ValidateCreate(ctx, obj) }, err
	case admissionv1.Update:
		obj, err := h.decode(req, req.Object)
		if err != nil {
			return nil, err
		}
		old, err := h.decode(req, req.OldObject)
		return func(ctx context.Context) (Warnings, error) { return h.validator.ValidateUpdate(ctx, old, obj) }, err
	case admissionv1.Delete:
		obj, err := h.decode(req, req.OldObject)
		return func(ctx context.Context) (Warnings, error) { return h.validator.ValidateDelete(ctx, obj) }, err
	default:
		return nil, fmt.Errorf("unknown operation %q", req.Operation)
	}
}
