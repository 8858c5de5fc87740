package crd

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiserver/pkg/storage"
)

// Checkpoint saves the current definitions for Reset. No write may be in progress.
func (k *Kinds) Checkpoint() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.checkpoint = maps.Clone(k.definitions)
}

// Reset returns to the definitions of the last Checkpoint. Once all background writes have stopped, it calls restore,
// which must bring the storage back. Definitions that have not changed since the checkpoint keep their served kind; all
// others are compiled again. No write may be in progress.
func (k *Kinds) Reset(restore func() error) error {
	k.stopCleanups()
	if err := restore(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, d := range k.definitions {
		if k.checkpoint[name] == nil {
			delete(k.definitions, name)
			k.publish(name, nil)
			d.gate.cancel()
		}
	}
	var errs []error
	for name, d := range k.checkpoint {
		if k.definitions[name] == d && !d.gate.isClosed() {
			continue
		}
		if err := k.restore(name); err != nil {
			errs = append(errs, fmt.Errorf("definition %s: %w", name, err))
		}
	}
	k.checkpoint = maps.Clone(k.definitions)
	return errors.Join(errs...)
}

// stopCleanups ends the cleanups and waits for them.
func (k *Kinds) stopCleanups() {
	k.mu.Lock()
	for _, d := range k.definitions {
		if d.gate.isClosed() {
			d.gate.cancel()
		}
	}
	k.mu.Unlock()
	k.work.Wait()
}

// restore serves the stored definition. It keeps the current served kind if the definition is the same. The caller
// holds the lock.
func (k *Kinds) restore(name string) error {
	crd := &apiextensions.CustomResourceDefinition{}
	if err := k.store.Get(k.ctx, k.store.root+"/"+name, storage.GetOptions{}, crd); err != nil {
		return err
	}
	if d := k.definitions[name]; d != nil && (d.crd.UID != crd.UID || d.gate.isClosed()) {
		delete(k.definitions, name)
		d.gate.cancel()
	}
	c, err := k.apply(crd)
	if c.next.serving == nil {
		k.publish(name, nil)
	}
	c.commit(k.ctx, crd)
	return err
}
