package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/value"
	kjson "sigs.k8s.io/json"

	"flyball.dev/internal/protobuf"
	"flyball.dev/storage"
)

// MetadataReader reads a part of the metadata of stored objects, and does not decode the rest. It does not matter in which
// version an object is stored, since a conversion does not change this part. Only one goroutine may use a reader at a time.
type MetadataReader struct {
	// Transformer decrypts the stored objects; nil means no encryption.
	Transformer value.Transformer

	space []byte
	read  metav1.PartialObjectMetadata
}

// errMetadata is the error for a value without metadata.
var errMetadata = errors.New("the stored value has no metadata")

// Read returns the name, the namespace, the UID, the resource version, the labels, the finalizers, the owner references and
// the deletion timestamp of the object of a record. The result is valid until the next call. It may share memory with the
// stored object, so the caller must not change it.
func (m *MetadataReader) Read(ctx context.Context, r *storage.Record) (*metav1.PartialObjectMetadata, error) {
	m.read.ObjectMeta = metav1.ObjectMeta{}
	if !m.readCached(r) {
		if err := m.readValue(ctx, r); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Key, err)
		}
	}
	m.read.ResourceVersion = strconv.FormatUint(r.Revision, 10)
	return &m.read, nil
}

// readCached takes the metadata from a decoded object that is cached with the record, of any version. It reports whether
// there is one. It is no use of the record.
func (m *MetadataReader) readCached(r *storage.Record) bool {
	for _, cached := range r.AllCached() {
		decoded := objectOf(cached)
		if decoded == nil {
			continue
		}
		switch o := decoded.Object.(type) {
		case metav1.ObjectMetaAccessor:
			meta, ok := o.GetObjectMeta().(*metav1.ObjectMeta)
			if ok {
				m.set(meta.Name, meta.Namespace, meta.UID, meta.DeletionTimestamp, meta.Labels, meta.Finalizers, meta.OwnerReferences)
			}
			return ok
		case metav1.Object:
			m.set(o.GetName(), o.GetNamespace(), o.GetUID(), o.GetDeletionTimestamp(), o.GetLabels(), o.GetFinalizers(), o.GetOwnerReferences())
			return true
		}
	}
	return false
}

func (m *MetadataReader) set(name, namespace string, uid types.UID, deleted *metav1.Time, labels map[string]string, finalizers []string,
	owners []metav1.OwnerReference) {
	m.read.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: namespace, UID: uid, DeletionTimestamp: deleted, Labels: labels,
		Finalizers: finalizers, OwnerReferences: owners}
}

// readValue reads the metadata of the stored value of a record.
func (m *MetadataReader) readValue(ctx context.Context, r *storage.Record) error {
	data := []byte(nil)
	if m.Transformer == nil {
		data = valueIn(r, &m.space)
	} else {
		var err error
		if data, _, err = Unseal(ctx, m.Transformer, r); err != nil {
			return err
		}
	}
	if envelope, ok := bytes.CutPrefix(data, protobufPrefix); ok {
		return m.readProtobuf(envelope)
	}
	var stored struct {
		Metadata struct {
			Name              string                  `json:"name"`
			Namespace         string                  `json:"namespace"`
			UID               types.UID               `json:"uid"`
			DeletionTimestamp *metav1.Time            `json:"deletionTimestamp"`
			Labels            map[string]string       `json:"labels"`
			Finalizers        []string                `json:"finalizers"`
			OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &stored); err != nil {
		return err
	}
	s := &stored.Metadata
	if s.Name == "" {
		return errMetadata
	}
	m.set(s.Name, s.Namespace, s.UID, s.DeletionTimestamp, s.Labels, s.Finalizers, s.OwnerReferences)
	return nil
}

// Tags of fields in metadata, besides those in encoded.go.
const (
	tagUID        = 5<<3 | 2
	tagDeleted    = 9<<3 | 2
	tagOwners     = 13<<3 | 2
	tagFinalizers = 14<<3 | 2
)

// readProtobuf reads the metadata of an object in its envelope.
func (m *MetadataReader) readProtobuf(envelope []byte) error {
	raw, ok := findField(envelope, tagRaw)
	if !ok {
		return errMetadata
	}
	metadata, _, ok := protobuf.Next(raw)
	if !ok || metadata.Tag != tagMetadata {
		return errMetadata
	}
	to := &m.read.ObjectMeta
	for rest := metadata.Content; len(rest) > 0; {
		f, after, ok := protobuf.Next(rest)
		if !ok {
			return errMetadata
		}
		rest = after
		switch f.Tag {
		case tagName:
			to.Name = string(f.Content)
		case tagNamespace:
			to.Namespace = string(f.Content)
		case tagUID:
			to.UID = types.UID(f.Content)
		case tagDeleted:
			to.DeletionTimestamp = &metav1.Time{}
			if err := to.DeletionTimestamp.Unmarshal(f.Content); err != nil {
				return err
			}
		case tagLabels:
			name, value, _ := protobuf.Next(f.Content)
			found, _, _ := protobuf.Next(value)
			if to.Labels == nil {
				to.Labels = map[string]string{}
			}
			to.Labels[string(name.Content)] = string(found.Content)
		case tagOwners:
			var owner metav1.OwnerReference
			if err := owner.Unmarshal(f.Content); err != nil {
				return err
			}
			to.OwnerReferences = append(to.OwnerReferences, owner)
		case tagFinalizers:
			to.Finalizers = append(to.Finalizers, string(f.Content))
		}
	}
	if to.Name == "" {
		return errMetadata
	}
	return nil
}
