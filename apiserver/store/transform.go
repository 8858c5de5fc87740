package store

import (
	"context"

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

// read decodes the object of a record, without its resource version.
func (s *Store) read(r *storage.Record) (*object, error) {
	data, _, err := Unseal(context.Background(), s.transformer, r)
	if err != nil {
		return nil, err
	}
	return s.decode(data)
}
