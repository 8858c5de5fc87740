package crd

import (
	"net/http"
	"slices"
	"strconv"

	"k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Limits for the values of an object that its schema does not accept. The validator of kube-openapi makes a result and
// an error with a path for each. It takes megabytes and minutes for an object with a million invalid values, or with a
// path of a megabyte.
const (
	maxInvalid      = 1000
	maxInvalidBytes = 1 << 20 // of their paths
)

// invalidValues counts the certainly invalid values and the bytes of their paths.
type invalidValues struct{ count, size int }

func (i *invalidValues) tooMany() bool {
	return i.count > maxInvalid || i.size > maxInvalidBytes && i.count > 1
}

// tooManyInvalid returns an error if a value contains too many certainly invalid values, and nil otherwise.
func (c *compiledSchema) tooManyInvalid(value any) *validate.Result {
	var i invalidValues
	c.countInvalid(value, 0, &i)
	if !i.tooMany() {
		return nil
	}
	return &validate.Result{Errors: []error{errors.New(http.StatusUnprocessableEntity,
		"the object has more than %d values that do not match its schema, or very long paths of such values", i.count-1)}}
}

// countInvalid adds the invalid values at or below a value; path is the length of the value's path. It stops when there
// are too many.
func (c *compiledSchema) countInvalid(value any, path int, i *invalidValues) {
	if value == nil || i.tooMany() {
		return
	}
	switch v := value.(type) {
	case []any:
		if c.format == "" && c.refusesType(c.types.array) { // kube-openapi accepts a list for a string with a format
			i.add(path)
		} else if c.items != nil {
			for n, item := range v {
				c.items.countInvalid(item, path+len("[]")+len(strconv.Itoa(n)), i)
			}
		}
	case map[string]any:
		if c.refusesType(c.types.object) {
			i.add(path)
			return
		}
		c.countInvalidFields(v, path, i)
	default:
		if c.refuses(value) {
			i.add(path)
		}
	}
}

func (c *compiledSchema) countInvalidFields(m map[string]any, path int, i *invalidValues) {
	for _, name := range c.required {
		if _, ok := m[name]; !ok {
			i.add(path + len(name))
		}
	}
	for name, value := range m {
		property := c.properties[name]
		if property == nil {
			property = c.additional
		}
		if property != nil {
			property.countInvalid(value, path+1+len(name), i)
		}
	}
}

func (i *invalidValues) add(path int) {
	i.count++
	i.size += path
}

// refusesType reports whether a value of a type is certainly invalid; listed says whether the schema lists the type.
func (c *compiledSchema) refusesType(listed bool) bool {
	return !c.uncertain && !listed && (!c.untyped || c.onlyTypes())
}

func acceptsBooleans(s *compiledSchema) bool { return s.types.boolean }

// onlyTypes reports whether the schema is an anyOf of scalar types, such as integer or string.
func (c *compiledSchema) onlyTypes() bool {
	if len(c.anyOf) == 0 {
		return false
	}
	for _, s := range c.anyOf {
		if s.uncertain || s.untyped || s.nullable || s.types.object || s.types.array {
			return false
		}
	}
	return true
}

// refuses reports whether a scalar is certainly invalid.
func (c *compiledSchema) refuses(value any) bool {
	if c.uncertain {
		return false
	}
	switch v := value.(type) {
	case string:
		return !c.untyped && !c.types.text || !c.acceptsText(v) || len(c.enum) > 0 && !c.lists(v)
	case bool:
		return !c.types.boolean && (!c.untyped || c.onlyTypes() && !slices.ContainsFunc(c.anyOf, acceptsBooleans))
	case int64, float64:
		return !c.untyped && !c.types.integer && !c.types.number
	}
	return false
}
