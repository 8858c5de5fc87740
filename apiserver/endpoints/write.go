package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/resource"
)

// writer is the fast path of the writes of a resource. It serves a request on the goroutine of the request, with the
// managed fields of [resource.Resource.ManagedFields]. All writes pass the same stages:
//
//	accept → decode → change → managed fields → admit → storage (strategy, validating admission) → respond
//
// A create has no object to change and begins with the decoded object. An update replaces the object by the decoded
// one. A patch changes a copy of the object.
//
// The stages up to admission have no effect. A stage that does not support the request, or finds it invalid, returns a
// [fallback]; the handler of k8s.io/apiserver then starts from the beginning.
type writer struct {
	resource  *resource.Resource
	admission admission.Interface
}

// writeTimeout is the time limit of a write, as in the handlers of k8s.io/apiserver.
const writeTimeout = 34 * time.Second

// object is a typed or unstructured object.
type object interface {
	runtime.Object
	metav1.Object
}

// write is one request.
type write struct {
	writer
	request    *http.Request
	body       []byte
	sent       schema.GroupVersion // the version of the decoded body
	namespace  string
	name       string // empty for a create
	parameters parameters
}

// parameters are the query parameters that the fast path supports.
type parameters struct {
	fieldManager, fieldValidation string
	force                         *bool
}

// serve returns a handler that serves requests with fast, and with the handler of k8s.io/apiserver if fast does not
// support the request. status is the status of a successful response.
func (w writer) serve(status int, fast func(context.Context, *write) (runtime.Object, error),
	upstream http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), writeTimeout)
		defer cancel()
		result, err := w.try(ctx, r, fast)
		reason, fallsBack := errors.AsType[fallback](err)
		if ctx.Err() != nil {
			reason, fallsBack = "", false // the fallback would have no time left either
		}
		countPath(r, reason)
		if fallsBack {
			upstream(rw, r)
			return
		}
		scope := w.resource.Scope
		gv := scope.Kind.GroupVersion()
		switch {
		case err != nil && ctx.Err() != nil: // the failure may be a consequence of the timeout
			err = apierrors.NewTimeoutError(fmt.Sprintf("request did not complete within requested timeout - %s", ctx.Err()), 0)
			fallthrough
		case err != nil:
			responsewriters.ErrorNegotiated(err, scope.Serializer, gv, rw, r)
		default:
			responsewriters.WriteObjectNegotiated(scope.Serializer, scope, gv, rw, r, status, result, false)
		}
	}
}

// try serves a request with fast. It returns a [fallback] if fast does not support the request.
func (w writer) try(ctx context.Context, r *http.Request,
	fast func(context.Context, *write) (runtime.Object, error)) (runtime.Object, error) {
	one, err := w.accept(r)
	if err != nil {
		return nil, err
	}
	return fast(request.WithNamespace(ctx, one.namespace), one)
}

// accept returns the write of a request. The request must ask for the object in return, and may have only parameters
// that the fast path supports.
func (w writer) accept(r *http.Request) (*write, error) {
	scope := w.resource.Scope
	body, ok := r.Body.(*bufferedBody)
	if !ok || len(body.bytes) == 0 {
		return nil, errBody
	}
	if r.Method != http.MethodPost && scope.Kind.GroupVersion() != scope.HubGroupVersion {
		return nil, errUnsupported
	}
	one := &write{writer: w, request: r, body: body.bytes}
	if one.parameters, ok = parametersOf(r); !ok {
		return nil, errParameters
	}
	out, _, err := negotiation.NegotiateOutputMediaType(r, scope.Serializer, scope)
	if err != nil || out.Convert != nil {
		return nil, errOutput
	}
	if r.Method == http.MethodPost && !w.createsByName() {
		one.namespace, err = scope.Namer.Namespace(r)
	} else {
		one.namespace, one.name, err = scope.Namer.Name(r)
	}
	if err != nil {
		return nil, errPath
	}
	return one, nil
}

// parametersOf returns the parameters of a request, or false if the fast path does not support them.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.isDryRun
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.fieldValidation
func parametersOf(r *http.Request) (p parameters, ok bool) {
	if r.URL.RawQuery == "" {
		return p, true
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return p, false
	}
	for name, values := range query {
		if len(values) != 1 {
			return p, false
		}
		switch value := values[0]; name {
		case "fieldManager":
			if len(validation.ValidateFieldManager(value, field.NewPath(name))) > 0 {
				return p, false
			}
			p.fieldManager = value
		case "fieldValidation":
			if value != metav1.FieldValidationWarn && value != metav1.FieldValidationStrict {
				return p, false
			}
			p.fieldValidation = value
		case "timeout": // the context of the request ends with it
		case "force":
			force := value == "true"
			if !force && value != "false" {
				return p, false
			}
			p.force = &force
		default:
			return p, false
		}
	}
	return p, true
}

// manager returns the field manager of the request.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.managerOrUserAgent
func (w *write) manager() string {
	if w.parameters.fieldManager != "" {
		return w.parameters.fieldManager
	}
	return defaultManager(w.request.UserAgent())
}

// decode decodes the body strictly.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.transformDecodeError
func (w *write) decode() (object, error) {
	scope := w.resource.Scope
	in, err := negotiation.NegotiateInputSerializer(w.request, false, scope.Serializer)
	if err != nil {
		return nil, errDocument
	}
	return w.decodeWith(in.StrictSerializer, w.new())
}

