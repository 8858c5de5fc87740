package store

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store/transcode"
	"flyball.dev/internal/protobuf"
	"flyball.dev/storage"
)

// item is a selected record of a list.
type item struct {
	record *storage.Record
	object *object // nil if the record can be decoded later
	// size is the size of the object as protobuf, or zero until it is computed. The store sets it for a verbatim record that is decoded
	// later. A list needs the size twice, and each read of a record among many is a wait for the memory.
	size uint32
	// metadataSize is the size of the metadata, or zero until a list of metadata has asked for it.
	metadataSize uint32
}

// listing has the objects of a list for a [resource.Listing].
type listing struct {
	appender
	items []item
	// preloaded is the number of items with preloaded values, from the first one on.
	preloaded int
	// kept is the number of decoded objects that sizeOf has kept in items, at most keptObjects.
	kept int
}

// keptObjects is the largest number of decoded objects that a list keeps, besides the cached ones.
const keptObjects = 16

// preloadCount is the number of values that are preloaded together.
const preloadCount = 16

// preload preloads the values of the items that will be written from the ith on.
func (l *listing) preload(i int) {
	if i < l.preloaded {
		return
	}
	var records [preloadCount]*storage.Record
	n := 0
	for l.preloaded = i; l.preloaded < len(l.items) && n < preloadCount; l.preloaded++ {
		if r := l.items[l.preloaded].record; r != nil {
			records[n] = r
			n++
		}
	}
	if n > 0 {
		records[0].Preload(records[:n])
	}
}

var _ resource.StoredObjects = (*listing)(nil)

// Len implements [resource.StoredObjects].
func (l *listing) Len() int { return len(l.items) }

// take returns an item and forgets it, so that a slow client keeps no records that are replaced alive.
func (l *listing) take(i int) item {
	it := l.items[i]
	l.items[i] = item{}
	return it
}

// Decode implements [resource.StoredObjects].
func (l *listing) Decode(list runtime.Object, from, to int) error {
	return l.decodeAll(list, from, to, false)
}

// DecodeForCells implements [resource.StoredObjects]. The managed fields are often a third of the bytes, and take as much time.
func (l *listing) DecodeForCells(list runtime.Object, from, to int) error {
	return l.decodeAll(list, from, to, true)
}

// decodeAll decodes objects. If unmanaged is set, it leaves out the managed fields where it can.
func (l *listing) decodeAll(list runtime.Object, from, to int, unmanaged bool) error {
	items, err := itemsOf(list)
	if err != nil {
		return err
	}
	if items.Cap() < to-from {
		items.Set(reflect.MakeSlice(items.Type(), to-from, to-from))
	} else {
		items.SetLen(to - from)
		items.Clear()
	}
	for i := from; i < to && err == nil; i++ {
		l.preload(i)
		err = l.decode(items.Index(i-from), l.take(i), unmanaged)
	}
	return err
}

// decode sets an item of a list. If unmanaged is set, it leaves out the managed fields where it can.
func (l *listing) decode(into reflect.Value, it item, unmanaged bool) (err error) {
	if it.object == nil && l.store.isExact(it.record) && l.store.cached(it.record) == nil && into.Type() == l.store.transcoder().GoType() {
		obj := into.Addr().Interface()
		raw, err := l.raw(it.record)
		if err != nil {
			return err
		}
		if unmanaged {
			l.encoded = appendUnmanaged(l.encoded[:0], raw)
			raw = l.encoded
		}
		err = obj.(protobufObject).Unmarshal(raw)
		l.store.setVersion(obj.(runtime.Object), it.record.Revision)
		return err
	}
	o, err := l.decoded(it)
	if err != nil {
		return err
	}
	return setItem(into, o)
}

// ProtobufSize implements [resource.StoredObjects].
func (l *listing) ProtobufSize(i int) (int, bool) {
	it := &l.items[i]
	if it.size == 0 {
		it.size = l.sizeOf(it, whole)
	}
	return int(it.size), it.size > 0
}

// ProtobufMetadataSize implements [resource.StoredObjects].
func (l *listing) ProtobufMetadataSize(i int) (int, bool) {
	it := &l.items[i]
	switch {
	case it.metadataSize > 0:
	case it.object == nil && l.store.isVerbatim(it.record):
		it.metadataSize = uint32(l.store.verbatimMetadataSize(it.record))
	default:
		it.metadataSize = l.sizeOf(it, metadata)
	}
	return int(it.metadataSize), it.metadataSize > 0
}

