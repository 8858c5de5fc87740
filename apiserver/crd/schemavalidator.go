package crd

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"unicode/utf8"
	"weak"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// schemaValidator has the same result as the validator of kube-openapi, and calls it only for values that may be
// invalid. kube-openapi's validator allocates validators and results for each value, and takes ten times the memory of the compiled
// schema.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver/validation.basicSchemaValidator
type schemaValidator struct {
	compiled *compiledSchema
	props    func() (*apiextensions.JSONSchemaProps, error)

	mu sync.Mutex
	// rare is kube-openapi's validator until the next collection of garbage. often is the same validator for good: values that only
	// kube-openapi can validate need it each time, and the second validator that is made is not the last one.
	rare  weak.Pointer[upstreamValidator]
	often *upstreamValidator
	again bool
}

// upstreamValidator is a validator of kube-openapi.
type upstreamValidator struct{ validation.SchemaValidator }

// newSchemaValidator returns the validator of the schema that props returns. props is called again when kube-openapi's validator is needed.
func newSchemaValidator(props func() (*apiextensions.JSONSchemaProps, error)) (*schemaValidator, error) {
	p, err := props()
	if err != nil {
		return nil, err
	}
	_, schema, err := validation.NewSchemaValidator(p)
	if err != nil {
		return nil, err
	}
	return &schemaValidator{compiled: compileSchema(schema), props: props}, nil
}

// upstream returns kube-openapi's validator.
//
//upstream:none apiextensions-apiserver keeps the validator.
func (s *schemaValidator) upstream() (*upstreamValidator, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.often != nil {
		return s.often, nil
	}
	if v := s.rare.Value(); v != nil {
		return v, nil
	}
	props, err := s.props()
	if err != nil {
		return nil, err
	}
	v, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	made := &upstreamValidator{v}
	s.rare = weak.Make(made)
	if s.again || s.compiled.hasUncertain() {
		s.often = made
	}
	s.again = true
	return made, nil
}

// Validate implements [validation.SchemaCreateValidator].
func (s *schemaValidator) Validate(value any, o ...validation.ValidationOption) *validate.Result {
	if s.compiled.accepts(value) {
		return &validate.Result{}
	}
	if many := s.compiled.tooManyInvalid(value); many != nil {
		return many
	}
	upstream, err := s.upstream()
	if err != nil {
		return &validate.Result{Errors: []error{err}}
	}
	return upstream.Validate(value, o...)
}

// ValidateUpdate implements [validation.SchemaValidator]. A valid value is valid whatever the old value was, because
// ratcheting only tolerates errors.
func (s *schemaValidator) ValidateUpdate(value, old any, o ...validation.ValidationOption) *validate.Result {
	if s.compiled.accepts(value) {
		return &validate.Result{}
	}
	if many := s.compiled.tooManyInvalid(value); many != nil && s.compiled.tooManyInvalid(old) == nil {
		return many
	}
	upstream, err := s.upstream()
	if err != nil {
		return &validate.Result{Errors: []error{err}}
	}
	return upstream.ValidateUpdate(value, old, o...)
}

// compiledSchema recognizes values that are certainly valid.
type compiledSchema struct {
	uncertain bool // has keywords that only kube-openapi's validator supports
	untyped   bool
	nullable  bool
	closed    bool // has only the listed properties
	types     valueTypes

	items      *compiledSchema
	properties map[string]*compiledSchema
	additional *compiledSchema
	required   []string

	*constraints
}

// constraints are what few schemas have. Their schemas would take three times the memory with them.
type constraints struct {
	enum []any

	format               string // of strings, if it is a known one
	pattern              *regexp.Regexp
	minLength, maxLength *int64

	numbers numberBounds

	minItems, maxItems           *int64
	minProperties, maxProperties *int64

	allOf, anyOf []*compiledSchema
}

// unconstrained are the constraints of most schemas.
var unconstrained = &constraints{}

// valueTypes is a set of JSON types.
type valueTypes struct{ null, boolean, integer, number, text, array, object bool }

