// Package fieldrules has the paths of fields, and the checks of fields that several kinds share.
package fieldrules

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Path is the path of a field of an object. Unlike a [field.Path] it is not allocated unless there
// is an error: each level is on the stack of the function that checks it.
type Path struct {
	parent   *Path
	Name     string
	position int
	mapKey   string
	kind     pathKind
}

// pathKind is the kind of the last element of a path.
type pathKind uint8

const (
	atField pathKind = iota
	atIndex
	atKey
)

// The top-level paths. Root is the path of the object.
var (
	Root     = Path{}
	Spec     = Path{Name: "spec"}
	Status   = Path{Name: "status"}
	Metadata = Path{Name: "metadata"}
)

// Child returns the path of a field of p.
func (p *Path) Child(name string) Path { return Path{parent: p, Name: name} }

// Index returns the path of an item of the list p.
func (p *Path) Index(i int) Path { return Path{parent: p, position: i, kind: atIndex} }

// Key returns the path of an entry of the map p.
func (p *Path) Key(k string) Path { return Path{parent: p, mapKey: k, kind: atKey} }

// Field returns the path as a [field.Path]. It copies the strings, so that p does not escape to the
// heap.
func (p *Path) Field() *field.Path {
	if p.parent == nil {
		if p.Name == "" {
			return nil
		}
		return field.NewPath(strings.Clone(p.Name))
	}
	up := p.parent.Field()
	switch p.kind {
	case atIndex:
		return up.Index(p.position)
	case atKey:
		return up.Key(strings.Clone(p.mapKey))
	default:
		return up.Child(strings.Clone(p.Name))
	}
}

// ChildField returns the [field.Path] of a field of p, or of p itself if name is empty.
func (p *Path) ChildField(name string) *field.Path {
	if name == "" {
		return p.Field()
	}
	return p.Field().Child(name)
}
