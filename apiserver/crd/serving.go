package crd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/resource"
)

// serving holds the resources that one state of a definition serves. A nil serving serves nothing.
type serving struct {
	resources []*resource.Resource
	stored    *customresource.REST // in the version that is stored
	schemas   schemas
	end       context.CancelFunc
}

// retire ends the watches that began under this state of the definition, because their events have its version and
// schema. Clients watch again.
func (s *serving) retire() {
	if s != nil {
		s.end()
	}
}

// customKind holds the parts that all versions of a custom kind share.
type customKind struct {
	*Kinds
	definition  *apiextensions.CustomResourceDefinition // without schemas
	crd         *v1.CustomResourceDefinition            // without schemas
	names       v1.CustomResourceDefinitionNames        // the accepted names
	schemas     schemas
	shape       *shape
	convertor   runtime.ObjectConvertor // copies its input
	unsafe      runtime.ObjectConvertor
	equivalents runtime.EquivalentResourceRegistry
	replicas    managedfields.ResourcePathMappings
	stored      schema.GroupVersion
	gate        *instanceGate
	live        context.Context // until retired
}

// serve builds the resources of a definition, which has its schemas as texts. The caller must no longer modify the spec and the
// status. serve reuses unchanged compiled schemas of before, the previous state of the definition or nil.
func (k *Kinds) serve(crd *apiextensions.CustomResourceDefinition, texts map[string]schemaText, g *instanceGate,
	before *serving) (*serving, error) {
	definition, err := external(crd)
	if err != nil {
		return nil, err
	}
	kind := &customKind{
		Kinds:       k,
		definition:  crd,
		crd:         definition,
		names:       definition.Status.AcceptedNames,
		equivalents: runtime.NewEquivalentResourceRegistry(),
		replicas:    managedfields.ResourcePathMappings{},
		gate:        g,
	}
	if err := kind.compileSchemas(texts, before); err != nil {
		return nil, err
	}
	if kind.convertor, kind.unsafe, err = k.convertors(definition); err != nil {
		return nil, err
	}
	for i := range definition.Spec.Versions {
		kind.relate(&definition.Spec.Versions[i])
	}
	s := &serving{schemas: kind.schemas}
	kind.live, s.end = context.WithCancel(g.ctx)
	if err := kind.build(s); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// convertors returns what converts between the versions of a definition. Only conversion by webhooks needs a factory with
// clients.
func (k *Kinds) convertors(definition *v1.CustomResourceDefinition) (safe, unsafe runtime.ObjectConvertor, err error) {
	factory := &conversion.CRConverterFactory{}
	if definition.Spec.Conversion.Strategy == v1.WebhookConverter {
		if factory, err = k.webhooks(); err != nil {
			return nil, nil, fmt.Errorf("conversion webhooks: %w", err)
		}
	}
	return factory.NewConverter(definition)
}

// withoutSchemas returns a shallow copy of a definition without its schemas, and with the metadata that the server needs: managed
// fields and annotations may be as large as schemas.
func withoutSchemas(crd *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	out := *crd
	out.ObjectMeta = metav1.ObjectMeta{Name: crd.Name, UID: crd.UID, ResourceVersion: crd.ResourceVersion,
		DeletionTimestamp: crd.DeletionTimestamp, Finalizers: crd.Finalizers}
	out.Spec.Validation = nil
	out.Spec.Versions = slices.Clone(crd.Spec.Versions)
	for i := range out.Spec.Versions {
		out.Spec.Versions[i].Schema = nil
	}
	return &out
}

// relate collects the data that the versions need from each other.
func (c *customKind) relate(v *v1.CustomResourceDefinitionVersion) {
	gv := schema.GroupVersion{Group: c.crd.Spec.Group, Version: v.Name}
	if v.Storage {
		c.stored = gv
	}
	gvr, gvk := gv.WithResource(c.names.Plural), gv.WithKind(c.names.Kind)
	c.equivalents.RegisterKindFor(gvr, "", gvk)
	c.replicas[gv.String()] = nil
	if v.Subresources == nil {
		return
	}
	if v.Subresources.Status != nil {
		c.equivalents.RegisterKindFor(gvr, "status", gvk)
	}
	if s := v.Subresources.Scale; s != nil {
		c.equivalents.RegisterKindFor(gvr, "scale", scaleKind)
		path := fieldpath.Path{}
		for _, name := range strings.Split(strings.TrimPrefix(s.SpecReplicasPath, "."), ".") {
			path = append(path, fieldpath.PathElement{FieldName: &name})
		}
		c.replicas[gv.String()] = path
	}
}

// build builds the resources of all served versions.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor
func (c *customKind) build(s *serving) error {
	var versions []*customVersion
	reset := map[fieldpath.APIVersion]*fieldpath.Set{} // by the status subresource, in any version
	for i := range c.crd.Spec.Versions {
		v := &c.crd.Spec.Versions[i]
		if !v.Served && !v.Storage {
			continue
		}
		built, err := c.version(v)
		if err != nil {
			return fmt.Errorf("version %s: %w", v.Name, err)
		}
		versions = append(versions, built)
		if built.status != nil {
			maps.Copy(reset, built.status.GetResetFields())
		}
		if v.Storage {
			s.stored = built.main
		}
	}
	for _, v := range versions {
		if !v.Served {
			continue
		}
		r, err := v.resource(reset)
		if err != nil {
			return fmt.Errorf("version %s: %w", v.Name, err)
		}
		s.resources = append(s.resources, r)
	}
	return nil
}

// warning returns the warning for a deprecated version, and "" for other versions.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.defaultDeprecationWarning
func (c *customKind) warning(v *v1.CustomResourceDefinitionVersion) string {
	switch {
	case !v.Deprecated:
		return ""
	case v.DeprecationWarning != nil:
		return *v.DeprecationWarning
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", c.crd.Spec.Group, v.Name, c.crd.Spec.Names.Kind)
	var newer []string
	for _, other := range c.crd.Spec.Versions {
		if other.Served && !other.Deprecated && utilversion.CompareKubeAwareVersionStrings(v.Name, other.Name) < 0 {
			newer = append(newer, other.Name)
		}
	}
	if len(newer) > 0 {
		latest := slices.MaxFunc(newer, utilversion.CompareKubeAwareVersionStrings)
		text += fmt.Sprintf("; use %s/%s %s", c.crd.Spec.Group, latest, c.crd.Spec.Names.Kind)
	}
	return text
}
