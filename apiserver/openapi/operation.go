package openapi

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"flyball.dev/apiserver/schema"
)

// operation is one method on one path.
type operation struct {
	id        string
	text      string
	version   apischema.GroupVersion
	action    string
	kind      apischema.GroupVersionKind
	common    []spec.Parameter // shared by the methods of the path
	query     []spec.Parameter
	body      *spec.Schema
	types     []string // of the body; nil means any
	streams   bool
	responses responses
}

// responses are the schemas of responses by status code.
type responses map[int]*spec.Schema

var responseTexts = map[int]string{
	http.StatusOK: "OK", http.StatusCreated: "Created", http.StatusAccepted: "Accepted",
	http.StatusUnauthorized: "Unauthorized",
}

var (
	objectTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	streamTypes = []string{"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"}
)

// add adds an operation to the document.
func (p *paths) add(path, method string, o *operation) {
	op := &spec.Operation{OperationProps: spec.OperationProps{
		ID: o.id, Description: o.text, Tags: []string{tag(o.version)},
		Schemes: []string{"https"}, Consumes: []string{"*/*"}, Produces: objectTypes, Parameters: o.query,
		Responses: &spec.Responses{ResponsesProps: spec.ResponsesProps{StatusCodeResponses: map[int]spec.Response{}}},
	}}
	if o.types != nil {
		op.Consumes = o.types
	}
	if o.streams {
		op.Produces = slices.Concat(objectTypes, streamTypes)
	}
	if o.body != nil {
		op.Parameters = append(op.Parameters, spec.Parameter{ParamProps: spec.ParamProps{
			Name: "body", In: "body", Schema: o.body, Required: o.action != "delete" && o.action != "deletecollection"}})
	}
	for code, schema := range o.responses {
		op.Responses.StatusCodeResponses[code] = v2Response(code, schema)
	}
	op.Responses.StatusCodeResponses[http.StatusUnauthorized] = v2Response(http.StatusUnauthorized, nil)
	item := p.items[path]
	if o.action != "" {
		op.AddExtension("x-kubernetes-action", o.action)
		op.AddExtension("x-kubernetes-group-version-kind", kindExtension(o.kind))
		item.Parameters = append(slices.Clone(o.common), prettyParameter)
	}
	switch method {
	case http.MethodGet:
		item.Get = op
	case http.MethodPost:
		item.Post = op
	case http.MethodPut:
		item.Put = op
	case http.MethodPatch:
		item.Patch = op
	case http.MethodDelete:
		item.Delete = op
	case http.MethodHead:
		item.Head = op
	case http.MethodOptions:
		item.Options = op
	}
	p.items[path] = item
}

// operation returns an operation on the target, with the common form of descriptions.
func (t *target) operation(verb, action, text, suffix string) *operation {
	version := t.resource.GroupVersion
	return &operation{
		id:   operationID(verb, version, t.scope+t.name+suffix),
		text: text, version: version, action: action, kind: t.kind, common: t.common,
	}
}

// anySubject is the subject of operations without a particular object.
func (t *target) anySubject() string {
	part, kind, _ := strings.Cut(t.subject, "the specified ")
	switch {
	case strings.HasSuffix(kind, "s") && !strings.HasSuffix(kind, "ss"):
		return part + kind
	case strings.ContainsRune("AEIOU", rune(kind[0])):
		return part + "an " + kind
	default:
		return part + "a " + kind
	}
}

func (t *target) list(suffix string) *operation {
	o := t.operation("list", "list", "list or watch objects of kind "+t.kind.Kind, suffix)
	o.query, o.streams = options[metav1.ListOptions](), true
	o.responses = responses{http.StatusOK: t.ref(t.listType)}
	return o
}

func (t *target) get() *operation {
	o := t.operation("read", "get", "read "+t.subject, "")
	o.responses = responses{http.StatusOK: t.object}
	if g, ok := t.resource.Storage.(rest.GetterWithOptions); ok {
		more, _, _ := g.NewGetOptions()
		o.query = parameters(reflect.TypeOf(more))
	}
	return o
}

func (t *target) create() *operation {
	o := t.operation("create", "post", "create "+t.anySubject(), "")
	o.query, o.body = options[metav1.CreateOptions](), t.object
	o.responses = responses{http.StatusOK: t.object, http.StatusCreated: t.object, http.StatusAccepted: t.object}
	return o
}

func (t *target) update() *operation {
	o := t.operation("replace", "put", "replace "+t.subject, "")
	o.query, o.body = options[metav1.UpdateOptions](), t.object
	o.responses = responses{http.StatusOK: t.object, http.StatusCreated: t.object}
	return o
}

func (t *target) patch() *operation {
	o := t.operation("patch", "patch", "partially update "+t.subject, "")
	o.query, o.types = options[metav1.PatchOptions](), t.resource.PatchTypes
	o.body = t.ref(reflect.TypeFor[metav1.Patch]())
	o.responses = responses{http.StatusOK: t.object, http.StatusCreated: t.object}
	return o
}

