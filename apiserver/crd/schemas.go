package crd

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// schemas are the compiled schemas of a definition.
type schemas struct {
	versions map[string]*versionSchema
	types    *lazyTypes // of all versions
}

// versionSchema is the compiled schema of one version. All states of the definition with the same terms and schema share it.
type versionSchema struct {
	terms terms
	*compiled
	strategies func() (strategies, error)
}

// compiled is a compiled schema. All versions and all states of a definition with the same schema share it. The functions compile at
// their first use: most kinds are served and never used, and compiling rules takes longer than everything else.
type compiled struct {
	text       schemaText
	embeds     bool                          // whether it has objects inside
	structural func() *structural.Structural // returns nil without a schema
	structure  func() *structure             // nil if apiextensions-apiserver must always handle the schema
	validators func() (validators, error)
}

// terms are the compiled inputs of a version in addition to its schema.
type terms struct {
	kind         schema.GroupVersionKind
	namespaced   bool
	subresources apiextensions.CustomResourceSubresources
	selectable   []v1.SelectableField
}

func (t terms) equal(o terms) bool {
	return t.kind == o.kind && t.namespaced == o.namespaced &&
		equality.Semantic.DeepEqual(t.subresources, o.subresources) && slices.Equal(t.selectable, o.selectable)
}

// compileSchemas compiles the schemas of a definition, which has them as texts. It reuses what has not changed since the previous
// state, which may be nil.
func (c *customKind) compileSchemas(texts map[string]schemaText, before *serving) error {
	c.schemas.versions = map[string]*versionSchema{}
	var last schemas
	if before != nil {
		last = before.schemas
	}
	same := len(c.crd.Spec.Versions) == len(last.versions)
	for i := range c.crd.Spec.Versions {
		v := &c.crd.Spec.Versions[i]
		t, err := c.termsOf(v)
		if err != nil {
			return err
		}
		text := texts[v.Name]
		if s := last.versions[v.Name]; s != nil && s.terms.equal(t) && s.text == text {
			c.schemas.versions[v.Name] = s
			continue
		}
		same = false
		s := c.schemas.find(text)
		if s == nil {
			s = last.find(text)
		}
		if s == nil {
			if s, err = compile(text); err != nil {
				return fmt.Errorf("schema of %s: %w", v.Name, err)
			}
		}
		c.schemas.versions[v.Name] = c.versionSchema(t, s)
	}
	c.shape = c.newShape()
	if same && last.types != nil && last.types.shape.preserveUnknown == c.shape.preserveUnknown {
		c.schemas.types = last.types
	} else {
		c.schemas.types = customTypes(c.shape)
	}
	return nil
}

// have reports whether these are the schemas of all texts.
func (s schemas) have(texts map[string]schemaText) bool {
	for name, text := range texts {
		if v := s.versions[name]; v == nil || v.text != text {
			return false
		}
	}
	return len(texts) == len(s.versions)
}

// find returns the compiled schema with a text, or nil.
func (s schemas) find(text schemaText) *compiled {
	for _, v := range s.versions {
		if v.text == text {
			return v.compiled
		}
	}
	return nil
}

// termsOf returns the terms of a version.
func (c *customKind) termsOf(v *v1.CustomResourceDefinitionVersion) (terms, error) {
	t := terms{
		kind:       schema.GroupVersionKind{Group: c.crd.Spec.Group, Version: v.Name, Kind: c.names.Kind},
		namespaced: c.namespaced(),
		selectable: v.SelectableFields,
	}
	subresources, err := apiextensions.GetSubresourcesForVersion(c.definition, v.Name)
	if err != nil {
		return terms{}, err
	}
	if subresources != nil {
		t.subresources = *subresources
	}
	return t, nil
}

// preservesUnknown reports whether pruning is disabled.
func (c *customKind) preservesUnknown() bool {
	preserve := c.definition.Spec.PreserveUnknownFields
	return preserve != nil && *preserve
}

// compile returns the compiled schema of a text.
func compile(text schemaText) (*compiled, error) {
	s, err := text.structural()
	if err != nil {
		return nil, err
	}
	c := &compiled{text: text, embeds: embeds(s)}
	c.structural = sync.OnceValue(func() *structural.Structural {
		s, err := text.structural()
		if err != nil {
			panic(err) // unreachable: the same text has had a structural schema
		}
		return s
	})
	if s != nil && isCompilable(s) {
		c.structure = sync.OnceValue(func() *structure { return compileStructure(c.structural()) })
	}
	c.validators = sync.OnceValues(func() (validators, error) { return validatorsOf(text) })
	return c, nil
}

// versionSchema returns the schema of a version with its terms.
func (k *Kinds) versionSchema(t terms, c *compiled) *versionSchema {
	compilations := k.compilations // and not k, which forks do not keep alive
	return &versionSchema{t, c, sync.OnceValues(func() (strategies, error) {
		compilations.Add(1)
		return compileStrategies(t, c)
	})}
}

// compileStrategies compiles the validation by a schema and its rules.
func compileStrategies(t terms, c *compiled) (strategies, error) {
	v, err := c.validators()
	if err != nil {
		return strategies{}, err
	}
	schema := c.structural()
	valid := validity{kind: t.kind, namespaced: t.namespaced, scale: t.subresources.Scale, schema: schema, whole: v.whole.compiled}
	var status validation.SchemaValidator // nil without a schema
	if v.status != nil {
		status, valid.status = v.status, v.status.compiled
	}
	valids := validityOf(valid)
	s := customresource.NewStrategy(typer{}, t.namespaced, t.kind, v.whole, status, schema,
		t.subresources.Status, t.subresources.Scale, t.selectable)
	return strategies{
		main:   versionStrategy{s, valids.creates, valids.updates},
		status: versionStrategy{customresource.NewStatusStrategy(s), valids.creates, valids.updatesStatus},
	}, nil
}

// validators validate a whole object and its status.
type validators struct{ whole, status *schemaValidator } // status is nil if the schema has none

//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor
func validatorsOf(text schemaText) (v validators, err error) {
	if v.whole, err = newSchemaValidator(text.internal); err != nil {
		return v, err
	}
	if status := v.whole.compiled.properties["status"]; status != nil {
		v.status = &schemaValidator{compiled: status, props: func() (*apiextensions.JSONSchemaProps, error) {
			props, err := text.internal()
			if err != nil {
				return nil, err
			}
			status := props.Properties["status"]
			return &status, nil
		}}
	}
	return v, nil
}
