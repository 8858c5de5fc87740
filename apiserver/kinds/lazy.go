package kinds

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/apiserver/resource"
)

// Set describes kinds that share state, such as an allocator. Each call returns new descriptions with a new state.
type Set func() []Kind

// Lazy makes the resources of a set of kinds when one of them is looked up. It implements [resource.Lazy].
type Lazy struct {
	index *index
	made  []atomic.Pointer[[]*resource.Resource] // by set

	mu        sync.Mutex // serializes making
	sets      []Set
	installer *installer
}

var _ resource.Lazy = (*Lazy)(nil)

// index has the names of the resources of all sets. It is immutable.
type index struct {
	names []schema.GroupVersionResource
	sets  map[schema.GroupVersionResource]int
}

// NewLazy makes the resources of all sets at once, so that it can return their errors. Each kind must be registered in o.Scheme.
func NewLazy(o Options, sets []Set) (*Lazy, error) {
	l := newLazy(o, sets, &index{sets: map[schema.GroupVersionResource]int{}})
	for i := range sets {
		resources, err := l.installer.install(l.sets[i]())
		if err != nil {
			return nil, err
		}
		l.made[i].Store(&resources)
		for _, r := range resources {
			l.index.names = append(l.index.names, r.GroupVersionResource())
			l.index.sets[r.GroupVersionResource()] = i
		}
	}
	return l, nil
}

// Fork returns resources with the names of l for another server, and makes none of them. The options and sets must describe the
// same resources as the ones of l.
func (l *Lazy) Fork(o Options, sets []Set) *Lazy { return newLazy(o, sets, l.index) }

func newLazy(o Options, sets []Set, of *index) *Lazy {
	return &Lazy{index: of, made: make([]atomic.Pointer[[]*resource.Resource], len(sets)), sets: sets, installer: newInstaller(o)}
}

// Names implements [resource.Lazy].
func (l *Lazy) Names() []schema.GroupVersionResource { return l.index.names }

// Resource implements [resource.Lazy]. It panics if the description of the kind is invalid, which [NewLazy] rules out.
func (l *Lazy) Resource(name schema.GroupVersionResource) *resource.Resource {
	i, ok := l.index.sets[name]
	if !ok {
		return nil
	}
	resources := l.made[i].Load()
	if resources == nil {
		resources = l.make(i)
	}
	at := slices.IndexFunc(*resources, func(r *resource.Resource) bool { return r.GroupVersionResource() == name })
	return (*resources)[at]
}

// make makes the resources of a set, unless another caller has.
func (l *Lazy) make(i int) *[]*resource.Resource {
	l.mu.Lock()
	defer l.mu.Unlock()
	if made := l.made[i].Load(); made != nil {
		return made
	}
	resources, err := l.installer.install(l.sets[i]())
	if err != nil {
		panic(fmt.Errorf("resources that another server has: %w", err))
	}
	l.made[i].Store(&resources)
	return &resources
}

// Made implements [resource.Lazy].
func (l *Lazy) Made() iter.Seq[*resource.Resource] {
	return func(yield func(*resource.Resource) bool) {
		for i := range l.made {
			resources := l.made[i].Load()
			if resources == nil {
				continue
			}
			for _, r := range *resources {
				if !yield(r) {
					return
				}
			}
		}
	}
}
