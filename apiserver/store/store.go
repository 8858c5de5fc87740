// Package store keeps API objects in a [storage.Store]. It implements the storage.Interface of k8s.io/apiserver, for
// the generic registry and the handlers, with the semantics of kube-apiserver's etcd3 store and watch cache. The tests
// run all functions of upstream's suite for storage.Interface (TestUpstreamComplete); the flag -storage runs them over
// a data directory or etcd.
//
// A record is decoded once. The decoded object is cached with the record, and all lists, watches and predicates share
// it; it must not be changed. The results of methods follow three rules:
//
//   - Get, Create, GuaranteedUpdate and Delete return deep copies, which belong to the caller. For unstructured
//     objects, only Get and Delete do.
//   - GetList, CreateShared and Update return shallow copies, and so do Create and GuaranteedUpdate for unstructured
//     objects; GuaranteedUpdate also passes a shallow copy to its function. The caller may set the fields of an item
//     (such as its kind or resource version), and its metadata fields if it is unstructured, but must not modify maps,
//     slices and the targets of pointers. The watch cache of k8s.io/apiserver has the same rule.
//   - Watch sends objects that cache their encodings (runtime.CacheableObject). Each encoding is made once for all
//     watchers that need it.
//
// Reads are at the latest revision, or at exactly the requested revision. A watch has a goroutine only if its events
// are received from a channel; there is no other background work. Keys of objects equal kube-apiserver's (options.go).
//
// # Cached values
//
// The decoded object and the encodings of a record are the watch cache; there is no other. An object that this server
// has written is decoded at most once, and is encoded once for all watchers. The fast path of package endpoints gives
// its object to the store, which makes it equal to a decoded one, if it is not (normal.go); TestAdopted compares the
// two for all built-in kinds. Lists and the initial events of watches use the stored bytes, or the cached values that
// there are, and add none, so reading everything once does not fill the memory.
//
// Decoded CustomResourceDefinitions take more than ten times their encoding, so they are cached until the next collection
// of garbage ([Config].CacheWeakly).
//
// Objects that a conversion webhook has converted are cached too, for lists, watches, and reads with a resource
// version, as in kube-apiserver's watch cache. A read without a resource version converts again, as kube-apiserver's
// read from etcd does, so a changed webhook takes effect at once.
//
// # Lists of stored bytes
//
// For the lists of package endpoints, the store puts its records, instead of items, into a [resource.Listing] in the
// context of the request. For protobuf, the stored bytes are copied, with the resource version in them. That is right
// only if decoding the bytes and encoding the object changes nothing: no default, no unknown field. encoded.go finds
// that out when the object is written or first read, and keeps it as the note of the record, with the length of the
// metadata, so that the size of a list is known before any record is decompressed.
//
// For JSON, package transcode makes the text from the same bytes. Some content of an object has no place in protobuf,
// such as the kind of a StatefulSet's claim templates, or an empty list that is not nil; the note says so too. Custom
// resources are stored as JSON, so lists copy it and put the resource version in (text.go), unless the schema has a
// default for the object or prunes it, or another version is stored: their note is about one schema. Other objects are
// decoded and encoded by upstream's code, 16 at a time into the same memory.
//
// The values of the next 16 records are preloaded (storage.Content.Preload), since each is three reads from memory
// away, one after the other: without that, an object of 500,000 would take longer than an object of 10,000. Labels and
// names are read from the bytes too.
//
// # Encryption
//
// Encryption at rest is a value.Transformer between the codec and the storage (transform.go), where kube-apiserver has
// it, so stored values are the same. Only the first read of a record decrypts. Encrypted objects have no index. The note
// of an encrypted value is about the decrypted one: a list decrypts each object twice, first to find out that the key is
// there, and decodes none. If the size of an object is known only when it is decoded, it is decoded twice too, since a
// list keeps at most 16 (TestListsKeepFewObjects).
package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store/transcode"
	"flyball.dev/storage"
)

