package store

import (
	"fmt"
	"maps"
	"reflect"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/storage"
)

// object is the decoded object of a record, with its resource version. It is shared and immutable.
type object struct {
	runtime.Object
	// converted is set if a [converter] made the object of one of another version.
	converted bool

	mu sync.Mutex
	// encoded is weak: encodings are kept while a watcher still has to send them, and no longer.
	encoded weak.Pointer[cacheable]
}

// object returns the decoded form of a record. The only error is that the record is corrupt.
func (s *Store) object(r *storage.Record) (*object, error) {
	if o, ok := r.Cached(s.owner).(*object); ok {
		return o, nil
	}
	decoded, err := s.decode(r.Value())
	if err != nil {
		return nil, corrupt(r, err)
	}
	return s.cache(r, decoded), nil
}

// latest returns the decoded form of a record, as object does, but a converted one is converted again.
func (s *Store) latest(r *storage.Record) (*object, error) {
	if o, ok := r.Cached(s.owner).(*object); !ok || !o.converted {
		return s.object(r)
	}
	o, err := s.decode(r.Value())
	if err != nil {
		return nil, corrupt(r, err)
	}
	s.setVersion(o.Object, r.Revision)
	return o, nil
}

// deleted returns the object of a deletion: the last one, with the resource version of the
// deletion.
func (s *Store) deleted(e *storage.Event) (*object, error) {
	if o, ok := e.Record.Cached(s.owner).(*object); ok {
		return o, nil
	}
	last, err := s.object(e.Prev)
	if err != nil {
		return nil, err
	}
	return s.cache(e.Record, &object{Object: last.shallow(), converted: last.converted}), nil
}

// cache caches a decoded object, which must not be shared yet, with its record, and returns the one
// that is cached: the first, if others have decoded the record meanwhile.
func (s *Store) cache(r *storage.Record, decoded *object) *object {
	s.setVersion(decoded.Object, r.Revision)
	return r.SetCached(s.owner, decoded).(*object)
}

// converter is a codec that may ask others to convert an object to the version that it decodes to. They
// may answer otherwise the next time.
type converter interface {
	// Converts reports whether objects of a kind are converted by others.
	Converts(stored schema.GroupVersionKind) bool
}

// decode returns a new object, without its resource version.
func (s *Store) decode(data []byte) (*object, error) {
	obj, stored, err := s.codec.Decode(data, nil, s.newObject())
	if err != nil {
		return nil, err
	}
	c, ok := s.codec.(converter)
	return &object{Object: obj, converted: ok && c.Converts(*stored)}, nil
}

// copier is a codec that copies objects faster than it decodes them.
type copier interface {
	// CopyStored returns what decoding the encoding of an object returns, or false if it must be
	// decoded. It may share parts with last, the object that the new one replaces, or nil.
	CopyStored(obj, last runtime.Object) (runtime.Object, bool)
}

// stored returns what decode returns for data, which is the encoding of obj. It may share parts with
// last, the object that obj replaces, or nil.
func (s *Store) stored(obj, last runtime.Object, data []byte) (*object, error) {
	if c, ok := s.codec.(copier); ok {
		if decoded, ok := c.CopyStored(obj, last); ok {
			return &object{Object: decoded}, nil
		}
	}
	return s.decode(data)
}

// lend sets out to the object of a record. An unstructured object shares all with the record but its
// fields and those of its metadata, since copying it takes longer than the rest of a write; others are
// copied.
func (s *Store) lend(r *storage.Record, out runtime.Object) error {
	if to, ok := out.(*unstructured.Unstructured); ok {
		o, err := s.object(r)
		if err != nil {
			return err
		}
		if from, ok := o.Object.(*unstructured.Unstructured); ok {
			to.Object = shallowContent(from.Object)
			return nil
		}
	}
	return s.extract(r, out)
}

// extract copies the object of a record to out.
func (s *Store) extract(r *storage.Record, out runtime.Object) error {
	o, err := s.object(r)
	if err != nil {
		return err
	}
	return s.copyTo(out, o, r)
}

// copyTo copies the object of a record to out.
func (s *Store) copyTo(out runtime.Object, o *object, r *storage.Record) error {
	to, from := reflect.ValueOf(out), reflect.ValueOf(o.Object)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return fmt.Errorf("cannot read an object into %T", out)
	}
	if to.Type() == from.Type() {
		to.Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
		return nil
	}
	if _, _, err := s.codec.Decode(r.Value(), nil, out); err != nil {
		return err
	}
	s.setVersion(out, r.Revision)
	return nil
}

// setVersion sets the resource version of an object. Objects without metadata are left as they are.
func (s *Store) setVersion(obj runtime.Object, revision uint64) {
	_ = s.versioner.UpdateObject(obj, revision)
}

// lent returns a copy of which the fields of the object and of its metadata may be set. An unstructured
// object shares the rest with the record, as lend says; others share nothing.
func (o *object) lent() runtime.Object {
	if _, ok := o.Object.(*unstructured.Unstructured); ok {
		return o.shallow()
	}
	return o.DeepCopyObject()
}

// shallow returns a copy whose fields can be set: for unstructured objects, those of the object and
// of its metadata. What they refer to is shared.
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

// cacheable returns the object as watchers get it.
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

// emptyLike returns an empty object of the same type.
func emptyLike(obj runtime.Object) runtime.Object {
	if u, ok := obj.(runtime.Unstructured); ok {
		return u.NewEmptyInstance()
	}
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
}
