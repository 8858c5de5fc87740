package store

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/storage"
)

// object is the decoded object of a record, with its resource version. It is shared and immutable.
type object struct {
	runtime.Object
	// converted is set if a [Converter] made the object from an object of another version.
	converted bool

	mu sync.Mutex
	// encoded is a weak pointer, so that encodings live only as long as a watcher has yet to send them.
	encoded weak.Pointer[cacheable]
}

// object returns the decoded object of a record. It fails only if the record is corrupt, or cannot be decrypted within
// ctx. The error is not kept: the next call tries again.
func (s *Store) object(ctx context.Context, r *storage.Record) (*object, error) {
	if o := objectOf(r.Cached(s.owner)); o != nil {
		return o, nil
	}
	decoded, err := s.read(ctx, r)
	if err != nil {
		return nil, err
	}
	return s.cache(r, decoded), nil
}

// latest returns the decoded object of a record, like object, but converts it again if a [Converter] made it.
func (s *Store) latest(ctx context.Context, r *storage.Record) (*object, error) {
	if o := objectOf(r.Cached(s.owner)); o == nil || !o.converted {
		return s.object(ctx, r)
	}
	o, err := s.read(ctx, r)
	if err != nil {
		return nil, err
	}
	s.setVersion(o.Object, r.Revision)
	return o, nil
}

// deleted returns the object of a deletion event: the last object with the resource version of the deletion.
func (s *Store) deleted(ctx context.Context, e *storage.Event) (*object, error) {
	if o := objectOf(e.Record.Cached(s.owner)); o != nil {
		return o, nil
	}
	last, err := s.object(ctx, e.Prev)
	if err != nil {
		return nil, err
	}
	return s.cache(e.Record, &object{Object: last.shallow(), converted: last.converted}), nil
}

// cache caches a decoded object with its record and returns the cached object. If another goroutine has cached an
// object for the record first, cache returns that object. The caller must not have shared decoded yet.
func (s *Store) cache(r *storage.Record, decoded *object) *object {
	s.setVersion(decoded.Object, r.Revision)
	if s.weak {
		return r.SetCached(s.owner, &weakObject{}).(*weakObject).set(decoded)
	}
	return r.SetCached(s.owner, decoded).(*object)
}

// objectOf returns the decoded object of a cached value, or nil.
func objectOf(cached any) *object {
	switch c := cached.(type) {
	case *object:
		return c
	case *weakObject:
		return c.value()
	}
	return nil
}

// weakObject is the cached value of a store with [Config].CacheWeakly.
type weakObject struct {
	mu     sync.Mutex
	object weak.Pointer[object]
}

func (w *weakObject) value() *object {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.object.Value()
}

// set returns the object that is there already, or else o, which is there from then on.
func (w *weakObject) set(o *object) *object {
	w.mu.Lock()
	defer w.mu.Unlock()
	if present := w.object.Value(); present != nil {
		return present
	}
	w.object = weak.Make(o)
	return o
}

// decode returns a new object, without its resource version.
func (s *Store) decode(data []byte) (*object, error) {
	obj, stored, err := s.codec.Decode(data, nil, s.newObject())
	if err != nil {
		return nil, err
	}
	c, ok := s.codec.(Converter)
	return &object{Object: obj, converted: ok && c.Converts(*stored)}, nil
}

// stored returns the same object as decode for the encoding of a changed object, and the note of the encoding. The result may share
// parts with the object that was replaced, and is the changed object itself if that belongs to the store.
func (s *Store) stored(c change) (*object, uint32, error) {
	if c.owned {
		if adopted, note, ok := s.adopt(c.obj, c.data); ok {
			return adopted, note, nil
		}
	}
	if copier, ok := s.codec.(Copier); ok {
		if decoded, ok := copier.CopyStored(c.obj, c.last); ok {
			o := &object{Object: decoded}
			return o, s.noteOf(c.data, o), nil
		}
	}
	o, err := s.decode(c.data)
	if err != nil {
		return nil, noteNone, err
	}
	return o, s.noteOf(c.data, o), nil
}

// lend sets out to the object of a record. It copies typed objects deeply. An unstructured object shares everything
// with the record except its top-level fields and its metadata fields, because a deep copy takes longer than the rest
// of a write.
func (s *Store) lend(ctx context.Context, r *storage.Record, out runtime.Object) error {
	if to, ok := out.(*unstructured.Unstructured); ok {
		o, err := s.object(ctx, r)
		if err != nil {
			return err
		}
		if from, ok := o.Object.(*unstructured.Unstructured); ok {
			to.Object = shallowContent(from.Object)
			return nil
		}
	}
	return s.extract(ctx, r, out)
}

// extract copies the object of a record to out.
func (s *Store) extract(ctx context.Context, r *storage.Record, out runtime.Object) error {
	o, err := s.object(ctx, r)
	if err != nil {
		return err
	}
	return s.copyTo(ctx, out, o, r)
}

// copyTo copies the object of a record to out.
func (s *Store) copyTo(ctx context.Context, out runtime.Object, o *object, r *storage.Record) error {
	to, from := reflect.ValueOf(out), reflect.ValueOf(o.Object)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return fmt.Errorf("cannot read an object into %T", out)
	}
	if to.Type() == from.Type() {
		to.Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
		return nil
	}
	data, _, err := Unseal(ctx, s.transformer, r)
	if err != nil {
		return err
	}
	if _, _, err := s.codec.Decode(data, nil, out); err != nil {
		return err
	}
	s.setVersion(out, r.Revision)
	return nil
}

// setVersion sets the resource version of an object. It does nothing for objects without metadata.
func (s *Store) setVersion(obj runtime.Object, revision uint64) {
	_ = s.versioner.UpdateObject(obj, revision)
}

// lent returns a copy with settable fields and metadata fields. An unstructured object shares everything else with the
// record, as in lend; a typed object shares nothing.
func (o *object) lent() runtime.Object {
	if _, ok := o.Object.(*unstructured.Unstructured); ok {
		return o.shallow()
	}
	return o.DeepCopyObject()
}

// shallow returns a copy with settable fields; an unstructured copy has settable metadata fields as well. The copy
// shares the referenced values.
func (o *object) shallow() runtime.Object {
	if u, ok := o.Object.(*unstructured.Unstructured); ok {
		return &unstructured.Unstructured{Object: shallowContent(u.Object)}
	}
	from := reflect.ValueOf(o.Object).Elem()
	to := reflect.New(from.Type())
	to.Elem().Set(from)
	return to.Interface().(runtime.Object)
}

func shallowContent(content map[string]any) map[string]any {
	content = maps.Clone(content)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = maps.Clone(metadata)
	}
	return content
}

// cacheable returns the object in the form that watchers get.
func (o *object) cacheable() *cacheable {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.encoded.Value(); c != nil {
		return c
	}
	c := &cacheable{object: o}
	o.encoded = weak.Make(c)
	return c
}

// emptyLike returns an empty object of the type of obj.
func emptyLike(obj runtime.Object) runtime.Object {
	if u, ok := obj.(runtime.Unstructured); ok {
		return u.NewEmptyInstance()
	}
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
}