// Config configures a [Store].
type Config struct {
	// Codec encodes objects for the storage, and decodes them to the type that New returns.
	Codec runtime.Codec
	// Default, if not nil, sets the defaults that Codec sets in decoded objects. Then the store decodes few of the objects that
	// it has encoded.
	Default func(runtime.Object)
	// Prefix is the path of the objects, and begins with a slash, such as /registry/pods. Keys are PREFIX/NAMESPACE/NAME or
	// PREFIX/NAME.
	Prefix string
	// New returns an empty object.
	New func() runtime.Object
	// DeletionDelay is how long Delete waits before it removes an object that has a deletion timestamp. A deletion
	// without grace period sets the timestamp and removes the object within one request. Without a delay, clients can
	// miss the state between the two writes.
	DeletionDelay time.Duration
	// Require, if not nil, returns the conditions on other records for the creation of an object, or the error for a
	// creation that must not take place. The store calls Require again if one of these records changes before the
	// object is written. The namespace of a cluster-scoped object is "".
	Require func(ctx context.Context, namespace, name string) ([]storage.Condition, error)
	// Resource is named by errors.
	Resource schema.GroupResource
	// Transformer encrypts the stored objects; nil means no encryption.
	Transformer value.Transformer
	// Indexed are fields by which lists select objects often, such as spec.nodeName. If the backend is a
	// [storage.Indexer], it finds the objects by these fields.
	Indexed []string
	// CacheWeakly says that a decoded object takes much more memory than its encoding. Then it is cached until the next collection of
	// garbage, long enough for the watchers of an event.
	CacheWeakly bool
	// WatchCache says that kube-apiserver has a watch cache of the resource. Its lists at resource version "0" have no limit.
	WatchCache bool
}

// Store stores the objects of one resource. It is safe for concurrent use.
type Store struct {
	backend   storage.Store
	owner     *owner // of the objects that are cached with records
	codec     runtime.Codec
	prefix    string // ends in a slash
	resource  schema.GroupResource
	newObject func() runtime.Object
	versioner versioner
	progress  progress
	delay     time.Duration // of deletions
	require   func(ctx context.Context, namespace, name string) ([]storage.Condition, error)

	setDefaults func(runtime.Object)                   // nil if no object can be adopted
	decodedKind func() (schema.GroupVersionKind, bool) // see kindOfDecoded

	transformer value.Transformer      // nil without encryption
	start       func() []byte          // how stored objects begin if they are protobuf, or nil
	transcoder  func() *transcode.Type // of the objects to JSON, or nil
	protobuf    bool                   // the objects have generated methods of protobuf
	text        TextCodec              // the codec, if it stores JSON as clients get it
	token       uint32                 // of a store with text; see text.go
	indexed     []string               // fields
	watchCache  bool                   // in kube-apiserver
	weak        bool                   // caches decoded objects until the next collection of garbage
}

var (
	_ apistorage.Interface    = (*Store)(nil)
	_ resource.StorageUpdater = (*Store)(nil)
	_ resource.StorageCreater = (*Store)(nil)
)

// New returns a store of one resource. Stores may share a backend. Stores with the same prefix share the objects; each
// decodes them with its own codec.
func New(backend storage.Store, c Config) *Store {
	prefix := strings.TrimSuffix(c.Prefix, "/") + "/"
	s := &Store{backend: backend, codec: c.Codec, prefix: prefix, resource: c.Resource, newObject: c.New, delay: c.DeletionDelay,
		require: c.Require, transformer: c.Transformer, setDefaults: c.Default, watchCache: c.WatchCache, weak: c.CacheWeakly}
	_, s.protobuf = c.New().(protobufObject)
	if text, ok := c.Codec.(TextCodec); ok {
		s.text, s.token = text, newToken()
	}
	s.decodedKind = sync.OnceValues(s.kindOfDecoded)
	s.owner = &owner{weak.Make(s)}
	s.start, s.transcoder = sync.OnceValue(s.envelopeStart), sync.OnceValue(s.typeTranscoder)
	for _, field := range c.Indexed {
		s.addIndex(field)
	}
	return s
}

// owner identifies a store in the cached values of records. Records may outlive the store and must not keep its codec
// alive, because the codec of custom resources holds their schemas.
type owner struct{ store weak.Pointer[Store] }

// Versioner implements storage.Interface.
func (s *Store) Versioner() apistorage.Versioner { return s.versioner }

