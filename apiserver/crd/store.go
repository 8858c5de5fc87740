package crd

import (
	"context"
	"errors"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// definitionStore is the storage of definitions. Every write of a definition decides on its names, sets its conditions
// and changes the catalog.
//
// A write is computed without a lock, because admission and validation may call the server. It is committed under the
// lock of [Kinds] if the definition has not changed since. Otherwise it is computed again.
type definitionStore struct {
	storage.Interface
	kinds *Kinds
	root  string // key of all definitions
}

// errStale means that the stored definition has changed since the write was computed.
var errStale = errors.New("the definition has changed")

// asStored returns a definition as it will be read from the storage. A definition decoded from protobuf may differ from
// it: there, additional properties with a schema may be disallowed.
func asStored(crd *apiextensions.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	data, err := runtime.Encode(definitionCodec(), crd)
	if err != nil {
		return nil, err
	}
	stored := &apiextensions.CustomResourceDefinition{}
	return stored, runtime.DecodeInto(definitionCodec(), data, stored)
}

// Create implements [storage.Interface].
func (s *definitionStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	k := s.kinds
	crd, err := asStored(obj.(*apiextensions.CustomResourceDefinition))
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.options.Shared {
		if err := k.refresh(crd.Name); err != nil {
			return err
		}
	}
	if k.definitions[crd.Name] != nil {
		return storage.NewKeyExistsError(key, 0)
	}
	c, err := k.prepare(crd)
	if err == nil {
		err = s.Interface.Create(ctx, key, crd, out, ttl)
	}
	return c.finish(ctx, out, err)
}

// GuaranteedUpdate implements [storage.Interface]. It ignores the cached object, and definitions have no TTL.
func (s *definitionStore) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	for {
		current := &apiextensions.CustomResourceDefinition{}
		if err := s.Get(ctx, key, storage.GetOptions{IgnoreNotFound: ignoreNotFound}, current); err != nil {
			return err
		}
		if err := preconditions.Check(key, current); err != nil {
			return err
		}
		version := current.ResourceVersion
		revision, err := s.Versioner().ObjectResourceVersion(current)
		if err != nil {
			return err
		}
		obj, _, err := update(current, storage.ResponseMeta{ResourceVersion: revision})
		if err != nil {
			return err
		}
		crd, err := asStored(obj.(*apiextensions.CustomResourceDefinition))
		if err != nil {
			return err
		}
		err = s.commitUpdate(ctx, key, version, crd, out)
		if !errors.Is(err, errStale) {
			return err
		}
	}
}

// commitUpdate stores a definition if the stored one still has the version that the update was computed from. An empty
// version means that there is none.
func (s *definitionStore) commitUpdate(ctx context.Context, key, version string,
	crd *apiextensions.CustomResourceDefinition, out runtime.Object) error {
	s.kinds.mu.Lock()
	defer s.kinds.mu.Unlock()
	return s.replace(ctx, key, version, crd, out)
}

// replace is commitUpdate with the lock held.
func (s *definitionStore) replace(ctx context.Context, key, version string, crd *apiextensions.CustomResourceDefinition,
	out runtime.Object) error {
	var c *change
	err := s.Interface.GuaranteedUpdate(ctx, key, out, true, nil,
		func(in runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			if c != nil || in.(*apiextensions.CustomResourceDefinition).ResourceVersion != version {
				return nil, nil, errStale
			}
			var err error
			c, err = s.kinds.prepare(crd)
			return crd, nil, err
		}, nil)
	if c == nil {
		return err
	}
	return c.finish(ctx, out, err)
}

// Delete implements [storage.Interface]. It ignores the cached object.
func (s *definitionStore) Delete(ctx context.Context, key string, out runtime.Object,
	preconditions *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object,
	o storage.DeleteOptions) error {
	if o.ExpectTransformOrDecodeError { // a definition that cannot be read is not served
		return s.Interface.Delete(ctx, key, out, preconditions, validate, cached, o)
	}
	for {
		current := &apiextensions.CustomResourceDefinition{}
		if err := s.Get(ctx, key, storage.GetOptions{}, current); err != nil {
			return err
		}
		if err := preconditions.Check(key, current); err != nil {
			return err
		}
		if err := validate(ctx, current); err != nil {
			return err
		}
		if err := s.commitDelete(ctx, key, current, out, o); !errors.Is(err, errStale) {
			return err
		}
	}
}

// commitDelete deletes a definition if the stored one is still crd. The resources leave the catalog before clients can
// observe the deletion.
func (s *definitionStore) commitDelete(ctx context.Context, key string, crd *apiextensions.CustomResourceDefinition,
	out runtime.Object, o storage.DeleteOptions) error {
	k := s.kinds
	k.mu.Lock()
	defer k.mu.Unlock()
	err := s.Interface.Delete(ctx, key, out, nil, func(_ context.Context, obj runtime.Object) error {
		if obj.(*apiextensions.CustomResourceDefinition).ResourceVersion != crd.ResourceVersion {
			return errStale
		}
		k.publish(crd.Name, nil)
		return nil
	}, nil, o)
	if err != nil {
		k.publish(crd.Name, k.served(crd.Name))
		return err
	}
	if d := k.definitions[crd.Name]; d != nil {
		delete(k.definitions, crd.Name)
		d.gate.cancel()
	}
	k.acceptFreedNames(ctx, crd.Spec.Group)
	return nil
}
