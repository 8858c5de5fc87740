package store

import (
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/cache/internal/compact"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/memsize"
)

// state is one state of an object, as the store keeps it.
type state struct {
	uid     types.UID
	version uint64
	// value is the packed object, with the UID, the resource version and the labels as its header.
	// It is empty if the state was published before the object was packed, or if the object cannot
	// be packed.
	value compact.Value
	// published is set when readers may access the state. From then on only the atomic fields
	// change.
	published bool
	// referenced is set if the decoded object was read since the last round of evictions, as in the
	// clock algorithm.
	referenced atomic.Bool
	decoded    atomic.Pointer[decoded]
}

// decoded stands in a state beside the packed object or instead of it. It holds the Go value, or, once
// the object was packed later, the packed value that replaces the state.
type decoded struct {
	object      client.Object
	replacement Object
}

// kind is the Go type of the packed objects.
type kind struct {
	typ    reflect.Type
	packed compact.Type
}

// newState returns the state of an object, which is neither packed nor published yet.
func newState(obj client.Object) *state {
	version, _ := Version(obj)
	st := &state{uid: obj.GetUID(), version: version}
	st.decoded.Store(&decoded{object: obj})
	return st
}

// Object refers to an object as it was in the store at one time.
type Object struct {
	key       *Key
	state     *state
	kind      *kind
	view      *compact.View
	sharing   Sharing
	anyShared *atomic.Bool
}

// object returns an Object for a state of a record. The caller holds mu or is the writer.
func (s *Store) object(r *record, st *state) Object {
	return Object{&r.key, st, s.kind, s.view, s.sharing, &s.eviction.anyShared}
}

// resolve returns the object as a Go value if it is not packed. Otherwise it returns an Object with
// the packed value: o, or the one that has replaced it.
func (o Object) resolve() (client.Object, Object) {
	if !o.state.value.IsZero() {
		return nil, o
	}
	d := o.state.decoded.Load()
	if d.object == nil {
		return nil, d.replacement
	}
	return d.object, o
}

// shared returns the object as a Go value, if that is kept.
func (o Object) shared() client.Object {
	if d := o.state.decoded.Load(); d != nil {
		return d.object
	}
	return nil
}

// Detached is the memory of an object that refers to no record.
type Detached struct {
	key   Key
	state state
}

// Detach returns the object with its resource version. The result refers to no record but to memory, which the caller
// provides, and no Go value is kept for it beside the packed one, so it keeps nothing but this state in memory.
func (o Object) Detach(memory *Detached) (detached Object, version string) {
	memory.key = *o.key
	decoded, o := o.resolve()
	if decoded == nil {
		memory.state = state{uid: o.state.uid, version: o.state.version, value: o.state.value, published: true}
		o.state, o.sharing = &memory.state, ShareNone
	}
	o.key = &memory.key
	return o, o.version()
}

// Size is about how many bytes the object takes: packed, and as a Go value if that is kept. For an object that is larger
// than limit it returns a number above limit, at the cost of a smaller one.
func (o Object) Size(limit int) int {
	size := recordCost
	decoded, packed := o.resolve()
	if decoded == nil {
		size += packed.state.value.Size()
		decoded = packed.shared()
	}
	if decoded != nil {
		size += memsize.Of(decoded, limit)
	}
	return size
}

// UID returns the UID of the object.
func (o Object) UID() types.UID {
	decoded, o := o.resolve()
	if decoded != nil {
		return decoded.GetUID()
	}
	h := o.view.Header(o.state.value)
	uid, _ := h.Next()
	return types.UID(uid)
}

// Namespace returns the namespace of the object.
func (o Object) Namespace() string { return o.key.Namespace }

// Key returns the key of the object.
func (o Object) Key() Key { return *o.key }

// Copy returns a copy of the object, which the caller owns.
func (o Object) Copy() client.Object {
	decoded, o := o.fastest()
	if decoded != nil {
		return decoded.DeepCopyObject().(client.Object)
	}
	return o.unpacked()
}

// unpacked returns the object from its packed value.
func (o Object) unpacked() client.Object {
	obj := reflect.New(o.kind.typ)
	o.unpack(obj.Elem())
	return obj.Interface().(client.Object)
}

// unpack unpacks the object into a zero struct.
func (o Object) unpack(into reflect.Value) {
	u := o.view.Unpacker()
	defer u.Close()
	u.Unpack(o.state.value, given(o.key), o.kind.packed, into)
}

// CopyInto copies the object into a zero struct. It returns false if the object is of another type.
func (o Object) CopyInto(into reflect.Value) bool {
	decoded, o := o.fastest()
	if decoded != nil {
		from := reflect.ValueOf(decoded.DeepCopyObject()).Elem()
		if from.Type() != into.Type() {
			return false
		}
		into.Set(from)
		return true
	}
	if o.kind.typ != into.Type() {
		return false
	}
	o.unpack(into)
	return true
}

