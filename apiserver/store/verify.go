package store

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	"flyball.dev/storage"
)

// Verify checks that no reader has modified a shared object: each object that is cached with a record of the backend
// must equal the decoded value of the record. It is meant for the end of tests.
func Verify(ctx context.Context, backend storage.Store) error {
	page, err := backend.Range(ctx, storage.Query{})
	if err != nil {
		return err
	}
	for _, record := range page.Records {
		for owner, cached := range record.AllCached() {
			s := storeOf(owner)
			object := objectOf(cached)
			if s == nil || object == nil {
				continue
			}
			want, err := s.read(ctx, record)
			if err != nil {
				return fmt.Errorf("%s: %w", record.Key, err)
			}
			s.setVersion(want.Object, record.Revision)
			if got := object.Object; !equality.Semantic.DeepEqual(got, want.Object) {
				return fmt.Errorf("%s was changed after it had been read: is %+v, was %+v", record.Key, got, want.Object)
			}
		}
	}
	return nil
}

// storeOf returns the store that owns a cached value. It returns nil if the value belongs to another package or the
// store is gone.
func storeOf(of any) *Store {
	if o, ok := of.(*owner); ok {
		return o.store.Value()
	}
	return nil
}
