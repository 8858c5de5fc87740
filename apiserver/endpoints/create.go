package endpoints

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
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

// creator serves the usual create itself, on the goroutine of the request and with the managed
// fields of [resource.Resource.ManagedFields]. It leaves unusual ones, those that are audited, and
// every invalid request, to upstream's handler, which would come to the same result for all of them.
type creator struct {
	resource  *resource.Resource
	storage   rest.Creater
	admission admission.Interface
	upstream  func() http.HandlerFunc
}

// object is a typed or unstructured object.
type object interface {
	runtime.Object
	metav1.Object
}

func (c *creator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	decoded, ok := c.decode(r)
	if !ok {
		c.upstream()(w, r)
		return
	}
	created, err := c.create(r.Context(), decoded)
	scope := c.resource.Scope
	gv := scope.Kind.GroupVersion()
	if err != nil {
		responsewriters.ErrorNegotiated(err, scope.Serializer, gv, w, r)
		return
	}
	responsewriters.WriteObjectNegotiated(scope.Serializer, scope, gv, w, r, http.StatusCreated, created, false)
}

// newObject is the decoded object of a create, with its managed fields set.
type newObject struct {
	object
	namespace string
}

// decode decodes the object of a usual create. It returns false, and leaves the request as it was,
// if upstream's handler must serve it.
func (c *creator) decode(r *http.Request) (n newObject, ok bool) {
	scope := c.resource.Scope
	body, ok := r.Body.(*bufferedBody)
	if !ok || r.URL.RawQuery != "" || len(body.bytes) == 0 || audit.AuditContextFrom(r.Context()).Enabled() {
		return n, false
	}
	out, _, err := negotiation.NegotiateOutputMediaType(r, scope.Serializer, scope)
	if err != nil || out.Convert != nil {
		return n, false
	}
	in, err := negotiation.NegotiateInputSerializer(r, false, scope.Serializer)
	if err != nil {
		return n, false
	}
	kind := scope.Kind
	decoder := scope.Serializer.DecoderToVersion(in.StrictSerializer, scope.HubGroupVersion)
	decoded, gvk, err := decoder.Decode(body.bytes, &kind, c.storage.New())
	if err != nil || !scope.AcceptsGroupVersion(gvk.GroupVersion()) {
		return n, false
	}
	n.object, ok = decoded.(object)
	if !ok || len(n.GetManagedFields()) > 0 || len(n.GetOwnerReferences()) > 1 {
		return n, false
	}
	n.namespace, _ = scope.Namer.Namespace(r)
	rest.WipeObjectMetaSystemFields(n.object)
	if n.namespace == "" && scope.Resource.Group == "" && scope.Resource.Resource == "namespaces" {
		n.namespace = n.GetName()
	}
	expected := rest.ExpectedNamespaceForResource(n.namespace, scope.Resource)
	if rest.EnsureObjectNamespaceMatchesRequestNamespace(expected, n.object) != nil {
		return n, false
	}
	return n, c.resource.ManagedFields.Update(nil, n.object, managedfields.Write{
		Manager: defaultManager(r.UserAgent()), Operation: metav1.ManagedFieldsOperationUpdate,
	})
}

// create runs admission and stores the object. It returns the object as it was stored.
func (c *creator) create(ctx context.Context, n newObject) (runtime.Object, error) {
	scope := c.resource.Scope
	ctx = request.WithNamespace(ctx, n.namespace)
	user, _ := request.UserFrom(ctx)
	options := &metav1.CreateOptions{}
	options.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	attributes := admission.NewAttributesRecord(n.object, nil, scope.Kind, n.namespace, n.GetName(), scope.Resource,
		scope.Subresource, admission.Create, options, false, user)
	managed := n.GetManagedFields()
	if mutating, ok := c.admission.(admission.MutationInterface); ok && mutating.Handles(admission.Create) {
		if err := mutating.Admit(ctx, attributes, scope); err != nil {
			return nil, err
		}
		if attributes.GetReinvocationContext().ShouldReinvoke() {
			n.repairMetadata(ctx, managed)
		}
	}
	validate := rest.AdmissionToValidateObjectFunc(c.admission, attributes, scope)
	created, err := c.storage.Create(ctx, n.object, validate, options)
	if status, ok := created.(*metav1.Status); err == nil && ok && status.Status != metav1.StatusSuccess {
		err = errors.FromObject(status)
	}
	return created, err
}

// repairMetadata corrects what a webhook has done to the metadata, as upstream's handler does: it
// restores the managed fields if they are invalid, and removes duplicate owner references.
func (n newObject) repairMetadata(ctx context.Context, managed []metav1.ManagedFieldsEntry) {
	if err := upstream.ValidateManagedFields(n.GetManagedFields()); err != nil {
		n.SetManagedFields(managed)
		warning.AddWarning(ctx, "", fmt.Sprintf(fieldmanager.InvalidManagedFieldsAfterMutatingAdmissionWarningFormat, err))
	}
	var owners []metav1.OwnerReference
	var duplicates []string
	for _, owner := range n.GetOwnerReferences() {
		switch same := func(o metav1.OwnerReference) bool { return apiequality.Semantic.DeepEqual(o, owner) }; {
		case !slices.ContainsFunc(owners, same):
			owners = append(owners, owner)
		case !slices.Contains(duplicates, string(owner.UID)):
			duplicates = append(duplicates, string(owner.UID))
		}
	}
	if len(duplicates) > 0 {
		n.SetOwnerReferences(owners)
		warning.AddWarning(ctx, "", fmt.Sprintf(handlers.DuplicateOwnerReferencesAfterMutatingAdmissionWarningFormat, strings.Join(duplicates, ", ")))
	}
}

// defaultManager returns the field manager of a request that names none: the client's user agent up
// to the first slash, without what is not printable, cut to the longest name that is valid.
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
