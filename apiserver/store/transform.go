package store

import (
	"context"
	"fmt"

	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/storage"
)

// Seal returns the stored value of an encoded object under a key. Without a transformer, it is the encoded object itself.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.authenticatedDataString
func Seal(ctx context.Context, t value.Transformer, key string, data []byte) ([]byte, error) {
	if t == nil {
		return data, nil
	}
	return t.TransformToStorage(ctx, data, value.DefaultContext(key))
}

// Unseal returns the encoded object of a record. It reports whether the stored value is stale: another write should
// replace it, because a new one would be encrypted otherwise.
func Unseal(ctx context.Context, t value.Transformer, r *storage.Record) (data []byte, stale bool, err error) {
	if t == nil {
		return r.Value(), false, nil
	}
	return t.TransformFromStorage(ctx, r.Value(), value.DefaultContext(r.Key))
}

// interpreting is a transformer that makes every error one of a corrupt object.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.corruptObjErrorInterpretingTransformer
type interpreting struct{ value.Transformer }

func (t interpreting) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	data, stale, err := t.Transformer.TransformFromStorage(ctx, data, dataCtx)
	if err != nil {
		err = &corruptError{untransformable, 0, err}
	}
	return data, stale, err
}

// unseal returns the encoded object of a record. It fails as read does.
func (s *Store) unseal(ctx context.Context, r *storage.Record) ([]byte, error) {
	data, _, err := Unseal(ctx, s.transformer, r)
	if known, ok := asCorrupt(err); ok {
		return nil, corrupt(r, known)
	}
	if err != nil {
		return nil, apistorage.NewInternalError(fmt.Errorf("unable to transform key %q: %w", r.Key, err))
	}
	return data, nil
}

// open is unseal, and may use scratch for the encoded object, which is then valid until the next use of scratch.
func (s *Store) open(ctx context.Context, r *storage.Record, scratch *[]byte) ([]byte, error) {
	if s.transformer != nil {
		return s.unseal(ctx, r)
	}
	return valueIn(r, scratch), nil
}

// read decodes the object of a record, without its resource version. It fails only if the record is corrupt, or if the
// transformer returns an error that does not say so.
func (s *Store) read(ctx context.Context, r *storage.Record) (*object, error) {
	data, err := s.unseal(ctx, r)
	if err != nil {
		return nil, err
	}
	o, err := s.decode(data)
	if err != nil && !tellsCorrupt() {
		return nil, err
	}
	if err != nil {
		return nil, corrupt(r, &corruptError{undecodable, r.Revision, err})
	}
	return o, nil
}