func (t *target) delete() *operation {
	o := t.operation("delete", "delete", "delete "+t.anySubject(), "")
	o.query, o.body = options[metav1.DeleteOptions](), t.ref(reflect.TypeFor[metav1.DeleteOptions]())
	answer := t.ref(reflect.TypeFor[metav1.Status]())
	if d, ok := t.resource.Storage.(rest.MayReturnFullObjectDeleter); ok && d.DeleteReturnsDeletedObject() {
		answer = t.object
	}
	o.responses = responses{http.StatusOK: answer, http.StatusAccepted: answer}
	return o
}

func (t *target) deleteCollection() *operation {
	o := t.operation("delete", "deletecollection", "delete collection of "+t.kind.Kind, "")
	o.id = operationID("delete", o.version, "Collection"+t.scope+t.name)
	o.query = options[metav1.DeleteOptions]()
	for _, p := range options[metav1.ListOptions]() {
		if p.Name != "watch" && p.Name != "allowWatchBookmarks" {
			o.query = append(o.query, p)
		}
	}
	o.body = t.ref(reflect.TypeFor[metav1.DeleteOptions]())
	o.responses = responses{http.StatusOK: t.ref(reflect.TypeFor[metav1.Status]())}
	return o
}

func (t *target) connect(method string, with runtime.Object, suffix string) *operation {
	o := t.operation("connect", "connect", "connect "+method+" requests to "+
		strings.Replace(t.subject, "the specified ", "", 1), suffix)
	o.id = operationID("connect", o.version, identifier(strings.ToLower(method), true)+t.scope+t.name+suffix)
	if with != nil {
		o.query = parameters(reflect.TypeOf(with))
	}
	o.responses = responses{http.StatusOK: spec.StringProperty()}
	return o
}

var (
	namespaceParameter = pathString("namespace", "object name and auth scope, such as for teams and projects")
	pathParameter      = pathString("path", "path to the resource")
	prettyParameter    = queryParameter("pretty", "If 'true', then the output is pretty printed.", "string")
)

func (t *target) nameParameter() spec.Parameter {
	return pathString("name", "name of the "+t.kind.Kind)
}

func pathString(name, text string) spec.Parameter {
	return spec.Parameter{
		ParamProps:        spec.ParamProps{Name: name, In: "path", Description: text, Required: true},
		SimpleSchema:      spec.SimpleSchema{Type: "string"},
		CommonValidations: spec.CommonValidations{UniqueItems: true},
	}
}

func queryParameter(name, text, typ string) spec.Parameter {
	return spec.Parameter{
		ParamProps:        spec.ParamProps{Name: name, In: "query", Description: text},
		SimpleSchema:      spec.SimpleSchema{Type: typ},
		CommonValidations: spec.CommonValidations{UniqueItems: true},
	}
}

func options[T any]() []spec.Parameter { return parameters(reflect.TypeFor[T]()) }

// parameters returns the query parameters of an options struct, sorted by name.
func parameters(t reflect.Type) []spec.Parameter {
	var list []spec.Parameter
	for name, p := range schema.Of(t).V2().Properties {
		typ := p.Type
		if p.Items != nil {
			typ = p.Items.Schema.Type
		}
		if len(typ) == 0 || name == "kind" || name == "apiVersion" {
			continue // not a plain value
		}
		list = append(list, queryParameter(name, p.Description, typ[0]))
	}
	slices.SortFunc(list, func(a, b spec.Parameter) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// operationID returns an ID of verb, group, version and the rest, such as readCoreV1NamespacedPod.
//
//upstream:k8s.io/apiserver/pkg/endpoints/openapi.GetOperationIDAndTags
//upstream:k8s.io/apiserver/pkg/endpoints/openapi.ToValidOperationID
func operationID(verb string, gv apischema.GroupVersion, rest string) string {
	return fmt.Sprint(verb, identifier(groupName(gv), true), identifier(gv.Version, true), rest)
}

//upstream:k8s.io/apiserver/pkg/endpoints/openapi.GetOperationIDAndTags
func tag(gv apischema.GroupVersion) string {
	return identifier(groupName(gv), false) + "_" + gv.Version
}

func groupName(gv apischema.GroupVersion) string {
	if gv.Group == "" {
		return "core"
	}
	return strings.TrimSuffix(gv.Group, ".k8s.io")
}

// identifier converts a string to camel case, without characters that are not valid in identifiers.
func identifier(s string, capital bool) string {
	var out strings.Builder
	for _, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_':
			capital = true
		case capital:
			out.WriteRune(unicode.ToUpper(r))
			capital = false
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// v2Response returns the description of a response in OpenAPI v2.
func v2Response(code int, schema *spec.Schema) spec.Response {
	return spec.Response{ResponseProps: spec.ResponseProps{Description: responseTexts[code], Schema: schema}}
}
