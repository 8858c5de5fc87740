package queue

// list is a doubly linked list through the entries themselves.
type list[K comparable] struct {
	head, tail *entry[K]
	n          int
}

func (l *list[K]) push(e *entry[K]) {
	e.prev, e.next = l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
	l.n++
}

func (l *list[K]) remove(e *entry[K]) {
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	l.n--
}

// item is what a heap holds: something ordered that remembers its position.
type item[T any] interface {
	before(T) bool
	moved(index int)
}

// heap is a binary heap whose items know where they are, so that any of them can be removed or
// moved in logarithmic time.
type heap[T item[T]] []T

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
