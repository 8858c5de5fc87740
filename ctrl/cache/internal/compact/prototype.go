package compact

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"flyball.dev/ctrl/cache/internal/compact/arena"
)

// The memory of a prototype beside its variables, in bytes.
const prototypeCost, keptCost, relocatableCost, relocationCost = 50, 200, 100, 40

// newPrototype unpacks a subtree into a prototype, and returns about how many bytes that takes. The
// subtree may refer to the entries.
//
// Unsafe: the variable is of the type of the subtree's codec.
func newPrototype(entries []entry, t *subtree) (*prototype, int) {
	d := decoder{entries: entries, arena: arena.Arena{Dedicated: true}}
	d.open(t.packed)
	codec := t.codec.(*subtreeCodec)
	variable := codec.variable()
	codec.decode(&d, variable)
	size := d.arena.Allocated + prototypeCost
	p := &prototype{variable, codec.codec}
	if r := newRelocatable(codec.codec, variable); r != nil {
		size += relocatableCost + relocationCost*(len(r.relocations)+len(r.fixups))
		p.unaliaser = r
	}
	return p, size + size/8 // allocations are rounded up
}

// newKept returns a map that is kept as a Go value, and about how many bytes that takes. Its elements
// refer to no variables.
//
// Unsafe: the mark has a variable of the type of its codec.
func newKept(m *mark) (*subtree, int) {
	t := m.codec.(*subtreeCodec)
	c := t.codec
	if s, ok := c.(specializer); ok {
		c = s.specialize(m.kept)
	}
	d := decoder{arena: arena.Arena{Dedicated: true}}
	variable := t.variable()
	t.assign(variable, m.kept)
	c.unalias(&d, variable)
	kept := &subtree{codec: t}
	kept.prototype.Store(&prototype{variable, c})
	return kept, d.arena.Allocated + keptCost
}

// specializer is a codec with a faster variant for a variable that is to be copied.
type specializer interface{ specialize(unsafe.Pointer) codec }

// relocatable has the variables that the variable of a prototype refers to, in one block of memory
// that is copied at once: a struct of a type that was made for it. Pointers into the block are
// relocated in the copy.
type relocatable struct {
	node        *node
	block       reflect.Value
	relocations []relocation
	fixups      []fixup
}

// relocation is a slot with a pointer to another one.
type relocation struct{ at, to slot }

// fixup is a slot. A codec makes the copies of the slot independent.
type fixup struct {
	at    slot
	codec codec
}

// slot is a place in one of the variables of a block, or, if that is root, the variable of the
// prototype. Once the block has a type, the offset is that in the block.
type slot struct {
	variable int
	offset   uintptr
}

const root = -1

// in returns the address of a slot.
//
// Unsafe: the block is of the type for which the slot was resolved, so the offset is within it.
func (s slot) in(block, variable unsafe.Pointer) unsafe.Pointer {
	if s.variable == root {
		return variable
	}
	return unsafe.Add(block, s.offset)
}

// unalias implements unaliaser.
//
// Unsafe: the new block is of the type of the old one, and variable is of the prototype's type.
func (r *relocatable) unalias(d *decoder, variable unsafe.Pointer) {
	copied := d.arena.NewValue(&r.node.Type)
	copied.Set(r.block)
	block := unsafe.Pointer(copied.UnsafeAddr())
	r.relocate(block, variable)
	for i := range r.fixups {
		f := &r.fixups[i]
		f.codec.unalias(d, f.at.in(block, variable))
	}
}

// relocate makes the pointers of a block, and of the variable, point into that block.
//
// Unsafe: a relocation's slot is of a pointer type, or a slice: the first word of a slice is the
// pointer. The target is of the element type, with as many elements as the slice is long.
func (r *relocatable) relocate(block, variable unsafe.Pointer) {
	for i := range r.relocations {
		l := &r.relocations[i]
		*(*unsafe.Pointer)(l.at.in(block, variable)) = l.to.in(block, variable)
	}
}

// flattener finds the variables that are to be in a block.
type flattener struct {
	relocatable
	runs []run
}

// run is a number of variables one after the other.
type run struct {
	node  *node
	from  unsafe.Pointer
	count int
}