// Create implements storage.Interface.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.store.Create
func (s *Store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	record, err := s.create(ctx, key, obj, ttl, false)
	if err != nil || out == nil {
		return err
	}
	return s.lend(ctx, record, out)
}

// CreateShared is Create, but takes obj, which must not be changed afterwards, and does not copy the result deeply. Like GetList, it
// returns a shallow copy of the stored object.
func (s *Store) CreateShared(ctx context.Context, key string, obj runtime.Object, ttl uint64) (runtime.Object, error) {
	record, err := s.create(ctx, key, obj, ttl, true)
	if err != nil {
		return nil, err
	}
	o, err := s.object(ctx, record)
	if err != nil {
		return nil, err
	}
	return o.shallow(), nil
}

// create creates an object and returns its record. If owned is set, the object belongs to the store.
func (s *Store) create(ctx context.Context, key string, obj runtime.Object, ttl uint64, owned bool) (*storage.Record, error) {
	key, err := s.key(key, false)
	if err != nil {
		return nil, err
	}
	if version, err := s.versioner.ObjectResourceVersion(obj); err == nil && version != 0 {
		return nil, errVersionOnCreate
	}
	data, err := s.encode(obj)
	if err != nil {
		return nil, err
	}
	record, err := s.put(ctx, change{obj: obj, data: data, owned: owned}, storage.Write{Key: key, If: storage.Absent}, ttl)
	if err != nil {
		return nil, fromBackend(key, err)
	}
	return record, nil
}

// Get implements storage.Interface.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.store.Get
func (s *Store) Get(ctx context.Context, key string, opts apistorage.GetOptions, out runtime.Object) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	from, err := s.reader(ctx, opts.ResourceVersion)
	if err != nil {
		return err
	}
	record, err := from.Get(ctx, key)
	switch {
	case err == nil && opts.ResourceVersion == "":
		o, err := s.latest(ctx, record)
		if err != nil {
			return err
		}
		return s.copyTo(ctx, out, o, record)
	case err == nil:
		return s.extract(ctx, record, out)
	case errors.Is(err, storage.ErrNotFound) && opts.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	default:
		return fromBackend(key, err)
	}
}

// Delete implements storage.Interface. It ignores the cached object.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.store.conditionalDelete
func (s *Store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *apistorage.Preconditions,
	validate apistorage.ValidateObjectFunc, _ runtime.Object, opts apistorage.DeleteOptions) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	record, err := s.backend.Get(ctx, key)
	if err == nil {
		record, err = s.delayDeletion(ctx, record)
	}
	for {
		if err != nil {
			return fromBackend(key, err)
		}
		current, err := s.deletable(ctx, record, opts.ExpectTransformOrDecodeError)
		if err != nil {
			return err
		}
		if err := preconditions.Check(key, current); err != nil {
			return err
		}
		ctx := deletionContext(ctx, current)
		if err := validate(ctx, current); err != nil {
			return err
		}
		deleted, err := s.backend.Delete(ctx, key, record.Revision)
		switch {
		case errors.Is(err, storage.ErrConflict):
			record = deleted
		case err != nil:
			return fromBackend(key, err)
		case current == nil:
			return nil
		default:
			return s.extract(ctx, deleted, out)
		}
	}
}