// numberBounds are the bounds of a schema for numbers.
type numberBounds struct {
	uncertain                          bool
	int32                              bool
	min, max                           *int64
	exclusiveMinimum, exclusiveMaximum bool
}

// exactBound is the limit of bounds that every number type and format can represent.
const exactBound = 1 << 24

// compileSchema compiles a schema. The result does not refer to s.
func compileSchema(s *spec.Schema) *compiledSchema {
	limits := constraints{enum: s.Enum, minLength: s.MinLength, maxLength: s.MaxLength, minItems: s.MinItems, maxItems: s.MaxItems,
		minProperties: s.MinProperties, maxProperties: s.MaxProperties, numbers: boundsOf(s),
		allOf: compileSchemas(s.AllOf), anyOf: compileSchemas(s.AnyOf)}
	c := &compiledSchema{
		untyped: len(s.Type) == 0, nullable: s.Nullable, required: s.Required,
		uncertain: s.Ref.String() != "" || len(s.OneOf) > 0 || s.Not != nil || len(s.Dependencies) > 0 ||
			len(s.PatternProperties) > 0 || s.UniqueItems || s.AdditionalItems != nil || len(s.Type) == 0 && s.Format != "",
	}
	for _, t := range s.Type {
		if !c.types.add(t) {
			c.uncertain = true
		}
	}
	if strfmt.Default.ContainsName(s.Format) {
		limits.format = s.Format
	}
	if s.Pattern != "" {
		var err error
		if limits.pattern, err = regexp.Compile(s.Pattern); err != nil {
			c.uncertain = true
		}
	}
	if s.Items != nil {
		if s.Items.Schema == nil || len(s.Items.Schemas) > 0 {
			c.uncertain = true
		} else {
			c.items = compileSchema(s.Items.Schema)
		}
	}
	if len(s.Properties) > 0 {
		c.properties = make(map[string]*compiledSchema, len(s.Properties))
	}
	for name, property := range s.Properties {
		c.properties[name] = compileSchema(&property)
	}
	if a := s.AdditionalProperties; a != nil {
		c.closed = !a.Allows
		if a.Schema != nil {
			c.additional = compileSchema(a.Schema)
		}
	}
	if c.constraints = unconstrained; !reflect.ValueOf(limits).IsZero() {
		c.constraints = &limits
	}
	return c
}

func compileSchemas(schemas []spec.Schema) (out []*compiledSchema) {
	for i := range schemas {
		out = append(out, compileSchema(&schemas[i]))
	}
	return out
}

// hasUncertain reports whether only kube-openapi's validator supports a part of the schema.
func (c *compiledSchema) hasUncertain() bool {
	if c == nil {
		return false
	}
	uncertain := func(inner *compiledSchema) bool { return inner.hasUncertain() }
	numeric := c.untyped || c.types.integer || c.types.number
	return c.uncertain || c.numbers.uncertain && numeric || c.items.hasUncertain() || c.additional.hasUncertain() ||
		slices.ContainsFunc(slices.Collect(maps.Values(c.properties)), uncertain) ||
		slices.ContainsFunc(c.allOf, uncertain) || slices.ContainsFunc(c.anyOf, uncertain)
}

// add adds a type by its name, and reports whether the type exists.
func (t *valueTypes) add(name string) bool {
	switch name {
	case "null":
		t.null = true
	case "boolean":
		t.boolean = true
	case "integer":
		t.integer = true
	case "number":
		t.number = true
	case "string":
		t.text = true
	case "array":
		t.array = true
	case "object":
		t.object = true
	default:
		return false
	}
	return true
}

// boundsOf returns the bounds for numbers. A bound is uncertain if a number type or format may round it.
func boundsOf(s *spec.Schema) numberBounds {
	b := numberBounds{exclusiveMinimum: s.ExclusiveMinimum, exclusiveMaximum: s.ExclusiveMaximum,
		uncertain: s.MultipleOf != nil}
	switch s.Format {
	case "", "int64", "double":
	case "int32":
		b.int32 = true
	default:
		b.uncertain = true
	}
	exact := func(limit *float64) *int64 {
		if limit == nil {
			return nil
		}
		n := int64(*limit)
		if float64(n) != *limit || n > exactBound || n < -exactBound {
			b.uncertain = true
		}
		return &n
	}
	b.min, b.max = exact(s.Minimum), exact(s.Maximum)
	return b
}

