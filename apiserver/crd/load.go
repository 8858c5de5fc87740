package crd

import "fmt"

// Limits for the cost that a schema adds to an object.
const (
	// maxMerged is the maximum number of elements in the long associative lists of an object together.
	// structured-merge-diff inserts each element into a sorted list, which takes quadratic time.
	maxMerged = 30_000
	longList  = 1000
	// maxDefaults is the maximum number of bytes that defaults may add to an object.
	maxDefaults = 3 << 20
	// maxPaths is the maximum number of bytes of the paths of all fields of an object. Errors quote the paths, and a
	// map key may be as long as the request.
	maxPaths = 256 << 20
)

// load is the cost that a schema adds to an object: the elements of its long associative lists, and the bytes of its
// defaults.
type load struct{ merged, defaults int }

// check returns an error if the load of an object is too high.
func (l *load) check() error {
	switch {
	case l.merged > maxMerged:
		return fmt.Errorf("lists of type set or map with more than %d elements may have %d elements in total, and have %d",
			longList, maxMerged, l.merged)
	case l.defaults > maxDefaults:
		return fmt.Errorf("the defaults of the schema would add more than %d bytes", maxDefaults)
	}
	return nil
}

// checkLoad returns an error if the schema of a version adds too much cost to an object.
func (s *shape) checkLoad(content map[string]any, version string) error {
	compiled := s.structures[version]
	if compiled == nil {
		return nil
	}
	var l load
	compiled().measure(content, &l)
	return l.check()
}

func (s *structure) isMeasured() bool { return s != nil && s.measured }

// measure adds the load of a value.
func (s *structure) measure(value any, l *load) {
	if !s.isMeasured() {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for i, name := range s.defaults {
			if _, ok := v[name]; !ok {
				l.defaults += s.costs[i]
			}
		}
		if !s.open && len(s.properties) < len(v) {
			for name, property := range s.properties {
				property.measure(v[name], l)
			}
			return
		}
		for name, inner := range v {
			if property := s.properties[name]; property != nil {
				property.measure(inner, l)
			} else {
				s.values.measure(inner, l)
			}
		}
	case []any:
		if s.merges && len(v) > longList {
			l.merged += len(v)
		}
		if s.items.isMeasured() {
			for _, item := range v {
				s.items.measure(item, l)
			}
		}
	}
}

// sizeOf returns the approximate number of bytes of a JSON value.
func sizeOf(value any) int {
	const scalar = 8
	switch v := value.(type) {
	case string:
		return scalar + len(v)
	case []any:
		n := scalar
		for _, item := range v {
			n += sizeOf(item)
		}
		return n
	case map[string]any:
		n := scalar
		for name, item := range v {
			n += len(name) + sizeOf(item)
		}
		return n
	}
	return scalar
}
