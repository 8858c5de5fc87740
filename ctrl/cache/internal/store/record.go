package store

import (
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/cache/internal/compact"
	"flyball.dev/ctrl/client"
)

// record is an object as the store keeps it, with what is asked of it often.
type record struct {
	uid     types.UID
	version uint64
	// value is the object packed, with its UID, its resource version and its labels
	// as the header. It is empty if the record was published before the object was
	// packed, or the object cannot be packed.
	value compact.Value
	// published is set when readers may see the record. From then on only the
	// atomic fields change.
	published bool
	// asked is set if somebody has asked for shared lately, which is the object as a
	// Go value, if that is kept.
	asked  atomic.Bool
	shared atomic.Pointer[client.Object]
	// packed is the record that has replaced this one when the object was packed
	// later; shared is nil from then on.
	packed atomic.Pointer[Object]
}

// kind is the Go type of the objects that are packed.
type kind struct {
	typ    reflect.Type
	packed compact.Type
}

func newRecord(obj client.Object) *record {
	version, _ := Version(obj)
	r := &record{uid: obj.GetUID(), version: version}
	r.shared.Store(&obj)
	return r
}

// publish makes a record ready for readers: it packs the object, if it can be packed.
// The caller is the writer.
func (s *Store) publish(r *record) {
	if r == nil || r.published {
		return
	}
	r.published = true
	obj := *r.shared.Load()
	k := s.kind
	if typ := reflect.TypeOf(obj).Elem(); k == nil {
		k = &kind{typ, compact.TypeOf(typ)}
		s.mu.Lock()
		s.kind = k
		s.mu.Unlock()
	} else if typ != k.typ {
		return
	}
	header := append(make([]string, 0, 16), string(r.uid), obj.GetResourceVersion())
	for key, value := range obj.GetLabels() {
		header = append(header, key, value)
	}
	value, ok := s.packer.Pack(header, k.packed, obj)
	if !ok {
		return
	}
	r.value = value
	s.size += value.Size()
	// From here on the record keeps nothing of the object.
	h := s.packer.View().Header(value)
	uid, _ := h.Next()
	r.uid = types.UID(uid)
	r.shared.Store(nil)
	if s.sharing == ShareAll {
		shared := (Object{record: r, kind: k, view: s.packer.View()}).Copy()
		r.shared.Store(&shared)
	}
}

func (s *Store) release(r *record) {
	if r != nil {
		s.packer.Release(r.value)
		s.size -= r.value.Size()
	}
}

// Object is an object as the store held it at a moment.
type Object struct {
	key     *Key
	record  *record
	kind    *kind
	view    *compact.View
	sharing Sharing
	lent    *atomic.Bool
}

// object returns a record of an entry. The caller holds mu or is the writer.
func (s *Store) object(e *entry, r *record) Object {
	return Object{&e.key, r, s.kind, s.view, s.sharing, &s.lent}
}

// resolve returns the object as a Go value if it is not packed, and otherwise where
// it is packed: in its record, or in the one that has replaced it.
func (o Object) resolve() (client.Object, Object) {
	if !o.record.value.IsZero() {
		return nil, o
	}
	if shared := o.record.shared.Load(); shared != nil {
		return *shared, o
	}
	return nil, *o.record.packed.Load()
}

// Namespace returns the namespace of the object.
func (o Object) Namespace() string { return o.key.Namespace }

// Copy returns the object as a value that is nobody else's.
func (o Object) Copy() client.Object {
	unpacked, o := o.resolve()
	if unpacked != nil {
		return unpacked.DeepCopyObject().(client.Object)
	}
	obj := reflect.New(o.kind.typ)
	o.unpack(obj.Elem())
	return obj.Interface().(client.Object)
}

func (o Object) unpack(into reflect.Value) {
	u := o.view.Unpacker()
	defer u.Close()
	u.Unpack(o.record.value, o.kind.packed, into)
}

