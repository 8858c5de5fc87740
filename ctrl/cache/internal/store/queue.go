package store

// queue is a first-in, first-out queue. The zero value is empty.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) push(item T) {
	q.items = append(q.items, item)
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

func (q *queue[T]) peek() (item T, ok bool) {
	if q.head == len(q.items) {
		return item, false
	}
	return q.items[q.head], true
}

func (q *queue[T]) pop() {
	var none T
	q.items[q.head] = none
	q.head++
	// Move the rest to the front once it is the smaller half.
	if 2*q.head >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}