// Shared returns a value that all callers share, so it must not be changed. How long the store
// keeps the value depends on its Sharing: not at all, until it has not been read for a while, or
// until the object changes.
func (o Object) Shared() client.Object {
	if o.sharing == ShareOnDemand && !o.state.referenced.Load() {
		o.state.referenced.Store(true)
		o.anyShared.Store(true)
	}
	if shared := o.shared(); shared != nil {
		return shared
	}
	if o.state.value.IsZero() {
		_, packed := o.resolve()
		return packed.Shared()
	}
	obj := o.unpacked()
	if o.sharing != ShareNone && !o.state.decoded.CompareAndSwap(nil, &decoded{object: obj}) {
		return o.Shared()
	}
	return obj
}

// evictShared evicts the shared values that were not read since the last round, if it is time for
// another one. The caller is the writer.
func (s *Store) evictShared() {
	if !s.eviction.begin() {
		return
	}
	s.records.all(func(r *record) {
		s.eviction.evict(r.watched)
		if r.visible != r.watched {
			s.eviction.evict(r.visible)
		}
	})
}

// peek returns the object for a caller that reads it at once and neither changes nor keeps it. The
// store does not keep the value.
func (o Object) peek() client.Object {
	if shared := o.shared(); shared != nil {
		return shared
	}
	decoded, o := o.resolve()
	if decoded != nil {
		return decoded
	}
	return o.unpacked()
}

// fastest returns what resolve returns, or the object as a shared Go value if it is packed and a copy of
// such a value takes less time than unpacking.
func (o Object) fastest() (client.Object, Object) {
	decoded, o := o.resolve()
	if decoded == nil && o.sharing != ShareNone && o.state.value.Slow() {
		return o.Shared(), o
	}
	return decoded, o
}

// version returns the resource version.
func (o Object) version() string {
	decoded, o := o.resolve()
	if decoded != nil {
		return decoded.GetResourceVersion()
	}
	h := o.view.Header(o.state.value)
	h.Next()
	version, _ := h.Next()
	return version
}

// labels returns the labels without unpacking the object.
func (o Object) labels() labels.Labels {
	decoded, o := o.resolve()
	if decoded != nil {
		return labels.Set(decoded.GetLabels())
	}
	return packedLabels(o)
}

// packedLabels finds labels in the header of a packed object.
type packedLabels Object

// Lookup implements labels.Labels.
func (l packedLabels) Lookup(label string) (string, bool) {
	h := l.view.Header(l.state.value)
	h.Next()
	h.Next()
	for key, ok := h.Next(); ok; key, ok = h.Next() {
		if value, _ := h.Next(); key == label {
			return value, true
		}
	}
	return "", false
}

// Has implements labels.Labels.
func (l packedLabels) Has(label string) bool {
	_, ok := l.Lookup(label)
	return ok
}

// Get implements labels.Labels.
func (l packedLabels) Get(label string) string {
	value, _ := l.Lookup(label)
	return value
}

// Snapshot is one state of an object, for notifications. Its Go value is made when it is first
// needed, and shared by all who need it.
type Snapshot struct {
	Key Key
	UID types.UID
	// value is the Go value, once it is made.
	value atomic.Pointer[client.Object]
	// stored is the object in the store; unset if it is in none.
	stored Object
}

// snapshot returns a snapshot of a state. The caller holds mu or is the writer.
func (s *Store) snapshot(r *record, st *state) *Snapshot {
	o := s.object(r, st)
	return &Snapshot{Key: r.key, UID: st.uid, stored: o}
}

// Object returns the object, which is shared and must not be changed.
func (n *Snapshot) Object() client.Object {
	if made := n.value.Load(); made != nil {
		return *made
	}
	obj := n.stored.peek()
	if !n.value.CompareAndSwap(nil, &obj) {
		return *n.value.Load()
	}
	return obj
}

// Packed returns the snapshot without its Go value, if the value can be made again. If the object
// is packed later, the snapshot has the packed object, too.
func (n *Snapshot) Packed() *Snapshot {
	if n.stored.state == nil {
		return n
	}
	return &Snapshot{Key: n.Key, UID: n.UID, stored: n.stored}
}

// snapshotOf returns a snapshot of a state that was just made of obj, which becomes its Go value.
func (s *Store) snapshotOf(r *record, st *state, obj client.Object) *Snapshot {
	n := s.snapshot(r, st)
	n.value.Store(&obj)
	return n
}

// NewSnapshot returns a snapshot of an object that is in no store.
func NewSnapshot(obj client.Object) *Snapshot {
	n := &Snapshot{Key: client.ObjectKeyFromObject(obj), UID: obj.GetUID()}
	n.value.Store(&obj)
	return n
}
