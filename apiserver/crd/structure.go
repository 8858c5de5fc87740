package crd

import (
	"reflect"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// structure is a compiled structural schema. It recognizes values that pruning and defaulting leave unchanged. All
// other values go through the functions of apiextensions-apiserver, which copy the schema of each field that they
// visit.
type structure struct {
	properties map[string]*structure
	defaults   []string   // names of the properties that have a default
	open       bool       // has additional properties
	values     *structure // of the additional properties; nil without a schema
	items      *structure // of a list; nil without a schema
	nullable   bool
	preserves  bool // unknown fields

	merges   bool  // a list with elements that can have different managers
	measured bool  // this or a part has such a list, or a default
	costs    []int // of the defaults, in bytes
}

// effects are the changes that decoding may make to an object. They may include changes that do not happen.
type effects uint8

const (
	prunes   effects = 1 << iota // fields are dropped, because they are unknown or null
	defaults                     // fields get their default
)

// isCompilable reports whether a schema has a structure. apiextensions-apiserver must always handle a schema with embedded resources.
func isCompilable(schema *structural.Structural) bool {
	return !embeds(schema) && !hasDefault(schema.Properties["metadata"]) &&
		!hasDefault(schema.Properties["apiVersion"]) && !hasDefault(schema.Properties["kind"])
}

func hasDefault(s structural.Structural) bool {
	return has(&s, func(s *structural.Structural) bool { return s.Default.Object != nil })
}

// compileStructure compiles a schema. The result does not refer to s.
func compileStructure(s *structural.Structural) *structure {
	if s == nil {
		return nil
	}
	c := &structure{items: compileStructure(s.Items), nullable: s.Nullable, preserves: s.XPreserveUnknownFields}
	if len(s.Properties) > 0 {
		c.properties = make(map[string]*structure, len(s.Properties))
	}
	for name, property := range s.Properties {
		c.properties[name] = compileStructure(&property)
		if value := property.Default.Object; value != nil {
			c.defaults = append(c.defaults, name)
			grown := load{}
			c.properties[name].measure(value, &grown)
			c.costs = append(c.costs, sizeOf(value)+grown.defaults)
		}
		c.measured = c.measured || c.properties[name].measured
	}
	if a := s.AdditionalProperties; a != nil {
		c.open, c.values = true, compileStructure(a.Structural)
	}
	c.merges = s.XListType != nil && *s.XListType != "atomic"
	c.measured = c.measured || c.merges || len(c.defaults) > 0 || c.items.isMeasured() || c.values.isMeasured()
	if reflect.ValueOf(*c).IsZero() {
		return scalar
	}
	return c
}

// scalar is the structure of most scalars.
var scalar = &structure{}

// effects returns the possible effects of decoding an object of the kind in a version, except on its metadata.
func (s *shape) effects(content map[string]any, version string) effects {
	compiled := s.structures[version]
	if compiled == nil {
		return prunes | defaults
	}
	return compiled().ofObject(content, true)
}

// of returns the effects on a value; s is nil for a missing schema.
func (s *structure) of(value any) (e effects) {
	switch v := value.(type) {
	case nil:
		if s != nil && !s.nullable {
			return prunes | defaults
		}
	case map[string]any:
		if s == nil && len(v) > 0 {
			return prunes
		}
		if s != nil {
			return s.ofObject(v, false)
		}
	case []any:
		if s != nil && s.items == nil && s.preserves {
			return 0
		}
		var items *structure
		if s != nil {
			items = s.items
		}
		for _, item := range v {
			e |= items.of(item)
		}
	}
	return e
}

// ofObject returns the effects on an object. The schema does not apply to the type and the metadata of the root.
func (s *structure) ofObject(m map[string]any, root bool) (e effects) {
	for _, name := range s.defaults {
		if _, ok := m[name]; !ok {
			e |= defaults
		}
	}
	for name, value := range m {
		if root && (name == "metadata" || name == "apiVersion" || name == "kind") {
			continue
		}
		if property := s.properties[name]; property != nil {
			e |= property.of(value)
		} else if s.open {
			e |= s.values.of(value)
		} else if !s.preserves {
			e |= prunes
		}
	}
	return e
}