// gather notes the variables that a variable refers to.
//
// Unsafe: from points to a variable of the codec's type.
func (f *flattener) gather(c codec, at slot, from unsafe.Pointer) {
	switch c := c.(type) {
	case *node:
		f.gather(c.codec, at, from)
	case *subtreeCodec:
		f.gather(c.codec, at, from)
	case *pointerCodec:
		f.add(c.elem, at, *(*unsafe.Pointer)(from), 1)
	case *sliceCodec:
		f.add(c.elem, at, (*slice)(from).data, (*slice)(from).len)
	case *structCodec:
		for _, field := range c.indirect {
			f.gather(field.codec, slot{at.variable, at.offset + field.offset}, unsafe.Add(from, field.offset))
		}
	case *arrayCodec:
		for i := range uintptr(c.len) {
			f.gather(c.elem, slot{at.variable, at.offset + i*c.elem.Size}, unsafe.Add(from, i*c.elem.Size))
		}
	default:
		if s, ok := c.(specializer); ok {
			c = s.specialize(from)
		}
		if !isPlain(c) {
			f.fixups = append(f.fixups, fixup{at, c})
		}
	}
}

// add notes a run of variables to which a slot points, and the variables that these refer to.
//
// Unsafe: from points to count variables of the node's type.
func (f *flattener) add(n *node, at slot, from unsafe.Pointer, count int) {
	if from == nil || count == 0 {
		return
	}
	variable := len(f.runs)
	f.runs = append(f.runs, run{n, from, count})
	f.relocations = append(f.relocations, relocation{at, slot{variable: variable}})
	for i := range uintptr(count) {
		f.gather(n.codec, slot{variable, i * n.Size}, unsafe.Add(from, i*n.Size))
	}
}

const (
	// Types that are made at run time are never freed, so there may only be so many. A block of
	// one variable gains nothing, and one of very many would be a type that nothing else has.
	maxBlockTypes              = 512
	minVariables, maxVariables = 2, 64
)

// newRelocatable copies the variables that a variable refers to into a block. It returns nil if the
// codec makes copies faster.
//
// Unsafe: the variable is of the codec's type, and nobody else knows it yet.
func newRelocatable(c codec, variable unsafe.Pointer) *relocatable {
	f := &flattener{}
	f.gather(c, slot{variable: root}, variable)
	if len(f.runs) < minVariables || len(f.runs) > maxVariables {
		return nil
	}
	b := blockTypeOf(f.runs)
	if b == nil {
		return nil
	}
	r := f.relocatable
	r.node, r.block = b.node, reflect.New(b.typ).Elem()
	block := unsafe.Pointer(r.block.UnsafeAddr())
	for i, run := range f.runs {
		run.node.move(unsafe.Add(block, b.offsets[i]), run.from, run.count)
	}
	for i := range r.relocations {
		b.resolve(&r.relocations[i].at)
		b.resolve(&r.relocations[i].to)
	}
	for i := range r.fixups {
		b.resolve(&r.fixups[i].at)
	}
	r.relocate(block, variable)
	return &r
}

// blockType is the type of blocks with the same runs of variables, and the offsets of the runs.
type blockType struct {
	*node
	offsets []uintptr
}

func (b *blockType) resolve(at *slot) {
	if at.variable != root {
		at.offset += b.offsets[at.variable]
	}
}

// blockTypes are the types that were made, by their content.
var blockTypes = struct {
	sync.Mutex
	known map[string]*blockType
}{known: map[string]*blockType{}}

// blockTypeOf returns the type of a block, or nil if there are too many types already.
func blockTypeOf(runs []run) *blockType {
	var name []byte
	for _, r := range runs {
		name = binary.AppendUvarint(name, uint64(r.node.ID()))
		name = binary.AppendUvarint(name, uint64(r.count))
	}
	blockTypes.Lock()
	defer blockTypes.Unlock()
	if b := blockTypes.known[string(name)]; b != nil || len(blockTypes.known) == maxBlockTypes {
		return b
	}
	fields := make([]reflect.StructField, len(runs))
	for i, r := range runs {
		fields[i] = reflect.StructField{Name: fmt.Sprint("F", i), Type: reflect.ArrayOf(r.count, r.node.typ)}
	}
	b := &blockType{node: newNode(reflect.StructOf(fields)), offsets: make([]uintptr, len(fields))}
	for i := range b.offsets {
		b.offsets[i] = b.typ.Field(i).Offset
	}
	blockTypes.known[string(name)] = b
	return b
}
