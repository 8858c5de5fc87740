package crd

import (
	"maps"
	"slices"
	"strconv"
)

// Limits for the paths of unknown fields in a warning or an error. Decoders of Go types limit the number of such
// errors, too.
const (
	maxUnknown      = 100
	maxUnknownBytes = 64 << 10
)

// unknownFields collects the paths of fields that a schema does not have.
type unknownFields struct {
	paths []string // the first of them
	size  int      // of the paths
}

func (u *unknownFields) full() bool { return len(u.paths) > maxUnknown || u.size > maxUnknownBytes }

// unknownFields returns the paths of the first unknown fields of an object, in order, and whether there are more.
func (s *structure) unknownFields(object map[string]any) (paths []string, more bool) {
	var u unknownFields
	u.inObject(s, object, "", true)
	slices.Sort(u.paths)
	return u.paths, u.full()
}

func (u *unknownFields) inValue(s *structure, value any, path string) {
	switch v := value.(type) {
	case map[string]any:
		u.inObject(s, v, path, false)
	case []any:
		if s != nil && s.items == nil && s.preserves {
			return
		}
		var items *structure
		if s != nil {
			items = s.items
		}
		for i, item := range v {
			if _, isScalar := item.(string); !isScalar && !u.full() {
				u.inValue(items, item, path+"["+strconv.Itoa(i)+"]")
			}
		}
	}
}

func (u *unknownFields) inObject(s *structure, object map[string]any, path string, root bool) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if u.full() {
			return
		}
		if root && (name == "metadata" || name == "apiVersion" || name == "kind") {
			continue
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		switch property := s.property(name); {
		case property != nil:
			u.inValue(property, object[name], at)
		case s != nil && s.open:
			u.inValue(s.values, object[name], at)
		case s == nil || !s.preserves:
			u.paths = append(u.paths, at)
			u.size += len(at)
		}
	}
}

func (s *structure) property(name string) *structure {
	if s == nil {
		return nil
	}
	return s.properties[name]
}
