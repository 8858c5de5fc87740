package queue

// flow is the keys of one owner at one priority, first come first served. Without fairness every
// level has one flow.
type flow[K comparable] struct {
	name       string
	ready      list[K]
	prev, next *flow[K] // neighbours in the ring of the level, while there are ready keys
}

// level is the line of one priority: a ring of the flows that have ready keys, which take turns.
type level[K comparable] struct {
	priority int
	current  *flow[K] // whose turn it is; nil if no key is ready
	ready    int
	dirty    int
	index    int // position in the heap of levels

	single flow[K]             // the only flow, if there is no fairness
	flows  map[string]*flow[K] // those with ready keys, if there is
	spare  *flow[K]            // the last one that was given up
}

func (l *level[K]) before(o *level[K]) bool { return l.priority > o.priority }
func (l *level[K]) moved(i int)             { l.index = i }
func (l *level[K]) len() int                { return l.ready + l.dirty }

// push puts e at the end of its flow. A flow that had no keys has its turn last.
func (l *level[K]) push(e *item[K], flowName func(K) string) {
	f := &l.single
	if flowName != nil {
		f = l.flowNamed(flowName(e.key))
	}
	e.flow = f
	f.ready.push(e)
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

// advance passes the turn on if f had it.
func (l *level[K]) advance(f *flow[K]) {
	if l.current == f {
		l.current = f.next
	}
}

// remove takes e out of the line.
func (l *level[K]) remove(e *item[K]) {
	f := e.flow
	e.flow = nil
	f.ready.remove(e)
	l.ready--
	if f.ready.n > 0 {
		return
	}
	l.advance(f)
	if l.current == f { // the last of the ring
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
