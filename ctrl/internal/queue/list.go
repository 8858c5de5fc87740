package queue

// links are an entry's neighbours in one list.
type links[K comparable] struct{ prev, next *item[K] }

// An entry may be in two lists at once, so it has two pairs of links.
const (
	readyLinks = iota // in a flow, among the keys in process, or among the spare ones
	ageLinks          // in the order of arrival
)

// list is a doubly linked list through the entries themselves.
type list[K comparable] struct {
	head, tail *item[K]
	n          int
	by         int // which links it uses
}

func (l *list[K]) push(e *item[K]) {
	e.links[l.by] = links[K]{prev: l.tail}
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.links[l.by].next = e
	}
	l.tail = e
	l.n++
}

func (l *list[K]) remove(e *item[K]) {
	at := e.links[l.by]
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
	e.links[l.by] = links[K]{}
	l.n--
}

// heapItem is what a heap holds: something ordered that remembers its position.
type heapItem[T any] interface {
	before(T) bool
	moved(index int)
}

// heap is a binary heap whose items know where they are, so that any of them can be removed or
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

// fix restores the order after the item at i has changed.
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
