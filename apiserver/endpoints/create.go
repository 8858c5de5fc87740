package endpoints

import (
	"context"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/resource"
)

// creator answers the usual create itself, on the goroutine it is called on, and leaves the unusual
// one, and every request that is wrong, to upstream's handler. Both come to the same result; this one
// finds the owner of each field in one walk over the new object instead of comparing it with nothing.
type creator struct {
	resource  *resource.Resource
	storage   rest.Creater
	admission admission.Interface
	upstream  func() http.HandlerFunc
}

// object is what both typed and unstructured objects are.
type object interface {
	runtime.Object
	metav1.Object
}

func (c *creator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	plan, ok := c.plan(r)
	if !ok {
		c.upstream()(w, r)
		return
	}
	created, err := c.create(r.Context(), plan)
	scope := c.resource.Scope
	gv := scope.Kind.GroupVersion()
	if err != nil {
		responsewriters.ErrorNegotiated(err, scope.Serializer, gv, w, r)
		return
	}
	responsewriters.WriteObjectNegotiated(scope.Serializer, scope, gv, w, r, http.StatusCreated, created, false)
}

// planned is a create that is ready to be carried out.
type planned struct {
	namespace string
	object    object
}

// plan decodes the request if it is a usual one. It changes nothing.
func (c *creator) plan(r *http.Request) (p planned, ok bool) {
	scope := c.resource.Scope
	body, ok := r.Body.(*wholeBody)
	if !ok || r.URL.RawQuery != "" || len(body.bytes) == 0 {
		return p, false
	}
	out, _, err := negotiation.NegotiateOutputMediaType(r, scope.Serializer, scope)
	if err != nil || out.Convert != nil {
		return p, false
	}
	in, err := negotiation.NegotiateInputSerializer(r, false, scope.Serializer)
	if err != nil {
		return p, false
	}
	kind := scope.Kind
	decoded, gvk, err := scope.Serializer.DecoderToVersion(in.StrictSerializer, scope.HubGroupVersion).Decode(body.bytes, &kind, c.storage.New())
	if err != nil || !scope.AcceptsGroupVersion(gvk.GroupVersion()) {
		return p, false
	}
	p.object, ok = decoded.(object)
	if !ok || len(p.object.GetManagedFields()) > 0 || len(p.object.GetOwnerReferences()) > 1 {
		return p, false
	}
	p.namespace, _ = scope.Namer.Namespace(r)
	rest.WipeObjectMetaSystemFields(p.object)
	if p.namespace == "" && scope.Resource.Group == "" && scope.Resource.Resource == "namespaces" {
		p.namespace = p.object.GetName()
	}
	if rest.EnsureObjectNamespaceMatchesRequestNamespace(rest.ExpectedNamespaceForResource(p.namespace, scope.Resource), p.object) != nil {
		return p, false
	}
	return p, c.resource.Own(p.object, scope.Kind.GroupVersion().String(), manager(r.UserAgent()))
}

func (c *creator) create(ctx context.Context, p planned) (runtime.Object, error) {
	scope := c.resource.Scope
	ctx = request.WithNamespace(ctx, p.namespace)
	who, _ := request.UserFrom(ctx)
	options := &metav1.CreateOptions{}
	options.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	attributes := admission.NewAttributesRecord(p.object, nil, scope.Kind, p.namespace, p.object.GetName(), scope.Resource, scope.Subresource,
		admission.Create, options, false, who)
	if mutating, ok := c.admission.(admission.MutationInterface); ok && mutating.Handles(admission.Create) {
		if err := mutating.Admit(ctx, attributes, scope); err != nil {
			return nil, err
		}
	}
	created, err := c.storage.Create(ctx, p.object, rest.AdmissionToValidateObjectFunc(c.admission, attributes, scope), options)
	if status, ok := created.(*metav1.Status); err == nil && ok && status.Status != metav1.StatusSuccess {
		err = errors.FromObject(status)
	}
	return created, err
}

// manager is the name under which a client that gives none owns fields: its user agent up to the first
// slash, as far as it is printable and fits, or else unknown.
func manager(agent string) string {
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