// sizeOf returns the size of a part of the object of an item, or zero if the part has no protobuf encoding or cannot be decoded. It
// keeps the object if the list may keep another one.
func (l *listing) sizeOf(it *item, part part) uint32 {
	o, err := part.decode(l, *it)
	if err != nil {
		return 0 // upstream's handler meets the same error and answers with it
	}
	if it.object == nil && l.kept < keptObjects { // or else it is decoded again
		l.kept++
		it.object = o
	}
	message, ok := part.of(o)
	if !ok {
		return 0
	}
	return uint32(message.Size())
}

// decoded returns the object of an item.
func (l *listing) decoded(it item) (*object, error) {
	if it.object != nil {
		return it.object, nil
	}
	return l.store.passing(l.ctx, it.record, &l.scratch)
}

// AppendProtobuf implements [resource.StoredObjects].
func (l *listing) AppendProtobuf(to []byte, i int) ([]byte, error) {
	it, raw, err := l.takeEncoded(i, whole)
	if err != nil {
		return to, err
	}
	if raw != nil {
		return appendVerbatim(to, raw, it.record.Revision), nil
	}
	return it.append(to, whole, it.size)
}

// AppendProtobufMetadata implements [resource.StoredObjects].
func (l *listing) AppendProtobufMetadata(to []byte, i int) ([]byte, error) {
	it, raw, err := l.takeEncoded(i, metadata)
	if err != nil {
		return to, err
	}
	if raw != nil {
		return appendVerbatimMetadata(to, raw, it.record.Revision), nil
	}
	return it.append(to, metadata, it.metadataSize)
}

// takeEncoded takes an item. It returns the encoded object of an item that is verbatim. For any other item, it decodes the part into
// it.object.
func (l *listing) takeEncoded(i int, part part) (it item, raw []byte, err error) {
	l.preload(i)
	it = l.take(i)
	if it.object == nil && l.store.isVerbatim(it.record) {
		raw, err = l.raw(it.record)
	} else {
		it.object, err = part.decode(l, it)
	}
	return it, raw, err
}

// append appends a part of the decoded object of an item. The size of the list says that it has size bytes.
func (it item) append(to []byte, part part, size uint32) ([]byte, error) {
	message, ok := part.of(it.object)
	if !ok {
		return to, fmt.Errorf("%T has no protobuf encoding", it.object.Object)
	}
	end, now := len(to), message.Size()
	if size > 0 && now != int(size) {
		return to, fmt.Errorf("%s has %d bytes, and had %d", it.record.Key, now, size)
	}
	to = append(to, make([]byte, now)...)
	_, err := message.MarshalTo(to[end:])
	return to, err
}

// part is the part of each object that a list encodes: the object or its metadata.
type part struct {
	// decode returns an object with the part.
	decode func(*listing, item) (*object, error)
	// of returns the part of an object, or false if the part has no encoding in protobuf.
	of func(*object) (protobufObject, bool)
}

var (
	whole = part{(*listing).decoded, func(o *object) (protobufObject, bool) {
		message, ok := o.Object.(protobufObject)
		return message, ok
	}}
	metadata = part{(*listing).decodedMetadata, func(o *object) (protobufObject, bool) {
		m, ok := o.Object.(metav1.Object)
		if !ok {
			return nil, false
		}
		return meta.AsPartialObjectMetadata(m), true
	}}
)

// decodedMetadata returns the object of an item, or only the metadata of an item that is text.
func (l *listing) decodedMetadata(it item) (*object, error) {
	if it.object != nil || !l.store.isText(it.record) {
		return l.decoded(it)
	}
	text, err := l.store.open(l.ctx, it.record, &l.scratch)
	if err != nil {
		return nil, err
	}
	m, ok := metadataIn(text)
	if !ok {
		return l.decoded(it)
	}
	l.store.setVersion(m, it.record.Revision)
	return &object{Object: m}, nil
}

// AppendJSON implements [resource.StoredObjects].
func (l *listing) AppendJSON(to []byte, i int) ([]byte, bool) {
	it := l.items[i]
	if it.object != nil {
		return to, false
	}
	l.preload(i)
	text, ok := l.appendJSON(to, it.record)
	if ok {
		l.take(i)
	}
	return text, ok
}

// AppendMetadata implements [resource.StoredObjects].
func (l *listing) AppendMetadata(to []byte, i int) ([]byte, bool) {
	it := l.items[i]
	if it.object != nil || !l.store.isExact(it.record) {
		return to, false
	}
	l.preload(i)
	raw, err := l.raw(it.record)
	if err != nil {
		return to, false
	}
	found, _, _ := protobuf.Next(raw)
	l.encoded = appendMetadata(l.encoded[:0], found.Content, it.record.Revision)
	text, err := objectMeta().Append(to, l.encoded, &l.space)
	if err != nil {
		return to, false
	}
	return text, true
}

