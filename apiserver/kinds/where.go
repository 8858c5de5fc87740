package kinds

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// where is a place in an object. Unlike a [field.Path] it costs nothing until an error needs its
// name: each level lives on the stack of the function that looks at it, so an object that is right is
// checked without allocating.
type where struct {
	up    *where
	field string
	index int
	key   string
	kind  whereKind
}

type whereKind uint8

const (
	atField whereKind = iota
	atIndex
	atKey
)

// The places that a kind's rules start from. The root is the object itself.
var (
	root       = where{}
	specAt     = where{field: "spec"}
	statusAt   = where{field: "status"}
	metadataAt = where{field: "metadata"}
)

// at is a field of w.
func (w *where) at(name string) where { return where{up: w, field: name} }

// item is one item of the list w.
func (w *where) item(i int) where { return where{up: w, index: i, kind: atIndex} }

// entry is one entry of the map w.
func (w *where) entry(k string) where { return where{up: w, key: k, kind: atKey} }

// path is the place's name for an error. It copies the strings, because a place whose strings live on
// would itself have to live on the heap.
func (w *where) path() *field.Path {
	if w.up == nil {
		if w.field == "" {
			return nil
		}
		return field.NewPath(strings.Clone(w.field))
	}
	up := w.up.path()
	switch w.kind {
	case atIndex:
		return up.Index(w.index)
	case atKey:
		return up.Key(strings.Clone(w.key))
	default:
		return up.Child(strings.Clone(w.field))
	}
}

// of is the name of a field below w for an error, or that of w itself if name is empty.
func (w *where) of(name string) *field.Path {
	if name == "" {
		return w.path()
	}
	return w.path().Child(name)
}
