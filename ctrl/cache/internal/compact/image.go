package compact

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"unsafe"
)

// image is a part whose variables stand in one struct of a type made for it, so
// that it is copied in one move. What pointed to one of the variables is turned
// to its copy then.
type image struct {
	node  *node
	whole unsafe.Pointer
	links []link
	loose []loose
}

// link is a pointer to a variable of an image.
type link struct{ at, to spot }

// loose is something in an image that has to be copied by its plan.
type loose struct {
	at   spot
	plan plan
}

// spot is a place in an image, or the variable that holds the part.
type spot struct {
	outside bool
	offset  uintptr
}

func (s spot) in(whole, outside unsafe.Pointer) unsafe.Pointer {
	if s.outside {
		return outside
	}
	return unsafe.Add(whole, s.offset)
}

// copyInto gives a variable that is a shallow copy of the one that holds the part
// a copy of the image.
func (m *image) copyInto(d *decoder, p unsafe.Pointer) {
	to := d.stock.variables(m.node, 1)
	m.node.move(to, m.whole)
	m.turn(to, p)
	for i := range m.loose {
		l := &m.loose[i]
		l.plan.own(d, l.at.in(to, p))
	}
}

// turn makes all pointers of an image point into it.
func (m *image) turn(whole, outside unsafe.Pointer) {
	for i := range m.links {
		l := &m.links[i]
		*(*unsafe.Pointer)(l.at.in(whole, outside)) = unsafe.Add(whole, l.to.offset)
	}
}

// sketch is what an image is made of.
type sketch struct {
	variables []found
	links     []sketchedLink
	loose     []sketchedLoose
}

// found is a row of variables.
type found struct {
	node  *node
	from  unsafe.Pointer
	count int
}

// pin is a place in one of the variables, or, if that is negative, the variable
// that holds the part.
type pin struct {
	variable int
	offset   uintptr
}

type sketchedLink struct {
	at pin
	to int
}

type sketchedLoose struct {
	at   pin
	plan plan
}

// gather notes what a variable leads to.
func (s *sketch) gather(p plan, at pin, from unsafe.Pointer) {
	switch p := p.(type) {
	case *node:
		s.gather(p.plan, at, from)
	case *leafPlan:
		s.row(p.elem, at, *(*unsafe.Pointer)(from), 1)
	case *pointerPlan:
		s.row(p.elem, at, *(*unsafe.Pointer)(from), 1)
	case *slicePlan:
		s.row(p.elem, at, (*slice)(from).data, (*slice)(from).len)
	case *structPlan:
		for _, step := range p.deep {
			s.gather(step.plan, pin{at.variable, at.offset + step.offset}, unsafe.Add(from, step.offset))
		}
	case *arrayPlan:
		for i := range uintptr(p.len) {
			s.gather(p.elem, pin{at.variable, at.offset + i*p.elem.size}, unsafe.Add(from, i*p.elem.size))
		}
	default:
		if m, ok := p.(interface{ simplest(unsafe.Pointer) plan }); ok {
			p = m.simplest(from)
		}
		if !isPlain(p) {
			s.loose = append(s.loose, sketchedLoose{at, p})
		}
	}
}

func (s *sketch) row(n *node, at pin, from unsafe.Pointer, count int) {
	if from == nil || count == 0 {
		return
	}
	variable := len(s.variables)
	s.variables = append(s.variables, found{n, from, count})
	s.links = append(s.links, sketchedLink{at, variable})
	for i := range uintptr(count) {
		s.gather(n.plan, pin{variable, i * n.size}, unsafe.Add(from, i*n.size))
	}
}

const (
	// Types that are made are never forgotten, so there may only be so many. An
	// image of one variable would be nothing but that, and one of very many
	// would be a type that nothing else has.
	shapesAtMost                      = 512
	variablesAtLeast, variablesAtMost = 2, 64
)

// newImage returns the image of a part that a variable holds, and makes the
// variable hold it. It returns nil if the part is better copied by its plan.
func newImage(p plan, variable unsafe.Pointer) *image {
	s := &sketch{}
	s.gather(p, pin{variable: -1}, variable)
	if len(s.variables) < variablesAtLeast || len(s.variables) > variablesAtMost {
		return nil
	}
	n := s.shape()
	if n == nil {
		return nil
	}
	m := &image{node: n, whole: reflect.New(n.typ).UnsafePointer()}
	spotOf := func(at pin) spot {
		if at.variable < 0 {
			return spot{outside: true}
		}
		return spot{offset: n.typ.Field(at.variable).Offset + at.offset}
	}
	for i, v := range s.variables {
		to := spotOf(pin{variable: i}).in(m.whole, nil)
		for i := range uintptr(v.count) {
			v.node.move(unsafe.Add(to, i*v.node.size), unsafe.Add(v.from, i*v.node.size))
		}
	}
	for _, l := range s.links {
		m.links = append(m.links, link{spotOf(l.at), spotOf(pin{variable: l.to})})
	}
	for _, l := range s.loose {
		m.loose = append(m.loose, loose{spotOf(l.at), l.plan})
	}
	m.turn(m.whole, variable)
	return m
}

// shape returns the node of the struct of the variables, or nil if there are too
// many such types already.
func (s *sketch) shape() *node {
	var name []byte
	for _, v := range s.variables {
		name = binary.AppendUvarint(name, uint64(v.node.number))
		name = binary.AppendUvarint(name, uint64(v.count))
	}
	nodes.making.Lock()
	defer nodes.making.Unlock()
	if n := nodes.shapes[string(name)]; n != nil || len(nodes.shapes) == shapesAtMost {
		return n
	}
	fields := make([]reflect.StructField, len(s.variables))
	for i, v := range s.variables {
		fields[i] = reflect.StructField{Name: fmt.Sprint("F", i), Type: reflect.ArrayOf(v.count, v.node.typ)}
	}
	n := newNode(reflect.StructOf(fields))
	nodes.shapes[string(name)] = n
	return n
}