// delayDeletion waits for the deletion delay if the object of a record has a deletion timestamp, but not longer than
// the request lasts. It returns the record that is stored after the delay.
func (s *Store) delayDeletion(ctx context.Context, r *storage.Record) (*storage.Record, error) {
	if s.delay == 0 {
		return r, nil
	}
	obj, err := s.object(ctx, r)
	if err != nil {
		return r, nil // Delete decides about corrupt objects
	}
	if m, err := meta.Accessor(obj.Object); err != nil || m.GetDeletionTimestamp() == nil {
		return r, nil
	}
	timer := time.NewTimer(s.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	present, err := s.backend.Get(ctx, r.Key)
	if err == nil && present.Created != r.Created {
		return nil, storage.ErrNotFound // it is another object
	}
	return present, err
}

// deletionContext returns the context for the deletion of an object; obj is nil for a corrupt object. If the object has
// a deletion timestamp and no finalizers, the removal takes place even if the request has ended, because no later
// request might complete it.
func deletionContext(ctx context.Context, obj runtime.Object) context.Context {
	m, err := meta.Accessor(obj)
	if err == nil && m.GetDeletionTimestamp() != nil && len(m.GetFinalizers()) == 0 {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// GuaranteedUpdate implements storage.Interface. It ignores the cached object.
func (s *Store) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *apistorage.Preconditions, update apistorage.UpdateFunc, _ runtime.Object) error {
	written, err := s.update(ctx, key, ignoreNotFound, preconditions, update, false, func(r *storage.Record) (runtime.Object, error) {
		current := emptyLike(out)
		if r == nil {
			return current, nil
		}
		return current, s.lend(ctx, r, current)
	})
	if err != nil {
		return err
	}
	return s.lend(ctx, written, out)
}

// Update is GuaranteedUpdate for an existing object. It takes the object that update returns, which must not be changed afterwards.
// Like GetList, it returns a shallow copy of the stored object.
func (s *Store) Update(ctx context.Context, key string, preconditions *apistorage.Preconditions,
	update apistorage.UpdateFunc) (runtime.Object, error) {
	written, err := s.update(ctx, key, false, preconditions, update, true, func(r *storage.Record) (runtime.Object, error) {
		o, err := s.object(ctx, r)
		if err != nil {
			return nil, err
		}
		return o.lent(), nil
	})
	if err != nil {
		return nil, err
	}
	o, err := s.object(ctx, written)
	if err != nil {
		return nil, err
	}
	return o.shallow(), nil
}

// update applies an update until no other write interferes, and returns the record that it wrote. read returns the
// object for the update from the current record; the record is nil if there is none. If owned is set, the objects that
// update returns belong to the store.
func (s *Store) update(ctx context.Context, key string, ignoreNotFound bool, preconditions *apistorage.Preconditions,
	update apistorage.UpdateFunc, owned bool, read func(*storage.Record) (runtime.Object, error)) (*storage.Record, error) {
	key, err := s.key(key, false)
	if err != nil {
		return nil, err
	}
	record, err := s.backend.Get(ctx, key)
	for {
		if errors.Is(err, storage.ErrNotFound) && ignoreNotFound {
			record, err = nil, nil
		}
		if err != nil {
			return nil, fromBackend(key, err)
		}
		var written *storage.Record
		written, record, err = s.tryUpdate(ctx, key, record, preconditions, update, owned, read)
		switch {
		case err == nil:
			return written, nil
		case !errors.Is(err, storage.ErrConflict):
			return nil, fromBackend(key, err)
		case record == nil:
			err = storage.ErrNotFound
		default:
			err = nil
		}
	}
}

// tryUpdate applies an update to the object of a record, which may be nil. It returns the record that it wrote, or the
// given record if nothing has changed. With storage.ErrConflict it returns the current record.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.store.GuaranteedUpdate
func (s *Store) tryUpdate(ctx context.Context, key string, record *storage.Record, preconditions *apistorage.Preconditions,
	update apistorage.UpdateFunc, owned bool, read func(*storage.Record) (runtime.Object, error)) (written, current *storage.Record, err error) {
	input, err := read(record)
	if err != nil {
		return nil, nil, stateError(err)
	}
	var meta apistorage.ResponseMeta
	var before []byte
	var stale bool
	var last runtime.Object
	expect := storage.Absent
	if record != nil {
		if o := objectOf(record.Cached(s.owner)); o != nil {
			last = o.Object
		}
		meta.ResourceVersion, expect = record.Revision, record.Revision
		if before, stale, err = Unseal(ctx, s.transformer, record); err != nil {
			return nil, nil, stateError(corrupt(record, &corruptError{untransformable, 0, err}))
		}
	}
	if err := preconditions.Check(key, input); err != nil {
		return nil, nil, err
	}
	updated, ttl, err := update(input, meta)
	if err != nil {
		return nil, nil, err
	}
	data, err := s.encode(updated)
	if err != nil {
		return nil, nil, err
	}
	if record != nil && !stale && bytes.Equal(data, before) {
		return record, nil, nil
	}
	seconds := uint64(0)
	if ttl != nil {
		seconds = *ttl
	}
	written, err = s.put(ctx, change{obj: updated, last: last, data: data, owned: owned}, storage.Write{Key: key, If: expect}, seconds)
	return written, written, err
}

// change is an object to be written.
type change struct {
	obj, last runtime.Object // last is the replaced object or nil
	data      []byte         // the encoding of obj
	owned     bool           // obj belongs to the store
}

// put completes the write of an object and executes it, and caches the decoded object with the record. It returns the errors of
// the backend.
func (s *Store) put(ctx context.Context, c change, w storage.Write, ttl uint64) (*storage.Record, error) {
	decoded, note, err := s.stored(c)
	if err != nil {
		return nil, err
	}
	if w.Value, err = Seal(ctx, s.transformer, w.Key, c.data); err != nil {
		return nil, apistorage.NewInternalError(err)
	}
	w.OnCommit = func(r *storage.Record) {
		r.SetNote(note)
		s.cache(r, decoded)
	}
	if ttl != 0 {
		w.Expires = time.Now().Add(time.Duration(ttl) * time.Second)
	}
	if w.If != storage.Absent || s.require == nil {
		return s.backend.Put(ctx, w)
	}
	return s.putIfRequired(ctx, w)
}

// putIfRequired writes a new object if the conditions for its creation hold at that time.
func (s *Store) putIfRequired(ctx context.Context, w storage.Write) (*storage.Record, error) {
	namespace, name, ok := strings.Cut(w.Key[len(s.prefix):], "/")
	if !ok {
		namespace, name = "", namespace
	}
	for {
		var err error
		if w.Require, err = s.require(ctx, namespace, name); err != nil {
			return nil, err
		}
		record, err := s.backend.Put(ctx, w)
		if !errors.Is(err, storage.ErrCondition) {
			return record, err
		}
	}
}

// Stats implements storage.Interface.
func (s *Store) Stats(ctx context.Context) (apistorage.Stats, error) {
	page, err := s.backend.Range(ctx, storage.Query{Path: s.prefix, Limit: 1})
	if err != nil {
		return apistorage.Stats{}, fromBackend(s.prefix, err)
	}
	return apistorage.Stats{ObjectCount: int64(len(page.Records) + page.Remaining)}, nil
}

// ReadinessCheck implements storage.Interface.
func (s *Store) ReadinessCheck() error { return nil }

// RequestWatchProgress implements storage.Interface. It does nothing, because watches always know their progress.
func (s *Store) RequestWatchProgress(context.Context) error { return nil }

// EnableResourceSizeEstimation implements storage.Interface. The store does not estimate sizes.
func (s *Store) EnableResourceSizeEstimation(apistorage.KeysFunc) error { return nil }

// GetCurrentResourceVersion implements storage.Interface.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.store.GetCurrentResourceVersion
func (s *Store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	latest, _, err := s.backend.Revisions(ctx)
	return latest, fromBackend(s.prefix, err)
}

// CompactRevision implements storage.Interface. It returns zero if nothing was compacted.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.store.CompactRevision
func (s *Store) CompactRevision() int64 {
	_, oldest, err := s.backend.Revisions(context.Background())
	if err != nil || oldest == storage.First {
		return 0
	}
	return int64(oldest)
}

// key validates a key of the registry. It adds a trailing slash to the key of a collection, and removes it from other
// keys.
func (s *Store) key(key string, collection bool) (string, error) {
	key, err := apistorage.PrepareKey(s.prefix, key, collection)
	if !collection {
		key = strings.TrimSuffix(key, "/")
	}
	return key, err
}

// encode clears the fields that are not stored and returns the encoding of an object.
func (s *Store) encode(obj runtime.Object) ([]byte, error) {
	if err := s.versioner.PrepareObjectForStorage(obj); err != nil {
		return nil, fmt.Errorf("PrepareObjectForStorage failed: %w", err)
	}
	encoder, ok := s.codec.(runtime.EncoderWithAllocator)
	if !ok {
		return runtime.Encode(s.codec, obj)
	}
	memory := runtime.AllocatorPool.Get().(*runtime.Allocator)
	defer runtime.AllocatorPool.Put(memory)
	var encoded bytes.Buffer
	err := encoder.EncodeWithAllocator(obj, &encoded, memory)
	return encoded.Bytes(), err
}