// objectMeta returns the transcoder of metadata, which exact objects have.
var objectMeta = sync.OnceValue(func() *transcode.Type {
	t, err := transcode.For(reflect.TypeFor[metav1.ObjectMeta]())
	if err != nil {
		panic(err)
	}
	return t
})

// passing returns the decoded object of a record for one reader. It does not cache the object, unless a [Converter]
// made it. With scratch, space for the stored value, it does not ask the codec for the object of an exact record.
func (s *Store) passing(ctx context.Context, r *storage.Record, scratch *[]byte) (*object, error) {
	if cached := s.cached(r); cached != nil {
		return cached, nil
	}
	decoded, err := s.readExact(ctx, r, scratch)
	if decoded == nil || err != nil {
		decoded, err = s.read(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	if decoded.converted {
		return s.cache(r, decoded), nil
	}
	if !s.isNoted(r) {
		data, err := s.unseal(ctx, r)
		if err != nil {
			return nil, err
		}
		r.SetNote(s.noteOf(data, decoded))
	}
	s.setVersion(decoded.Object, r.Revision)
	return decoded, nil
}

// cached returns the decoded object that is cached with a record, or nil. The lookup does not count as a
// use, so the record can still become idle.
func (s *Store) cached(r *storage.Record) *object {
	for owner, cached := range r.AllCached() {
		if owner == s.owner {
			return objectOf(cached)
		}
	}
	return nil
}

// readExact is read for an exact record: the codec would find nothing to add. It returns nil for another record.
func (s *Store) readExact(ctx context.Context, r *storage.Record, scratch *[]byte) (*object, error) {
	if scratch == nil || !s.isExact(r) {
		return nil, nil
	}
	obj := s.newObject()
	into, ok := obj.(protobufObject)
	if !ok {
		return nil, nil
	}
	data, err := s.open(ctx, r, scratch)
	if err != nil {
		return nil, err
	}
	raw, ok := s.encodedObject(data)
	if !ok {
		return nil, errNotVerbatim
	}
	return &object{Object: obj}, into.Unmarshal(raw)
}

// valueIn returns the value of a record, which is valid until the next use of scratch.
func valueIn(r *storage.Record, scratch *[]byte) []byte {
	*scratch = slices.Grow((*scratch)[:0], r.Size())
	return r.ValueIn(*scratch)
}

// later returns the item of a record that is to be decoded later. Its decrypted value has a size.
func (s *Store) later(r *storage.Record, value int) item {
	it := item{record: r}
	if s.isVerbatim(r) {
		it.size = uint32(s.verbatimSize(r, value))
	}
	return it
}

// examine returns the item of a record, or false if the record is not selected. It fails only if the record is corrupt, or cannot be
// decrypted. If the objects are to be decoded later, the item has its object only if that may fail, or if the object is cached. It may
// use scratch for the stored value.
func (s *Store) examine(ctx context.Context, r *storage.Record, selected *selector, later bool, scratch *[]byte) (item, bool, error) {
	if later && s.note(r) != noteNone {
		found, ok, known, err := s.examineEncoded(ctx, r, selected, scratch)
		if known || err != nil {
			return found, ok, err
		}
	}
	var exact *[]byte
	if later { // and not for upstream's handler, with which tests compare
		exact = scratch
	}
	o, err := s.passing(ctx, r, exact)
	if err != nil || !selected.matches(o) {
		return item{}, false, err
	}
	if !later || s.note(r) == noteNone {
		return item{record: r, object: o}, true, nil
	}
	if s.transformer == nil {
		return s.later(r, r.Size()), true, nil
	}
	found := item{record: r}
	if obj, ok := o.Object.(protobufObject); ok && s.isVerbatim(r) {
		found.size = uint32(obj.Size())
	}
	return found, true, nil
}

// examineEncoded is examine for a record with a note, without decoding it. It is not known whether the record is selected if that
// depends on more than the metadata. An encrypted value is decrypted, because that may fail, unless the object is cached.
func (s *Store) examineEncoded(ctx context.Context, r *storage.Record, selected *selector, scratch *[]byte) (found item, ok, known bool, err error) {
	if s.transformer == nil && selected.all {
		return s.later(r, r.Size()), true, true, nil
	}
	if s.transformer != nil {
		if cached := s.cached(r); cached != nil {
			return item{record: r, object: cached}, selected.matches(cached), true, nil
		}
	}
	encoded := selected.metadata && s.isVerbatim(r)
	if !selected.all && !encoded {
		return item{}, false, false, nil
	}
	data, err := s.open(ctx, r, scratch)
	if err != nil {
		return item{}, false, false, err
	}
	if selected.all {
		return s.later(r, len(data)), true, true, nil
	}
	raw, known := s.encodedObject(data)
	return s.later(r, len(data)), known && selected.matchesEncoded(raw), known, nil
}