// accepts reports whether a value is certainly valid. It returns false for all invalid values and for some valid ones.
func (c *compiledSchema) accepts(value any) bool {
	if c.uncertain {
		return false
	}
	if value == nil {
		return (c.untyped || c.nullable || c.types.null) && len(c.enum) == 0
	}
	if len(c.enum) > 0 && !c.lists(value) {
		return false
	}
	var ok bool
	switch v := value.(type) {
	case bool:
		ok = c.untyped || c.types.boolean
	case string:
		ok = (c.untyped || c.types.text) && c.acceptsText(v)
	case int64:
		ok = (c.untyped || c.types.integer || c.types.number) && c.numbers.acceptInteger(v)
	case float64:
		ok = (c.untyped || c.types.number) && c.numbers.acceptFloat(v)
	case []any:
		ok = (c.untyped || c.types.array) && c.acceptsArray(v)
	case map[string]any:
		ok = (c.untyped || c.types.object) && c.acceptsObject(v)
	}
	if !ok {
		return false
	}
	for _, s := range c.allOf {
		if !s.accepts(value) {
			return false
		}
	}
	for _, s := range c.anyOf {
		if s.accepts(value) {
			return true
		}
	}
	return len(c.anyOf) == 0
}

// lists reports whether the enum contains a string or an integer. Values of other types are uncertain.
func (c *compiledSchema) lists(value any) bool {
	switch value.(type) {
	case string, int64:
	default:
		return false
	}
	for _, allowed := range c.enum {
		switch allowed.(type) {
		case string, int64:
			if allowed == value {
				return true
			}
		}
	}
	return false
}

func (c *compiledSchema) acceptsText(s string) bool {
	if c.minLength != nil || c.maxLength != nil {
		n := int64(utf8.RuneCountInString(s))
		if c.minLength != nil && n < *c.minLength || c.maxLength != nil && n > *c.maxLength {
			return false
		}
	}
	return (c.pattern == nil || c.pattern.MatchString(s)) && (c.format == "" || strfmt.Default.Validates(c.format, s))
}

func (b *numberBounds) acceptInteger(n int64) bool {
	switch {
	case b.uncertain:
		return false
	case b.int32 && int64(int32(n)) != n:
		return false
	case b.min != nil && (n < *b.min || b.exclusiveMinimum && n == *b.min):
		return false
	case b.max != nil && (n > *b.max || b.exclusiveMaximum && n == *b.max):
		return false
	}
	return true
}

func (b *numberBounds) acceptFloat(f float64) bool {
	switch {
	case b.uncertain || b.int32 || f != f:
		return false
	case b.min != nil && (f < float64(*b.min) || b.exclusiveMinimum && f == float64(*b.min)):
		return false
	case b.max != nil && (f > float64(*b.max) || b.exclusiveMaximum && f == float64(*b.max)):
		return false
	}
	return true
}

func (c *compiledSchema) acceptsArray(list []any) bool {
	n := int64(len(list))
	if c.minItems != nil && n < *c.minItems || c.maxItems != nil && n > *c.maxItems {
		return false
	}
	if c.items == nil {
		return true
	}
	for _, item := range list {
		if !c.items.accepts(item) {
			return false
		}
	}
	return true
}

func (c *compiledSchema) acceptsObject(m map[string]any) bool {
	n := int64(len(m))
	if c.minProperties != nil && n < *c.minProperties || c.maxProperties != nil && n > *c.maxProperties {
		return false
	}
	for _, name := range c.required {
		if _, ok := m[name]; !ok {
			return false
		}
	}
	for name, value := range m {
		property := c.properties[name]
		if property == nil {
			if c.closed {
				return false
			}
			if property = c.additional; property == nil {
				continue
			}
		}
		if !property.accepts(value) {
			return false
		}
	}
	return true
}
