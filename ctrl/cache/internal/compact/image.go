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
type link struct{ at, to pin }

// loose is something in an image that has to be copied by its plan.
type loose struct {
	at   pin
	plan plan
}

// pin is a place in one of the variables of an image, or, if that is outside, the
// variable that holds the part. Once the image has a shape, offsets are those from
// its beginning.
type pin struct {
	variable int
	offset   uintptr
}

const outside = -1

func (at pin) in(whole, holder unsafe.Pointer) unsafe.Pointer {
	if at.variable == outside {
		return holder
	}
	return unsafe.Add(whole, at.offset)
}

// copyInto gives a variable that is a shallow copy of the one that holds the part
// a copy of the image.
func (m *image) copyInto(d *decoder, p unsafe.Pointer) {
	to := d.stock.variables(m.node, 1)
	m.node.move(to, m.whole, 1)
	m.turn(to, p)
	for i := range m.loose {
		l := &m.loose[i]
		l.plan.own(d, l.at.in(to, p))
	}
}

// turn makes all pointers of an image point into it.
func (m *image) turn(whole, holder unsafe.Pointer) {
	for i := range m.links {
		l := &m.links[i]
		*(*unsafe.Pointer)(l.at.in(whole, holder)) = l.to.in(whole, holder)
	}
}

// sketch is an image whose variables stand where they were found.
type sketch struct {
	image
	variables []found
}

// found is a row of variables.
type found struct {
	node  *node
	from  unsafe.Pointer
	count int
}

// gather notes what a variable leads to.
func (s *sketch) gather(p plan, at pin, from unsafe.Pointer) {
	switch p := p.(type) {
	case *node:
		s.gather(p.plan, at, from)
	case *part:
		s.gather(p.plan, at, from)
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
			s.loose = append(s.loose, loose{at, p})
		}
	}
}

func (s *sketch) row(n *node, at pin, from unsafe.Pointer, count int) {
	if from == nil || count == 0 {
		return
	}
	variable := len(s.variables)
	s.variables = append(s.variables, found{n, from, count})
	s.links = append(s.links, link{at, pin{variable: variable}})
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
func newImage(p plan, holder unsafe.Pointer) *image {
	s := &sketch{}
	s.gather(p, pin{variable: outside}, holder)
	if len(s.variables) < variablesAtLeast || len(s.variables) > variablesAtMost {
		return nil
	}
	sh := s.shape()
	if sh == nil {
		return nil
	}
	m := s.image
	m.node, m.whole = sh.node, reflect.New(sh.typ).UnsafePointer()
	for i, v := range s.variables {
		v.node.move(unsafe.Add(m.whole, sh.offsets[i]), v.from, v.count)
	}
	for i := range m.links {
		sh.settle(&m.links[i].at)
		sh.settle(&m.links[i].to)
	}
	for i := range m.loose {
		sh.settle(&m.loose[i].at)
	}
	m.turn(m.whole, holder)
	return &m
}

// shape is the type of images with the same variables, and where those stand.
type shape struct {
	*node
	offsets []uintptr
}

func (sh *shape) settle(at *pin) {
	if at.variable != outside {
		at.offset += sh.offsets[at.variable]
	}
}

// shape returns the shape of the variables, or nil if there are too many already.
func (s *sketch) shape() *shape {
	var name []byte
	for _, v := range s.variables {
		name = binary.AppendUvarint(name, uint64(v.node.number))
		name = binary.AppendUvarint(name, uint64(v.count))
	}
	nodes.making.Lock()
	defer nodes.making.Unlock()
	if sh := nodes.shapes[string(name)]; sh != nil || len(nodes.shapes) == shapesAtMost {
		return sh
	}
	fields := make([]reflect.StructField, len(s.variables))
	for i, v := range s.variables {
		fields[i] = reflect.StructField{Name: fmt.Sprint("F", i), Type: reflect.ArrayOf(v.count, v.node.typ)}
	}
	sh := &shape{node: newNode(reflect.StructOf(fields)), offsets: make([]uintptr, len(fields))}
	for i := range sh.offsets {
		sh.offsets[i] = sh.typ.Field(i).Offset
	}
	nodes.shapes[string(name)] = sh
	return sh
}
