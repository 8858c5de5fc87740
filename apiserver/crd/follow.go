package crd

import (
	"errors"
	"maps"
	"path"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"flyball.dev/storage"
)

// startFollowing begins to serve the definitions that other servers over the same storage write, until Close.
func (k *Kinds) startFollowing() error {
	w, err := k.options.Storage.Watch(k.ctx, k.store.root+"/", 0)
	if err != nil {
		return err
	}
	k.follower.Go(func() { k.follow(w) })
	return nil
}

// follow observes the definitions of all events. If events are missing, follow observes all definitions.
func (k *Kinds) follow(w storage.Watcher) {
	defer func() { w.Close() }()
	for {
		events, _, err := w.Next()
		if errors.Is(err, storage.ErrCompacted) {
			var reopened storage.Watcher
			if reopened, err = storage.Rewatch(k.ctx, k.options.Storage, k.store.root+"/"); err == nil {
				w.Close()
				w = reopened
				k.observeAll()
				continue
			}
		}
		if err != nil {
			if k.ctx.Err() == nil {
				klog.FromContext(k.ctx).Error(err, "The definitions of other servers are no longer served")
			}
			return
		}
		for _, e := range events {
			k.observe(path.Base(e.Record.Key))
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-w.Ready():
		case <-k.ctx.Done():
			return
		}
	}
}

// observeAll observes all definitions that are stored or served.
func (k *Kinds) observeAll() {
	names := map[string]bool{}
	k.mu.Lock()
	for name := range k.definitions {
		names[name] = true
	}
	k.mu.Unlock()
	for range listAttempts { // a definition that is corrupt fails the list each time
		list := &apiextensions.CustomResourceDefinitionList{}
		err := k.store.GetList(k.ctx, k.store.root, apistorage.ListOptions{Recursive: true, Predicate: apistorage.Everything}, list)
		for i := range list.Items {
			names[list.Items[i].Name] = true
		}
		if err == nil || k.ctx.Err() != nil {
			break
		}
		klog.FromContext(k.ctx).Error(err, "Cannot list the definitions of other servers")
		select {
		case <-time.After(readInterval):
		case <-k.ctx.Done():
		}
	}
	for name := range maps.Keys(names) {
		k.observe(name)
	}
}

// readInterval is the time between attempts to read a definition while the storage fails.
const readInterval = time.Second

// listAttempts bounds the attempts to list all definitions.
const listAttempts = 60

// observe serves a definition as it is stored. While the storage fails, observe tries again.
func (k *Kinds) observe(name string) {
	for {
		k.mu.Lock()
		err := k.refresh(name)
		k.mu.Unlock()
		if err == nil || k.ctx.Err() != nil {
			return
		}
		if unread := (*unreadError)(nil); !errors.As(err, &unread) {
			klog.FromContext(k.ctx).Error(err, "A definition of another server cannot be served", "definition", name)
			return
		}
		select {
		case <-time.After(readInterval):
		case <-k.ctx.Done():
		}
	}
}

// unreadError means that the storage has failed, and another attempt may succeed.
type unreadError struct{ error }

func (e *unreadError) Unwrap() error { return e.error }

// refresh serves a definition as it is stored, unless it is served so already. The caller holds the lock.
func (k *Kinds) refresh(name string) error {
	crd := &apiextensions.CustomResourceDefinition{}
	err := k.store.Get(k.ctx, k.store.root+"/"+name, apistorage.GetOptions{}, crd)
	d := k.definitions[name]
	switch {
	case apistorage.IsNotFound(err) && d == nil:
		return nil
	case apistorage.IsNotFound(err):
		delete(k.definitions, name)
		k.publish(name, nil)
		d.gate.cancel()
		return nil
	case apistorage.IsCorruptObject(err):
		return err
	case err != nil:
		return &unreadError{err}
	case d != nil && d.crd.ResourceVersion == crd.ResourceVersion:
		return nil
	}
	return k.restore(name)
}
