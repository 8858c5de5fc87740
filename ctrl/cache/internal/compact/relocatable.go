package compact

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"unsafe"
)

// relocatable is a part whose variables stand in one struct of a type made for it, so
// that it is copied in one move. What pointed to one of the variables is turned
// to its copy then.
type relocatable struct {
	node        *node
	block       unsafe.Pointer
	relocations []relocation
	fixups      []fixup
}

// relocation is a pointer to a variable of an image.
type relocation struct{ at, to slot }

// fixup is something in an image that has to be copied by its plan.
type fixup struct {
	at    slot
	codec codec
}

// slot is a place in one of the variables of an image, or, if that is outside, the
// variable that holds the part. Once the image has a shape, offsets are those from
// its beginning.
type slot struct {
	variable int
	offset   uintptr
}

const root = -1

func (at slot) in(whole, holder unsafe.Pointer) unsafe.Pointer {
	if at.variable == root {
		return holder
	}
	return unsafe.Add(whole, at.offset)
}

// copyInto gives a variable that is a shallow copy of the one that holds the part
// a copy of the image.
func (m *relocatable) copyInto(d *decoder, p unsafe.Pointer) {
	to := d.arena.variables(m.node, 1)
	m.node.move(to, m.block, 1)
	m.relocate(to, p)
	for i := range m.fixups {
		l := &m.fixups[i]
		l.codec.unalias(d, l.at.in(to, p))
	}
}

// relocate makes all pointers of an image point into it.
func (m *relocatable) relocate(whole, holder unsafe.Pointer) {
	for i := range m.relocations {
		l := &m.relocations[i]
		*(*unsafe.Pointer)(l.at.in(whole, holder)) = l.to.in(whole, holder)
	}
}

// flattener is an image whose variables stand where they were found.
type flattener struct {
	relocatable
	variables []run
}

// run is a row of variables.
type run struct {
	node  *node
	from  unsafe.Pointer
	count int
}

// gather notes what a variable leads to.
func (s *flattener) gather(p codec, at slot, from unsafe.Pointer) {
	switch p := p.(type) {
	case *node:
		s.gather(p.codec, at, from)
	case *subtreeCodec:
		s.gather(p.codec, at, from)
	case *pointerCodec:
		s.row(p.elem, at, *(*unsafe.Pointer)(from), 1)
	case *sliceCodec:
		s.row(p.elem, at, (*slice)(from).data, (*slice)(from).len)
	case *structCodec:
		for _, step := range p.indirect {
			s.gather(step.codec, slot{at.variable, at.offset + step.offset}, unsafe.Add(from, step.offset))
		}
	case *arrayCodec:
		for i := range uintptr(p.len) {
			s.gather(p.elem, slot{at.variable, at.offset + i*p.elem.size}, unsafe.Add(from, i*p.elem.size))
		}
	default:
		if m, ok := p.(interface{ specialize(unsafe.Pointer) codec }); ok {
			p = m.specialize(from)
		}
		if !isPlain(p) {
			s.fixups = append(s.fixups, fixup{at, p})
		}
	}
}

func (s *flattener) row(n *node, at slot, from unsafe.Pointer, count int) {
	if from == nil || count == 0 {
		return
	}
	variable := len(s.variables)
	s.variables = append(s.variables, run{n, from, count})
	s.relocations = append(s.relocations, relocation{at, slot{variable: variable}})
	for i := range uintptr(count) {
		s.gather(n.codec, slot{variable, i * n.size}, unsafe.Add(from, i*n.size))
	}
}

const (
	// Types that are made are never forgotten, so there may only be so many. An
	// image of one variable would be nothing but that, and one of very many
	// would be a type that nothing else has.
	blockTypesAtMost                  = 512
	variablesAtLeast, variablesAtMost = 2, 64
)

// newRelocatable returns the image of a part that a variable holds, and makes the
// variable hold it. It returns nil if the part is better copied by its plan.
func newRelocatable(p codec, holder unsafe.Pointer) *relocatable {
	s := &flattener{}
	s.gather(p, slot{variable: root}, holder)
	if len(s.variables) < variablesAtLeast || len(s.variables) > variablesAtMost {
		return nil
	}
	sh := s.blockType()
	if sh == nil {
		return nil
	}
	m := s.relocatable
	m.node, m.block = sh.node, reflect.New(sh.typ).UnsafePointer()
	for i, v := range s.variables {
		v.node.move(unsafe.Add(m.block, sh.offsets[i]), v.from, v.count)
	}
	for i := range m.relocations {
		sh.resolve(&m.relocations[i].at)
		sh.resolve(&m.relocations[i].to)
	}
	for i := range m.fixups {
		sh.resolve(&m.fixups[i].at)
	}
	m.relocate(m.block, holder)
	return &m
}

// blockType is the type of images with the same variables, and where those stand.
type blockType struct {
	*node
	offsets []uintptr
}

func (sh *blockType) resolve(at *slot) {
	if at.variable != root {
		at.offset += sh.offsets[at.variable]
	}
}

// blockType returns the shape of the variables, or nil if there are too many already.
func (s *flattener) blockType() *blockType {
	var name []byte
	for _, v := range s.variables {
		name = binary.AppendUvarint(name, uint64(v.node.number))
		name = binary.AppendUvarint(name, uint64(v.count))
	}
	nodes.making.Lock()
	defer nodes.making.Unlock()
	if sh := nodes.shapes[string(name)]; sh != nil || len(nodes.shapes) == blockTypesAtMost {
		return sh
	}
	fields := make([]reflect.StructField, len(s.variables))
	for i, v := range s.variables {
		fields[i] = reflect.StructField{Name: fmt.Sprint("F", i), Type: reflect.ArrayOf(v.count, v.node.typ)}
	}
	sh := &blockType{node: newNode(reflect.StructOf(fields)), offsets: make([]uintptr, len(fields))}
	for i := range sh.offsets {
		sh.offsets[i] = sh.typ.Field(i).Offset
	}
	nodes.shapes[string(name)] = sh
	return sh
}
