// Package split is a store that keeps the keys below some paths in other stores, such as events in an etcd cluster of
// their own.
//
// Each of the stores has its own revisions, so a revision belongs to a path. What concerns one of the stores is as good
// as there. What concerns several is not atomic:
//
//   - A condition of a write on a record in another store is checked before the write. The record may change between
//     the two.
//   - A transaction, a range or a watch across several stores is refused.
//
// Each resource gets the store that has its keys ([storage.Partition]), so the server works as with one store.
package split

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"flyball.dev/storage"
)

// errSeveral is the error of an operation on several of the stores.
var errSeveral = errors.New("storage: the keys are in several stores")

// Override is a store of the keys below some paths.
type Override struct {
	// Paths end in a slash.
	Paths []string
	Store storage.Store
}

// Store is a [storage.Store] that consists of several.
type Store struct {
	// parts are the overrides, and then the store of all other keys, with the empty path.
	parts []*part
	close sync.Once
}

var (
	_ storage.Partitioned = (*Store)(nil)
	_ storage.Checker     = (*Store)(nil)
	_ storage.Historian   = (*Store)(nil)
	_ storage.Indexer     = (*Store)(nil)
)

// HistorySize implements [storage.Historian]. It is the sum over the stores.
func (s *Store) HistorySize() int {
	sum := 0
	for _, p := range s.parts {
		if h, ok := p.Store.(storage.Historian); ok {
			sum += h.HistorySize()
		}
	}
	return sum
}

// New returns a store with the keys of the overrides in their stores, and all other keys in rest. It takes ownership of
// the stores, unless it returns an error. No path may cover another one.
func New(rest storage.Store, overrides ...Override) (*Store, error) {
	s := &Store{}
	var paths []string
	for _, o := range overrides {
		for _, path := range o.Paths {
			if path == "" || path[len(path)-1] != '/' {
				return nil, fmt.Errorf("storage: the path %q does not end in a slash", path)
			}
			for _, other := range paths {
				if storage.Covers(path, other) || storage.Covers(other, path) {
					return nil, fmt.Errorf("storage: the paths %s and %s overlap", other, path)
				}
			}
			paths = append(paths, path)
		}
		s.parts = append(s.parts, &part{Store: o.Store, whole: s, paths: o.Paths})
	}
	s.parts = append(s.parts, &part{Store: rest, whole: s, paths: []string{""}})
	return s, nil
}

// part is one of the stores.
type part struct {
	storage.Store
	whole *Store
	paths []string
}

var (
	_ storage.Checker    = (*part)(nil)
	_ storage.Indexer    = (*part)(nil)
	_ storage.Replicated = (*part)(nil)
)

// Replica implements [storage.Replicated].
func (p *part) Replica() storage.Reader { return storage.Replica(p.Store) }

// covers reports whether the part has all keys of a path.
func (p *part) covers(path string) bool {
	return slices.ContainsFunc(p.paths, func(own string) bool { return storage.Covers(own, path) })
}

// of returns the part that has a key, or all keys of a path if one part has all.
func (s *Store) of(path string) *part {
	return s.parts[slices.IndexFunc(s.parts, func(p *part) bool { return p.covers(path) })] // the last one covers every path
}

func (s *Store) rest() *part { return s.parts[len(s.parts)-1] }

// within returns the part that has all keys of a path, or errSeveral.
func (s *Store) within(path string) (*part, error) {
	found := s.of(path)
	for _, p := range s.parts[:len(s.parts)-1] {
		for _, own := range p.paths {
			if p != found && storage.Covers(path, own) {
				return nil, fmt.Errorf("%w: %q covers %s", errSeveral, path, own)
			}
		}
	}
	return found, nil
}

// Partition implements [storage.Partitioned]. For a path with keys in several stores, it returns the store of the keys that
// no override has.
func (s *Store) Partition(path string) storage.Store { return s.of(path) }

// Revisions implements [storage.Store]. The revisions are the ones of the keys that no override has.
func (s *Store) Revisions(ctx context.Context) (latest, oldest uint64, err error) {
	return s.rest().Revisions(ctx)
}

// Get implements [storage.Store].
func (s *Store) Get(ctx context.Context, key string) (*storage.Record, error) {
	return s.of(key).Get(ctx, key)
}

// Range implements [storage.Store].
func (s *Store) Range(ctx context.Context, q storage.Query) (storage.Page, error) {
	p, err := s.within(q.Path)
	if err != nil {
		return storage.Page{}, err
	}
	return p.Range(ctx, q)
}

// Put implements [storage.Store].
func (s *Store) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	return s.of(w.Key).Put(ctx, w)
}

