package store

import (
	"bytes"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/apiserver/resource"
)

// cacheable is a shared object with its encodings, each made once. Encoders use the encodings; other readers use the
// metadata, or copy the object with GetObject.
//
//upstream:k8s.io/apiserver/pkg/storage/cacher.cachingObject
type cacheable struct {
	object *object

	mu        sync.Mutex
	encodings map[runtime.Identifier]*encoding
}

// encoding is one encoding of an object, made once.
type encoding struct {
	once sync.Once
	data []byte
	err  error
}

var (
	_ runtime.CacheableObject   = (*cacheable)(nil)
	_ metav1.ObjectMetaAccessor = (*cacheable)(nil)
	_ resource.Shareable        = (*cacheable)(nil)
)

// Shallow implements [resource.Shareable].
func (c *cacheable) Shallow() runtime.Object { return c.object.shallow() }

// CacheEncode implements runtime.CacheableObject.
func (c *cacheable) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error,
	w io.Writer) error {
	e := c.encoding(id)
	e.once.Do(func() {
		var buf bytes.Buffer
		// Encoders set the kind of the object, so they get a shallow copy.
		e.err = encode(c.object.shallow(), &buf)
		e.data = buf.Bytes()
	})
	if e.err != nil {
		return e.err
	}
	if s, ok := w.(runtime.Splice); ok {
		s.Splice(e.data)
		return nil
	}
	_, err := w.Write(e.data)
	return err
}

func (c *cacheable) encoding(id runtime.Identifier) *encoding {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.encodings[id]
	if e == nil {
		e = &encoding{}
		if c.encodings == nil {
			c.encodings = map[runtime.Identifier]*encoding{}
		}
		c.encodings[id] = e
	}
	return e
}

// GetObject implements runtime.CacheableObject. The copy belongs to the caller.
func (c *cacheable) GetObject() runtime.Object { return c.object.DeepCopyObject() }

// DeepCopyObject implements runtime.Object.
func (c *cacheable) DeepCopyObject() runtime.Object { return c.GetObject() }

// GetObjectKind implements runtime.Object. Setting the kind has no effect.
func (c *cacheable) GetObjectKind() schema.ObjectKind {
	gvk := c.object.GetObjectKind().GroupVersionKind()
	version, kind := gvk.ToAPIVersionAndKind()
	return &metav1.TypeMeta{APIVersion: version, Kind: kind}
}

// GetObjectMeta implements metav1.ObjectMetaAccessor. Setting fields has no effect.
func (c *cacheable) GetObjectMeta() metav1.Object {
	m, err := meta.Accessor(c.object.shallow())
	if err != nil {
		return nil
	}
	return m
}
