// Package store keeps API objects in a [storage.Store]. It implements the storage.Interface of k8s.io/apiserver, for
// the generic registry and the handlers, with the semantics of kube-apiserver's etcd3 store and watch cache.
//
// A record is decoded once. The decoded object is cached with the record, and all lists, watches and predicates share
// it; it must not be changed. The results of methods follow three rules:
//
//   - Get, Create, GuaranteedUpdate and Delete return deep copies, which belong to the caller. For
//     unstructured objects, only Get and Delete do.
//   - GetList and Update return shallow copies, and so do Create and GuaranteedUpdate for unstructured
//     objects; GuaranteedUpdate also passes a shallow copy to its function. The caller may set the fields of
//     an item (such as its kind or resource version), and its metadata fields if it is unstructured, but must
//     not modify maps, slices and the targets of pointers. The watch cache of k8s.io/apiserver has the same rule.
//   - Watch sends objects that cache their encodings (runtime.CacheableObject). Each encoding is made once
//     for all watchers that need it.
//
// Reads are at the latest revision, or at exactly the requested revision. Each watch has one goroutine; there is no
// other background work.
package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/apiserver/resource"
	"flyball.dev/storage"
)

// Config configures a [Store].
type Config struct {
	// Codec encodes objects for the storage, and decodes them to the type that New returns.
	Codec runtime.Codec
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
	// Transformer encrypts the stored objects; nil means no encryption.
	Transformer value.Transformer
}

// Store stores the objects of one resource. It is safe for concurrent use.
type Store struct {
	backend   storage.Store
	owner     *owner // of the objects that are cached with records
	codec     runtime.Codec
	prefix    string // ends in a slash
	newObject func() runtime.Object
	versioner versioner
	progress  progress
	delay     time.Duration // of deletions
	require   func(ctx context.Context, namespace, name string) ([]storage.Condition, error)

	transformer value.Transformer // nil without encryption
}

var (
	_ apistorage.Interface    = (*Store)(nil)
	_ resource.StorageUpdater = (*Store)(nil)
)

// New returns a store of one resource. Stores may share a backend. Stores with the same prefix share the objects; each
// decodes them with its own codec.
func New(backend storage.Store, c Config) *Store {
	prefix := strings.TrimSuffix(c.Prefix, "/") + "/"
	s := &Store{backend: backend, codec: c.Codec, prefix: prefix, newObject: c.New, delay: c.DeletionDelay,
		require: c.Require, transformer: c.Transformer}
	s.owner = &owner{weak.Make(s)}
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
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if version, err := s.versioner.ObjectResourceVersion(obj); err == nil && version != 0 {
		return errVersionOnCreate
	}
	data, err := s.encode(obj)
	if err != nil {
		return err
	}
	record, err := s.put(ctx, key, obj, nil, data, storage.Absent, ttl)
	if err != nil {
		return fromBackend(key, err)
	}
	if out == nil {
		return nil
	}
	return s.lend(record, out)
}

// Get implements storage.Interface.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.store.Get
func (s *Store) Get(ctx context.Context, key string, opts apistorage.GetOptions, out runtime.Object) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if err := s.awaitVersion(ctx, opts.ResourceVersion); err != nil {
		return err
	}
	record, err := s.backend.Get(ctx, key)
	switch {
	case err == nil && opts.ResourceVersion == "":
		o, err := s.latest(record)
		if err != nil {
			return err
		}
		return s.copyTo(out, o, record)
	case err == nil:
		return s.extract(record, out)
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
		current, err := s.deletable(record, opts.ExpectTransformOrDecodeError)
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
			return s.extract(deleted, out)
		}
	}
}

// delayDeletion waits for the deletion delay if the object of a record has a deletion timestamp, but not longer than
// the request lasts. It returns the record that is stored after the delay.
func (s *Store) delayDeletion(ctx context.Context, r *storage.Record) (*storage.Record, error) {
	if s.delay == 0 {
		return r, nil
	}
	obj, err := s.object(r)
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
	written, err := s.update(ctx, key, ignoreNotFound, preconditions, update, func(r *storage.Record) (runtime.Object, error) {
		current := emptyLike(out)
		if r == nil {
			return current, nil
		}
		return current, s.lend(r, current)
	})
	if err != nil {
		return err
	}
	return s.lend(written, out)
}

// Update is GuaranteedUpdate for an existing object. Like GetList, it returns a shallow copy of the stored object.
func (s *Store) Update(ctx context.Context, key string, preconditions *apistorage.Preconditions,
	update apistorage.UpdateFunc) (runtime.Object, error) {
	written, err := s.update(ctx, key, false, preconditions, update, func(r *storage.Record) (runtime.Object, error) {
		o, err := s.object(r)
		if err != nil {
			return nil, err
		}
		return o.lent(), nil
	})
	if err != nil {
		return nil, err
	}
	o, err := s.object(written)
	if err != nil {
		return nil, err
	}
	return o.shallow(), nil
}

// update applies an update until no other write interferes, and returns the record that it wrote. read returns the
// object for the update from the current record; the record is nil if there is none.
func (s *Store) update(ctx context.Context, key string, ignoreNotFound bool, preconditions *apistorage.Preconditions,
	update apistorage.UpdateFunc, read func(*storage.Record) (runtime.Object, error)) (*storage.Record, error) {
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
		written, record, err = s.tryUpdate(ctx, key, record, preconditions, update, read)
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
	update apistorage.UpdateFunc, read func(*storage.Record) (runtime.Object, error)) (written, current *storage.Record, err error) {
	input, err := read(record)
	if err != nil {
		return nil, nil, err
	}
	var meta apistorage.ResponseMeta
	var before []byte
	var stale bool
	var last runtime.Object
	expect := storage.Absent
	if record != nil {
		if o, ok := record.Cached(s.owner).(*object); ok {
			last = o.Object
		}
		meta.ResourceVersion, expect = record.Revision, record.Revision
		if before, stale, err = Unseal(ctx, s.transformer, record); err != nil {
			return nil, nil, corrupt(record, err)
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
	written, err = s.put(ctx, key, updated, last, data, expect, seconds)
	return written, written, err
}

// put writes an object with the encoding data under key, and caches the decoded object with the record. last is the
// replaced object or nil. put returns the errors of the backend.
func (s *Store) put(ctx context.Context, key string, obj, last runtime.Object, data []byte,
	expect, ttl uint64) (*storage.Record, error) {
	decoded, err := s.stored(obj, last, data)
	if err != nil {
		return nil, err
	}
	if data, err = Seal(ctx, s.transformer, key, data); err != nil {
		return nil, apistorage.NewInternalError(err)
	}
	w := storage.Write{Key: key, Value: data, If: expect, OnCommit: func(r *storage.Record) {
		s.cache(r, decoded)
	}}
	if ttl != 0 {
		w.Expires = time.Now().Add(time.Duration(ttl) * time.Second)
	}
	if expect != storage.Absent || s.require == nil {
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
