// Package restore serves recordings: it makes a storage for a control plane from a moment of a recording, and carries out the changes
// after it.
package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/apiserver/store"
	"flyball.dev/record"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// Storage returns a storage in memory with the objects of a moment, with their UIDs and resource versions. Later writes have higher
// resource versions. Objects that match without are left out.
//
// The control plane on the storage has keys of its own. It adds what it cannot do without: the namespaces of Kubernetes, the bootstrap
// policy, and its own address as the endpoints of the Service kubernetes.
func Storage(m *record.Moment, without func(schema.GroupResource) bool, o memory.Options) (*memory.Store, error) {
	loader := memory.NewLoader(o)
	revision := storage.First
	objects := map[string]record.Key{} // by their keys in the storage
	for key := range m.Objects {
		if without == nil || !without(key.GroupResource()) {
			objects[storageKey(key)] = key
		}
	}
	for _, path := range slices.Sorted(maps.Keys(objects)) {
		key := objects[path]
		value, recorded, err := stored(m.Objects[key])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", key, err), loader.Close())
		}
		revision = max(revision, recorded)
		loader.Record(storage.Record{Key: path, Created: recorded, Revision: recorded, Version: 1}, value)
	}
	loader.At(revision)
	return loader.Store(), nil
}

// storageKey returns the key of an object in a storage.
func storageKey(key record.Key) string {
	return store.Key(key.GroupResource(), key.Namespace, key.Name)
}

// stored returns the value that a storage has of an object, and its resource version. A storage keeps the version beside the value.
func stored(object json.RawMessage) ([]byte, uint64, error) {
	var content, metadata map[string]json.RawMessage
	if err := json.Unmarshal(object, &content); err != nil {
		return nil, 0, err
	}
	if err := json.Unmarshal(content["metadata"], &metadata); err != nil {
		return nil, 0, fmt.Errorf("metadata: %w", err)
	}
	var text string
	if err := json.Unmarshal(metadata["resourceVersion"], &text); err != nil {
		return nil, 0, fmt.Errorf("metadata.resourceVersion: %w", err)
	}
	revision, err := strconv.ParseUint(text, 10, 62)
	if err != nil {
		return nil, 0, fmt.Errorf("metadata.resourceVersion: %w", err)
	}
	delete(metadata, "resourceVersion")
	delete(metadata, "selfLink") // of old servers
	if content["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, 0, err
	}
	value, err := json.Marshal(content)
	return value, max(revision, storage.First), err
}

// Player carries out the changes of a recording in a storage. Others may write to the storage too; what was recorded replaces
// what they have written.
type Player struct {
	Storage storage.Store
	// Speed is how many seconds of the recording take a second; 0 waits for nothing.
	Speed float64
	// Without, if not nil, are the resources that are left out.
	Without func(schema.GroupResource) bool
	// Played, if not nil, is called after each entry.
	Played func(record.Entry)
}

// Play carries out the entries of a recording after a time, and returns at the end of the recording, or when ctx is done. A recording
// that was cut off is played up to there.
func (p *Player) Play(ctx context.Context, from time.Time, next func() (record.Entry, error)) error {
	began := time.Now()
	for {
		e, err := next()
		switch {
		case err == io.EOF, errors.Is(err, record.ErrCut):
			return nil
		case err != nil:
			return err
		}
		if p.Speed > 0 {
			at := began.Add(time.Duration(float64(e.Time.Sub(from)) / p.Speed))
			select {
			case <-time.After(time.Until(at)):
			case <-ctx.Done():
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.apply(ctx, e); err != nil {
			return fmt.Errorf("%s %s: %w", e.Type, e.Key(), err)
		}
		if p.Played != nil {
			p.Played(e)
		}
	}
}

// apply carries out an entry.
func (p *Player) apply(ctx context.Context, e record.Entry) error {
	if e.Resource == nil || p.Without != nil && p.Without(e.Resource.GroupResource()) {
		return nil
	}
	switch e.Type {
	case record.Exists, record.Added, record.Modified:
		value, _, err := stored(e.Object)
		if err != nil {
			return err
		}
		_, err = p.Storage.Put(ctx, storage.Write{Key: storageKey(e.Key()), Value: value, If: storage.Any})
		return err
	case record.Deleted:
		_, err := p.Storage.Delete(ctx, storageKey(e.Key()), storage.Any)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	case record.Removed:
		return p.remove(ctx, store.Path(e.Resource.GroupResource()))
	}
	return nil
}

// remove removes all records of a path.
func (p *Player) remove(ctx context.Context, path string) error {
	page, err := p.Storage.Range(ctx, storage.Query{Path: path, Scan: true})
	if err != nil {
		return err
	}
	for _, r := range page.Records {
		if _, err := p.Storage.Delete(ctx, r.Key, storage.Any); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return nil
}
