package queue

// flow is a FIFO queue of the keys of one owner at one priority. Without fair queuing every level
// has one flow.
type flow[K comparable] struct {
	name       string
	ready      list[K]
	prev, next *flow[K] // ring of the level, while the flow has ready keys
}

// level is a priority level: a ring of the flows that have ready keys, served round robin.
type level[K comparable] struct {
	priority int
	current  *flow[K] // the next to be served; nil if no key is ready
	ready    int
	dirty    int
	index    int // position in the heap of levels

	single flow[K]             // the only flow without fair queuing
	flows  map[string]*flow[K] // those with ready keys, with fair queuing
	spare  *flow[K]            // for reuse
}

func (l *level[K]) before(o *level[K]) bool { return l.priority > o.priority }
func (l *level[K]) moved(i int)             { l.index = i }
func (l *level[K]) len() int                { return l.ready + l.dirty }

// push appends an item to its flow. A flow that was empty is added at the end of the ring.
func (l *level[K]) push(it *item[K], flowName func(K) string) {
	f := &l.single
	if flowName != nil {
		f = l.flowNamed(flowName(it.key))
	}
	it.flow = f
	f.ready.push(it)
	l.ready++
	if f.ready.n > 1 {
		return
	}
	if l.current == nil {
		f.prev, f.next = f, f
		l.current = f
		return
	}
	f.prev, f.next = l.current.prev, l.current
	f.prev.next, f.next.prev = f, f
}

func (l *level[K]) flowNamed(name string) *flow[K] {
	f := l.flows[name]
	if f != nil {
		return f
	}
	if f = l.spare; f == nil {
		f = &flow[K]{}
	}
	l.spare = nil
	f.name = name
	if l.flows == nil {
		l.flows = map[string]*flow[K]{}
	}
	l.flows[name] = f
	return f
}

// advance moves on to the next flow if f is the current one.
func (l *level[K]) advance(f *flow[K]) {
	if l.current == f {
		l.current = f.next
	}
}

// remove removes an item from its flow, and the flow from the ring if it is empty then.
func (l *level[K]) remove(it *item[K]) {
	f := it.flow
	it.flow = nil
	f.ready.remove(it)
	l.ready--
	if f.ready.n > 0 {
		return
	}
	l.advance(f)
	if l.current == f { // the only one in the ring
		l.current = nil
	} else {
		f.prev.next, f.next.prev = f.next, f.prev
	}
	f.prev, f.next = nil, nil
	if f != &l.single {
		delete(l.flows, f.name)
		f.name = ""
		l.spare = f
	}
}