// Delete implements [storage.Store].
func (s *Store) Delete(ctx context.Context, key string, revision uint64) (*storage.Record, error) {
	return s.of(key).Delete(ctx, key, revision)
}

// Commit implements [storage.Store].
func (s *Store) Commit(ctx context.Context, writes []storage.Write) ([]*storage.Record, error) {
	if len(writes) == 0 {
		return nil, nil
	}
	return s.of(writes[0].Key).Commit(ctx, writes)
}

// Watch implements [storage.Store].
func (s *Store) Watch(ctx context.Context, path string, after uint64) (storage.Watcher, error) {
	p, err := s.within(path)
	if err != nil {
		return nil, err
	}
	return p.Watch(ctx, path, after)
}

// Compact implements [storage.Store]. It compacts the history of the keys that no override has.
func (s *Store) Compact(ctx context.Context, revision uint64) error {
	return s.rest().Compact(ctx, revision)
}

// AddIndex implements [storage.Indexer].
func (s *Store) AddIndex(i storage.Index) error {
	p, err := s.within(i.Path)
	if err != nil {
		return err
	}
	return p.AddIndex(i)
}

// Healthy implements [storage.Checker].
func (s *Store) Healthy() error {
	for _, p := range s.parts {
		if err := p.Healthy(); err != nil {
			return err
		}
	}
	return nil
}

// Close implements [storage.Store]. It closes all stores.
func (s *Store) Close() (err error) {
	s.close.Do(func() {
		for _, p := range s.parts {
			err = errors.Join(err, p.Store.Close())
		}
	})
	return err
}

// Put implements [storage.Store].
func (p *part) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	elsewhere, err := p.resolve(ctx, &w)
	if err != nil {
		return nil, err
	}
	if elsewhere == nil {
		return p.Store.Put(ctx, w)
	}
	return p.refused(ctx, w, elsewhere)
}

// Commit implements [storage.Store].
func (p *part) Commit(ctx context.Context, writes []storage.Write) ([]*storage.Record, error) {
	if err := storage.CheckWrites(writes); err != nil {
		return nil, err
	}
	writes = slices.Clone(writes)
	for i := range writes {
		if other := p.whole.of(writes[i].Key); other != p {
			return nil, fmt.Errorf("%w: the transaction writes %s and %s", errSeveral, writes[0].Key, writes[i].Key)
		}
	}
	for i := range writes {
		switch elsewhere, err := p.resolve(ctx, &writes[i]); {
		case err != nil:
			return nil, err
		case elsewhere != nil && len(writes) == 1 && !writes[0].Delete:
			r, err := p.refused(ctx, writes[0], elsewhere)
			return []*storage.Record{r}, err
		case elsewhere != nil:
			return nil, elsewhere
		}
	}
	return p.Store.Commit(ctx, writes)
}

// resolve checks the conditions of a write on the records of other parts, and removes them from the write. It returns
// ErrCondition as refused if one of them does not hold.
func (p *part) resolve(ctx context.Context, w *storage.Write) (refused, err error) {
	var own []storage.Condition
	for _, c := range w.Require {
		other := p.whole.of(c.Key)
		if other == p {
			own = append(own, c)
			continue
		}
		revision := storage.Absent
		switch r, err := other.Get(ctx, c.Key); {
		case err == nil:
			revision = r.Revision
		case !errors.Is(err, storage.ErrNotFound):
			return nil, err
		}
		if c.If != storage.Any && c.If != revision {
			return storage.ErrCondition, nil
		}
	}
	w.Require = own
	return nil, nil
}

// refused returns the result of a write with a condition that does not hold. A conflict of the record itself comes first.
func (p *part) refused(ctx context.Context, w storage.Write, condition error) (*storage.Record, error) {
	current, err := p.Store.Get(ctx, w.Key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		if w.If == storage.Absent || w.If == storage.Any {
			return nil, condition
		}
		return nil, storage.ErrConflict
	case err != nil:
		return nil, err
	case w.If == storage.Any || w.If == current.Revision:
		return nil, condition
	}
	return current, storage.ErrConflict
}

// Healthy implements [storage.Checker].
func (p *part) Healthy() error {
	if c, ok := p.Store.(storage.Checker); ok {
		return c.Healthy()
	}
	return nil
}

// AddIndex implements [storage.Indexer]. It returns ErrNoIndex if the store has no indexes.
func (p *part) AddIndex(i storage.Index) error {
	if x, ok := p.Store.(storage.Indexer); ok {
		return x.AddIndex(i)
	}
	return storage.ErrNoIndex
}

// Close does nothing: the whole store closes its parts.
func (p *part) Close() error { return nil }
