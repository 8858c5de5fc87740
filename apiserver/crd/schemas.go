package crd

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// schemas are the compiled schemas of a definition.
type schemas struct {
	versions map[string]*versionSchema
	types    *lazyTypes // of all versions
}

// versionSchema is the compiled schema of one version. All states of the definition with the same terms share it.
type versionSchema struct {
	terms      terms
	structural *structural.Structural // nil if the version has no schema
	embeds     bool                   // whether it has objects inside
	// These fields are compiled on first use, because compiling rules takes longer than everything else.
	structure  func() *structure // nil if there is none
	strategies func() (strategies, error)
}

// terms are the compiled inputs of a version in addition to its schema.
type terms struct {
	kind                        schema.GroupVersionKind
	namespaced, preserveUnknown bool
	subresources                apiextensions.CustomResourceSubresources
	selectable                  []v1.SelectableField
}

func (t terms) equal(o terms) bool {
	return t.kind == o.kind && t.namespaced == o.namespaced && t.preserveUnknown == o.preserveUnknown &&
		equality.Semantic.DeepEqual(t.subresources, o.subresources) && slices.Equal(t.selectable, o.selectable)
}

// compileSchemas compiles the schemas of a definition. It reuses unchanged schemas of before, the previous state, which
// may be nil.
func (c *customKind) compileSchemas(before *definition) error {
	c.schemas.versions = map[string]*versionSchema{}
	var last schemas
	if before != nil && before.serving != nil {
		last = before.serving.schemas
	}
	same := len(c.crd.Spec.Versions) == len(last.versions)
	for i := range c.crd.Spec.Versions {
		v := &c.crd.Spec.Versions[i]
		t, props, err := c.termsOf(v)
		if err != nil {
			return err
		}
		if s := last.versions[v.Name]; s != nil && s.terms.equal(t) &&
			equality.Semantic.DeepEqual(schemaIn(before.crd, v.Name), props) {
			c.schemas.versions[v.Name] = s
			continue
		}
		same = false
		if c.schemas.versions[v.Name], err = c.compile(t, props); err != nil {
			return fmt.Errorf("schema of %s: %w", v.Name, err)
		}
	}
	c.shape = c.newShape()
	if same {
		c.schemas.types = last.types
	} else {
		c.schemas.types = customTypes(c.shape)
	}
	return nil
}

// termsOf returns the terms and the schema of a version.
func (c *customKind) termsOf(v *v1.CustomResourceDefinitionVersion) (terms, *apiextensions.JSONSchemaProps, error) {
	t := terms{
		kind:            schema.GroupVersionKind{Group: c.crd.Spec.Group, Version: v.Name, Kind: c.names.Kind},
		namespaced:      c.namespaced(),
		preserveUnknown: c.preservesUnknown(),
		selectable:      v.SelectableFields,
	}
	subresources, err := apiextensions.GetSubresourcesForVersion(c.definition, v.Name)
	if err != nil {
		return terms{}, nil, err
	}
	if subresources != nil {
		t.subresources = *subresources
	}
	if _, err := apiextensions.GetSchemaForVersion(c.definition, v.Name); err != nil {
		return terms{}, nil, err
	}
	return t, schemaIn(c.definition, v.Name), nil
}

// preservesUnknown reports whether pruning is disabled.
func (c *customKind) preservesUnknown() bool {
	preserve := c.definition.Spec.PreserveUnknownFields
	return preserve != nil && *preserve
}

// schemaIn returns the schema of a version, or nil if the version has none.
func schemaIn(crd *apiextensions.CustomResourceDefinition, version string) *apiextensions.JSONSchemaProps {
	validation, err := apiextensions.GetSchemaForVersion(crd, version)
	if err != nil || validation == nil {
		return nil
	}
	return validation.OpenAPIV3Schema
}

// compile compiles a version. The result does not refer to the definition, except to its schema.
func (k *Kinds) compile(t terms, props *apiextensions.JSONSchemaProps) (*versionSchema, error) {
	s := &versionSchema{terms: t}
	if props != nil {
		schema, err := structural.NewStructural(props)
		if err != nil {
			return nil, err
		}
		schema = schema.DeepCopy() // it shares its defaults with the definition
		if err := defaulting.PruneDefaults(schema); err != nil {
			return nil, fmt.Errorf("defaults: %w", err)
		}
		s.structural, s.embeds = schema, embeds(schema)
		s.structure = structureOf(schema, t.preserveUnknown)
	}
	schema, compilations := s.structural, k.compilations // and not k, which forks do not keep alive
	s.strategies = sync.OnceValues(func() (strategies, error) {
		compilations.Add(1)
		return compileStrategies(t, props, schema)
	})
	return s, nil
}

// compileStrategies compiles the validation by a schema and its rules.
func compileStrategies(t terms, props *apiextensions.JSONSchemaProps, schema *structural.Structural) (strategies, error) {
	object, status, err := validators(props)
	if err != nil {
		return strategies{}, err
	}
	valid := validityOf(validity{kind: t.kind, namespaced: t.namespaced, scale: t.subresources.Scale,
		schema: schema, whole: object.compiled, status: status.compiled})
	s := customresource.NewStrategy(typer{}, t.namespaced, t.kind, object, status.orNil(), schema,
		t.subresources.Status, t.subresources.Scale, t.selectable)
	return strategies{
		main:   versionStrategy{s, valid.creates, valid.updates},
		status: versionStrategy{customresource.NewStatusStrategy(s), valid.creates, valid.updatesStatus},
	}, nil
}

// validators returns validators for a whole object and for its status.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor
func validators(props *apiextensions.JSONSchemaProps) (whole, status schemaValidator, err error) {
	if whole, err = newSchemaValidator(props); err != nil || props == nil {
		return whole, status, err
	}
	if s, ok := props.Properties["status"]; ok {
		status, err = newSchemaValidator(&s)
	}
	return whole, status, err
}