// decodeWith decodes, defaults and converts an object.
func (w *write) decodeWith(d runtime.Decoder, into runtime.Object) (object, error) {
	scope := w.resource.Scope
	kind := scope.Kind
	decoded, gvk, err := scope.Serializer.DecoderToVersion(d, scope.HubGroupVersion).Decode(w.body, &kind, into)
	if err != nil || !scope.AcceptsGroupVersion(gvk.GroupVersion()) {
		return nil, errDocument
	}
	obj, ok := decoded.(object)
	if !ok {
		return nil, errDocument
	}
	w.sent = gvk.GroupVersion()
	return obj, nil
}

// new returns a new, empty object of the storage's type.
func (w *write) new() runtime.Object { return w.resource.Storage.New() }

// inNamespace sets the namespace of an object to the namespace of the request. It returns a [fallback] for an object in
// another namespace.
func (w *write) inNamespace(obj object) error {
	expected := rest.ExpectedNamespaceForResource(w.namespace, w.resource.Scope.Resource)
	if rest.EnsureObjectNamespaceMatchesRequestNamespace(expected, obj) != nil {
		return errDocument
	}
	return nil
}

// track sets the managed fields of obj, which replaces old. For a create, old is nil.
func (w *write) track(old, obj object) error {
	one := managedfields.Write{Manager: w.manager(), Operation: metav1.ManagedFieldsOperationUpdate,
		Subresource: w.resource.Scope.Subresource}
	if old == nil {
		if !w.resource.ManagedFields.Update(nil, obj, one) {
			return errManagedFields
		}
		return nil
	}
	if w.resource.ManagedFields.Update(old, obj, one) {
		return nil
	}
	if w.resource.Scope.FieldManager.UpdateNoErrors(old, obj, one.Manager) != obj {
		return errManagedFields
	}
	return nil
}

// attributes returns the admission attributes of the write. For a create, old is nil.
func (w *write) attributes(ctx context.Context, obj, old runtime.Object, operation admission.Operation,
	options runtime.Object) admission.Attributes {
	scope := w.resource.Scope
	user, _ := request.UserFrom(ctx)
	return admission.NewAttributesRecord(obj, old, scope.Kind, w.namespace, w.name, scope.Resource,
		scope.Subresource, operation, options, false, user)
}

// admit runs mutating admission on an object, and repairs the metadata that webhooks have changed.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.patcher.applyAdmission
func (w *write) admit(ctx context.Context, obj object, attributes admission.Attributes) error {
	mutating, ok := w.admission.(admission.MutationInterface)
	if !ok || !mutating.Handles(attributes.GetOperation()) {
		return nil
	}
	restore := managedFieldsOf(obj)
	if err := mutating.Admit(ctx, attributes, w.resource.Scope); err != nil {
		return err
	}
	if attributes.GetReinvocationContext().ShouldReinvoke() {
		repairMetadata(ctx, obj, restore)
	}
	return nil
}

// managedFieldsOf returns a function that restores the current managed fields of an object. For an unstructured object
// it keeps the unconverted value, because converting managed fields is costly.
func managedFieldsOf(obj object) func() {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		managed, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
		return func() { _ = unstructured.SetNestedField(u.Object, managed, "metadata", "managedFields") }
	}
	managed := obj.GetManagedFields()
	return func() { obj.SetManagedFields(managed) }
}

// repairMetadata repairs the metadata that a webhook has changed, as the handlers of k8s.io/apiserver do: it restores
// invalid managed fields, and removes duplicate owner references.
func repairMetadata(ctx context.Context, obj object, restore func()) {
	if err := upstream.ValidateManagedFields(obj.GetManagedFields()); err != nil {
		restore()
		warning.AddWarning(ctx, "", fmt.Sprintf(fieldmanager.InvalidManagedFieldsAfterMutatingAdmissionWarningFormat, err))
	}
	removeDuplicateOwners(ctx, obj)
}

// removeDuplicateOwners removes duplicate owner references after admission.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.dedupOwnerReferencesAndAddWarning
func removeDuplicateOwners(ctx context.Context, obj object) {
	var owners []metav1.OwnerReference
	var duplicates []string
	for _, owner := range obj.GetOwnerReferences() {
		same := func(o metav1.OwnerReference) bool { return apiequality.Semantic.DeepEqual(o, owner) }
		if slices.ContainsFunc(owners, same) {
			duplicates = append(duplicates, string(owner.UID))
		} else {
			owners = append(owners, owner)
		}
	}
	if len(duplicates) > 0 {
		obj.SetOwnerReferences(owners)
		warning.AddWarning(ctx, "", fmt.Sprintf(handlers.DuplicateOwnerReferencesAfterMutatingAdmissionWarningFormat, strings.Join(duplicates, ", ")))
	}
}

// defaultManager returns the field manager of a request that names none: the client's user agent up to the first slash,
// without unprintable characters, truncated to the longest valid name.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.prefixFromUserAgent
func defaultManager(agent string) string {
	agent, _, _ = strings.Cut(agent, "/")
	var name strings.Builder
	for _, r := range agent {
		if !unicode.IsPrint(r) {
			continue
		}
		if name.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		name.WriteRune(r)
	}
	if name.Len() == 0 {
		return "unknown"
	}
	return name.String()
}