// CopyInto makes the copy in a place for it, which is a zero struct. It returns
// false if the object is of another type.
func (o Object) CopyInto(into reflect.Value) bool {
	unpacked, o := o.resolve()
	if unpacked != nil {
		from := reflect.ValueOf(unpacked.DeepCopyObject()).Elem()
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

// Shared returns the object as a value that all who ask for it share, so it must
// not be changed. The store keeps the value as long as the object does not
// change and somebody asks for it now and then, unless it was told otherwise.
func (o Object) Shared() client.Object {
	if o.sharing == ShareAsked && !o.record.asked.Load() {
		o.record.asked.Store(true)
		o.lent.Store(true)
	}
	if shared := o.record.shared.Load(); shared != nil {
		return *shared
	}
	if o.record.value.IsZero() {
		_, packed := o.resolve()
		return packed.Shared()
	}
	obj := o.Copy()
	if o.sharing != ShareNone && !o.record.shared.CompareAndSwap(nil, &obj) {
		return *o.record.shared.Load()
	}
	return obj
}

// sharedFor is after what time, at least, values that nobody asks for are not
// shared any more.
const sharedFor = 2 * time.Minute

// unshare forgets the values for which nobody has asked since it was called last.
// It does so only now and then. The caller is the writer.
func (s *Store) unshare() {
	if !s.lent.Load() {
		return
	}
	now := time.Now()
	if s.unshareAt.IsZero() {
		s.unshareAt = now.Add(sharedFor)
	}
	if now.Before(s.unshareAt) {
		return
	}
	s.unshareAt = time.Time{}
	s.lent.Store(false)
	s.all(func(e *entry) {
		s.unshareOne(e.watched)
		if e.shown != e.watched {
			s.unshareOne(e.shown)
		}
	})
}

func (s *Store) unshareOne(r *record) {
	switch {
	case r == nil || r.value.IsZero() || r.shared.Load() == nil:
	case r.asked.Swap(false):
		s.lent.Store(true)
	default:
		r.shared.Store(nil)
	}
}

// look returns the object for those who only look at it now. The store does not
// keep it.
func (o Object) look() client.Object {
	if shared := o.record.shared.Load(); shared != nil {
		return *shared
	}
	return o.Copy()
}

// version returns the resource version.
func (o Object) version() string {
	unpacked, o := o.resolve()
	if unpacked != nil {
		return unpacked.GetResourceVersion()
	}
	h := o.view.Header(o.record.value)
	h.Next()
	version, _ := h.Next()
	return version
}

// labels returns the labels without making the object.
func (o Object) labels() labels.Labels {
	unpacked, o := o.resolve()
	if unpacked != nil {
		return labels.Set(unpacked.GetLabels())
	}
	return packedLabels(o)
}

// packedLabels finds labels in the header of a packed object.
type packedLabels Object

// Lookup implements labels.Labels.
func (l packedLabels) Lookup(label string) (string, bool) {
	h := l.view.Header(l.record.value)
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

// Snapshot is an object as it was told of, for those who hear of it later. Its
// Go value is made when it is first asked for, and shared by all who ask.
type Snapshot struct {
	Key Key
	UID types.UID
	// made is the Go value once it is made.
	made atomic.Pointer[client.Object]
	// packed is the object as the store has it, unset if it is in no store.
	packed Object
}

// snapshot returns a snapshot of a record. The caller holds mu or is the writer.
func (s *Store) snapshot(e *entry, r *record) *Snapshot {
	o := s.object(e, r)
	return &Snapshot{Key: e.key, UID: r.uid, packed: o}
}

// Object returns the object, which is shared and must not be changed.
func (n *Snapshot) Object() client.Object {
	if made := n.made.Load(); made != nil {
		return *made
	}
	obj := n.packed.look()
	if !n.made.CompareAndSwap(nil, &obj) {
		return *n.made.Load()
	}
	return obj
}

// Packed returns the snapshot without a Go value that was made already, if it can
// be made again. If the object is packed later, the snapshot keeps it packed too.
func (n *Snapshot) Packed() *Snapshot {
	if n.packed.record == nil {
		return n
	}
	return &Snapshot{Key: n.Key, UID: n.UID, packed: n.packed}
}

// told returns a snapshot of a record that was just made of an object.
func (s *Store) told(e *entry, r *record, obj client.Object) *Snapshot {
	n := s.snapshot(e, r)
	n.made.Store(&obj)
	return n
}

// NewSnapshot returns a snapshot of an object that is in no store.
func NewSnapshot(obj client.Object) *Snapshot {
	n := &Snapshot{Key: client.ObjectKeyFromObject(obj), UID: obj.GetUID()}
	n.made.Store(&obj)
	return n
}
