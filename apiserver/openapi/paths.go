package openapi

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/schema"
)

// paths collects the operations on built-in resources, in OpenAPI v2, and their types.
type paths struct {
	models *models
	items  map[string]spec.PathItem
	types  map[*schema.Definition]bool
}

func newPaths(m *models) *paths {
	return &paths{models: m, items: map[string]spec.PathItem{}, types: map[*schema.Definition]bool{}}
}

// definitions returns all definitions to which the operations refer, ordered by name.
func (p *paths) definitions() []*schema.Definition {
	all := map[*schema.Definition]bool{}
	for root := range p.types {
		for _, d := range root.Closure() {
			all[d] = true
		}
	}
	var ordered []*schema.Definition
	for d := range all {
		ordered = append(ordered, d)
	}
	slices.SortFunc(ordered, func(a, b *schema.Definition) int { return cmp.Compare(a.Name, b.Name) })
	return ordered
}

func versionPath(gv apischema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// addVersion adds the built-in resources of a version and returns the others.
func (p *paths) addVersion(v *resource.Version) (custom []*resource.Resource, err error) {
	for _, r := range v.Resources {
		if r.OpenAPI != nil {
			custom = append(custom, r)
			continue
		}
		if err := p.addResource(r); err != nil {
			return nil, fmt.Errorf("%s: %w", r.GroupVersionResource(), err)
		}
		for _, s := range r.Subresources {
			if err := p.addSubresource(r, s); err != nil {
				return nil, fmt.Errorf("%s/%s: %w", r.GroupVersionResource(), s.Name, err)
			}
		}
	}
	if len(custom) == len(v.Resources) {
		return custom, nil
	}
	root := versionPath(v.GroupVersion) + "/"
	p.add(root, http.MethodGet, &operation{
		id: operationID("get", v.GroupVersion, "APIResources"), text: "get available resources", version: v.GroupVersion,
		responses: responses{http.StatusOK: p.ref(reflect.TypeFor[metav1.APIResourceList]())},
	})
	return custom, nil
}

// addResource adds the operations on a collection, on one object, and across namespaces.
//
//upstream:k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers
func (p *paths) addResource(r *resource.Resource) error {
	t, err := p.target(r, r)
	if err != nil {
		return err
	}
	root := versionPath(r.GroupVersion)
	collection := root + "/" + r.Name
	if r.Namespaced {
		if slices.Contains(t.verbs, "list") {
			p.add(collection, http.MethodGet, t.list("ForAllNamespaces"))
		}
		collection = root + "/namespaces/{namespace}/" + r.Name
		t.common = append(t.common, namespaceParameter)
		t.scope = "Namespaced"
	}
	item := collection + "/{name}"
	for _, verb := range t.verbs {
		switch verb {
		case "list":
			p.add(collection, http.MethodGet, t.list(""))
		case "create":
			p.add(collection, http.MethodPost, t.create())
		case "deletecollection":
			p.add(collection, http.MethodDelete, t.deleteCollection())
		}
	}
	t.common = append(t.common, t.nameParameter())
	p.addToItem(item, t)
	return nil
}

func (p *paths) addSubresource(parent, r *resource.Resource) error {
	t, err := p.target(parent, r)
	if err != nil {
		return err
	}
	path := versionPath(r.GroupVersion) + "/"
	if parent.Namespaced {
		path += "namespaces/{namespace}/"
		t.common = append(t.common, namespaceParameter)
		t.scope = "Namespaced"
	}
	path += parent.Name + "/{name}/" + r.Name
	t.common = append(t.common, t.nameParameter())
	if c, ok := r.Storage.(rest.Connecter); ok {
		return p.addConnections(path, t, c)
	}
	if slices.Contains(t.verbs, "create") {
		p.add(path, http.MethodPost, t.create())
	}
	p.addToItem(path, t)
	return nil
}

// addToItem adds the operations on one object.
func (p *paths) addToItem(path string, t *target) {
	for _, verb := range t.verbs {
		switch verb {
		case "get":
			p.add(path, http.MethodGet, t.get())
		case "update":
			p.add(path, http.MethodPut, t.update())
		case "patch":
			p.add(path, http.MethodPatch, t.patch())
		case "delete":
			p.add(path, http.MethodDelete, t.delete())
		}
	}
}

func (p *paths) addConnections(path string, t *target, c rest.Connecter) error {
	options, deeper, _ := c.NewConnectOptions()
	for _, method := range c.ConnectMethods() {
		p.add(path, method, t.connect(method, options, ""))
		if deeper {
			below := *t
			below.common = append(slices.Clone(t.common), pathParameter)
			p.add(path+"/{path}", method, below.connect(method, options, "WithPath"))
		}
	}
	return nil
}

// target is the resource or subresource of operations.
type target struct {
	*paths
	resource *resource.Resource
	verbs    []string
	scope    string // Namespaced or empty
	name     string // the parent's kind and the subresource
	subject  string // in descriptions: "Pod", or "status of the specified Pod"
	kind     apischema.GroupVersionKind
	object   *spec.Schema
	listType reflect.Type // if it can be listed
	common   []spec.Parameter
}

func (p *paths) target(parent, r *resource.Resource) (*target, error) {
	t := &target{paths: p, resource: r, verbs: r.ServedVerbs(), kind: r.Kind, name: parent.Kind.Kind}
	if parent != r {
		t.name += identifier(r.Name, true)
		t.subject = r.Name + " of "
	}
	t.subject += "the specified " + parent.Kind.Kind
	goType, err := p.goType(r, r.Kind)
	if err != nil {
		return nil, err
	}
	t.object = p.ref(goType)
	if slices.Contains(t.verbs, "list") {
		t.listType, err = p.goType(r, r.GroupVersion.WithKind(r.ListKind))
	}
	return t, err
}

// goType returns the Go type of a kind in the scope of a resource, or else in the scheme.
func (p *paths) goType(r *resource.Resource, kind apischema.GroupVersionKind) (reflect.Type, error) {
	var creater runtime.ObjectCreater = p.models.scheme
	if r.Scope != nil && r.Scope.Creater != nil {
		creater = r.Scope.Creater
	}
	obj, err := creater.New(kind)
	if err != nil {
		return nil, err
	}
	return reflect.TypeOf(obj).Elem(), nil
}

// ref returns a reference to a type, and adds the type to the document.
func (p *paths) ref(t reflect.Type) *spec.Schema {
	d := schema.Of(t)
	p.types[d] = true
	return spec.RefSchema("#/definitions/" + d.Name)
}
