package openapi

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/aggregator"
	handlerv2 "k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/schema"
)

// models builds the documents of resources.
type models struct {
	scheme *runtime.Scheme
	// kinds returns the kinds of each Go type in the scheme, sorted.
	kinds func() map[reflect.Type][]apischema.GroupVersionKind
}

func newModels(scheme *runtime.Scheme) *models {
	return &models{scheme: scheme, kinds: sync.OnceValue(func() map[reflect.Type][]apischema.GroupVersionKind {
		kinds := map[reflect.Type][]apischema.GroupVersionKind{}
		for gvk, t := range scheme.AllKnownTypes() {
			if gvk.Version != runtime.APIVersionInternal {
				kinds[t] = append(kinds[t], gvk)
			}
		}
		for _, known := range kinds {
			slices.SortFunc(known, func(a, b apischema.GroupVersionKind) int {
				return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
			})
		}
		return kinds
	})}
}

var (
	info     = &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: minor(resource.Release)}}
	security = spec.SecurityDefinitions{"BearerToken": {SecuritySchemeProps: spec.SecuritySchemeProps{
		Type: "apiKey", Name: "authorization", In: "header", Description: "Bearer Token authentication"}}}
)

// v2 returns the document of all resources, including the parts of custom resources. If definitions have the same name,
// the built-in definition takes precedence.
func (m *models) v2(s *resource.Snapshot, partOf func(*resource.Resource) (part, error)) (rope, error) {
	for _, g := range s.Groups() { // before there are the large trees of the built-in resources
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				if r.OpenAPI != nil && !r.Remote {
					if _, err := partOf(r); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	b := newPaths(m)
	swagger := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0", Info: info, Paths: &spec.Paths{Paths: b.items}, Definitions: spec.Definitions{},
		SecurityDefinitions: security, Security: []map[string][]string{{"BearerToken": {}}},
	}}
	var custom, remote []*resource.Resource
	for _, g := range s.Groups() {
		for _, v := range g.Versions {
			own, err := b.addVersion(v)
			if err != nil {
				return nil, err
			}
			// All resources of an extension API server have the same document.
			if i := slices.IndexFunc(own, func(r *resource.Resource) bool { return r.Remote }); i >= 0 {
				remote = append(remote, own[i])
			}
			custom = append(custom, slices.DeleteFunc(own, func(r *resource.Resource) bool { return r.Remote })...)
		}
	}
	for _, d := range b.definitions() {
		swagger.Definitions[d.Name] = *m.withKinds(d, d.V2())
	}
	swagger.Definitions = handlerv2.PruneDefaults(swagger.Definitions)
	var parts []part
	for _, c := range custom {
		p, err := partOf(c)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p.reserve(swagger))
	}
	for _, r := range remote {
		doc, err := r.OpenAPI.V2()
		if err == nil {
			// Definitions of another server with the same name can be of another version.
			err = aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(swagger, doc)
		}
		if err != nil { // the resources of other servers must still be described
			klog.ErrorS(err, "The OpenAPI document of an extension API server cannot be merged")
		}
	}
	text, err := swagger.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return withParts(text, parts)
}

// v3 returns the document of one version of a group.
func (m *models) v3(v *resource.Version) ([]byte, error) {
	b := newPaths(m)
	custom, err := b.addVersion(v)
	if err != nil {
		return nil, err
	}
	doc := &spec3.OpenAPI{
		Version:    "3.0.0",
		Info:       info,
		Paths:      pathsV3(b.items),
		Components: openapiconv.ConvertComponents(security, spec.Definitions{}, nil, nil),
	}
	for _, d := range b.definitions() {
		doc.Components.Schemas[d.Name] = m.withKinds(d, d.V3())
	}
	for _, c := range custom {
		own, err := c.OpenAPI.V3()
		if err != nil {
			return nil, err
		}
		addMissing(doc.Paths.Paths, own.Paths.Paths)
		addMissing(doc.Components.Schemas, own.Components.Schemas)
	}
	return doc.MarshalJSON()
}

// minor returns a release without its patch version.
func minor(release string) string { return release[:strings.LastIndexByte(release, '.')] }

// pathsV3 converts operations. The conversion loses that a body is required.
func pathsV3(items map[string]spec.PathItem) *spec3.Paths {
	converted := openapiconv.ConvertPaths(&spec.Paths{Paths: items})
	for _, item := range converted.Paths {
		for _, op := range []*spec3.Operation{item.Put, item.Post, item.Patch} {
			if op != nil && op.RequestBody != nil {
				op.RequestBody.Required = true
			}
		}
	}
	return converted
}

func addMissing[V any](to, from map[string]V) {
	for name, value := range from {
		if _, ok := to[name]; !ok {
			to[name] = value
		}
	}
}

// withKinds returns a copy of a schema that lists the kinds with that schema.
func (m *models) withKinds(d *schema.Definition, s *spec.Schema) *spec.Schema {
	kinds := m.kinds()[d.Type]
	if len(kinds) == 0 {
		return s
	}
	list := make([]any, len(kinds))
	for i, gvk := range kinds {
		list[i] = kindExtension(gvk)
	}
	out := *s
	out.Extensions = maps.Clone(s.Extensions)
	out.AddExtension("x-kubernetes-group-version-kind", list)
	return &out
}

//upstream:k8s.io/apiserver/pkg/endpoints/openapi.DefinitionNamer
func kindExtension(gvk apischema.GroupVersionKind) map[string]any {
	return map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
}
