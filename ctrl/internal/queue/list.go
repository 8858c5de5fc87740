package queue

import "iter"

// links are the neighbours of an item in one list.
type links[K comparable] struct{ prev, next *item[K] }

// An item may be in two lists at once, so it has two pairs of links.
const (
	readyLinks = iota // of a flow, the keys in process, or the free list
	ageLinks          // of the ready keys by age
)

// list is an intrusive doubly linked list of items.
type list[K comparable] struct {
	head, tail *item[K]
	n          int
	by         int // the pair of links it uses
}

func (l *list[K]) push(it *item[K]) {
	it.links[l.by] = links[K]{prev: l.tail}
	if l.tail == nil {
		l.head = it
	} else {
		l.tail.links[l.by].next = it
	}
	l.tail = it
	l.n++
}

func (l *list[K]) remove(it *item[K]) {
	at := it.links[l.by]
	if at.prev == nil {
		l.head = at.next
	} else {
		at.prev.links[l.by].next = at.next
	}
	if at.next == nil {
		l.tail = at.prev
	} else {
		at.next.links[l.by].prev = at.prev
	}
	it.links[l.by] = links[K]{}
	l.n--
}

// heapItem is an element of a heap: it is ordered and stores its own position.
type heapItem[T any] interface {
	before(T) bool
	moved(index int)
}

// heap is a binary heap. Its elements store their positions, so that any of them can be removed or
// moved in logarithmic time.
type heap[T heapItem[T]] []T

func (h *heap[T]) push(x T) {
	*h = append(*h, x)
	h.up(len(*h) - 1)
}

func (h *heap[T]) remove(i int) {
	s := *h
	last := len(s) - 1
	s[i] = s[last]
	var none T
	s[last] = none
	*h = s[:last]
	if i < last {
		h.fix(i)
	}
}

// fix restores the order after the element at i has changed.
func (h *heap[T]) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *heap[T]) up(i int) {
	s := *h
	x := s[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(s[parent]) {
			break
		}
		s[i] = s[parent]
		s[i].moved(i)
		i = parent
	}
	s[i] = x
	x.moved(i)
}

func (h *heap[T]) down(start int) (changed bool) {
	s := *h
	i, x := start, s[start]
	for {
		child := 2*i + 1
		if child >= len(s) {
			break
		}
		if child+1 < len(s) && s[child+1].before(s[child]) {
			child++
		}
		if !s[child].before(x) {
			break
		}
		s[i] = s[child]
		s[i].moved(i)
		i = child
	}
	s[i] = x
	x.moved(i)
	return i > start
}

// first returns the first n elements of a heap in order, in O(n log n) however large the heap is. The heap must not change
// meanwhile.
func first[T heapItem[T]](h heap[T], n int) iter.Seq[T] {
	return func(yield func(T) bool) {
		var next heap[position[T]] // the children of the elements that were returned
		if len(h) > 0 {
			next.push(position[T]{h, 0})
		}
		for ; n > 0 && len(next) > 0; n-- {
			at := next[0].index
			next.remove(0)
			if !yield(h[at]) {
				return
			}
			for _, child := range []int{2*at + 1, 2*at + 2} {
				if child < len(h) {
					next.push(position[T]{h, child})
				}
			}
		}
	}
}

// position is a place in a heap. It is ordered as the element there.
type position[T heapItem[T]] struct {
	heap  heap[T]
	index int
}

func (p position[T]) before(o position[T]) bool { return p.heap[p.index].before(o.heap[o.index]) }
func (position[T]) moved(int)                   {}
