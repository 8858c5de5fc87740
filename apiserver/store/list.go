package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	apistorage "k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"flyball.dev/apiserver/resource"
	"flyball.dev/storage"
)

const (
	// maxPage bounds the pages that a list with a limit and a selector reads to find matches.
	maxPage = 10_000
	// freshnessTimeout is how long a request waits for a resource version in the future. retryAfter is the number of
	// seconds after which its client should retry.
	freshnessTimeout = 3 * time.Second
	retryAfter       = 1
)

// GetList implements storage.Interface.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.store.GetList
func (s *Store) GetList(ctx context.Context, key string, opts apistorage.ListOptions, list runtime.Object) error {
	path, err := s.key(key, opts.Recursive)
	if err != nil {
		return err
	}
	items, err := itemsOf(list)
	if err != nil {
		return err
	}
	from, q, err := s.query(ctx, path, opts)
	if err != nil {
		return err
	}
	into := resource.ListingFrom(ctx)
	found, err := s.find(ctx, from, q, opts.Predicate, into != nil && !s.converts())
	if err != nil {
		if into == nil {
			_ = fill(items, found.objects()) // what was read before, as in kube-apiserver
		}
		return err
	}
	if into != nil {
		into.Objects = &listing{appender: appender{ctx: ctx, store: s}, items: found.items}
	} else if err := fill(items, found.objects()); err != nil {
		return err
	}
	token, remaining, err := apistorage.PrepareContinueToken(found.last, path, int64(found.revision), found.total,
		found.more, opts)
	if err != nil {
		return err
	}
	opts.Predicate.SetShardInfoOnList(list)
	s.progress.request(ctx)
	return s.versioner.UpdateList(list, found.revision, token, remaining)
}

// query translates the options of a list to a query, and returns what answers it. If necessary, it waits for the resource version
// first.
func (s *Store) query(ctx context.Context, path string, opts apistorage.ListOptions) (storage.Reader, storage.Query, error) {
	at, start, err := apistorage.ValidateListOptions(path, s.versioner, opts)
	if err != nil {
		return nil, storage.Query{}, err
	}
	q := storage.Query{Path: path, Start: start, Revision: uint64(at), Limit: s.limit(opts), Scan: !s.converts()}
	if at > 0 {
		return s.backend, q, s.await(ctx, uint64(at))
	}
	from, err := s.reader(ctx, opts.ResourceVersion)
	return from, q, err
}

// limit returns the limit of a list, or zero. kube-apiserver's watch cache ignores the limit at resource version "0", at which
// informers of old list. The watch cache also goes on with such a list, from its snapshots.
//
//upstream:k8s.io/apiserver/pkg/storage/cacher.computeListLimit
//upstream:k8s.io/apiserver/pkg/storage/cacher.Cacher.ShouldDelegateContinue
func (s *Store) limit(opts apistorage.ListOptions) int {
	isCached := s.watchCache && (opts.Predicate.Continue == "" || utilfeature.DefaultFeatureGate.Enabled(features.ListFromCacheSnapshot))
	if isCached && opts.ResourceVersion == "0" {
		return 0
	}
	return int(opts.Predicate.Limit)
}

// converts reports whether a webhook may convert stored objects. Converted objects are cached for the next list.
func (s *Store) converts() bool {
	c, ok := s.codec.(Converter)
	return ok && c.Converts(schema.GroupVersionKind{}) // which is not the served version
}

// matches collects the selected objects of a list.
type matches struct {
	items    []item
	revision uint64
	last     string // key of the last record that was examined
	more     bool   // there are records after it
	total    int64  // of the last page: its records and the remaining ones
}

// objects returns the decoded objects.
func (m *matches) objects() []*object {
	objects := make([]*object, len(m.items))
	for i, it := range m.items {
		objects[i] = it.object
	}
	return objects
}

// find reads records until it has as many matching objects as the query's limit, or there are no more records. If the
// objects are to be decoded later, it decodes only what it has to examine.
func (s *Store) find(ctx context.Context, from storage.Reader, q storage.Query, p apistorage.SelectionPredicate, later bool) (matches, error) {
	var m matches
	limit, selected := q.Limit, newSelector(s.useIndex(&q, p))
	var scratch []byte
	for {
		page, err := from.Range(ctx, q)
		if errors.Is(err, storage.ErrCompacted) && p.Continue != "" {
			return m, continueTooOld(q.Start, q.Path)
		}
		if err != nil {
			return m, fromBackend(q.Path, err)
		}
		m.revision, m.total = page.Revision, int64(len(page.Records)+page.Remaining)
		m.more = page.Remaining > 0
		if selected.all {
			m.items = slices.Grow(m.items, len(page.Records))
		}
		var errs []error
		for _, record := range page.Records {
			if limit > 0 && len(m.items) == limit {
				m.more = true
				break
			}
			if (!selected.all || len(errs) > 0) && ctx.Err() != nil {
				return m, ctx.Err() // a selector may have very many requirements, and decryption may wait for a plugin
			}
			m.last = record.Key
			found, ok, err := s.examine(ctx, record, &selected, later, &scratch)
			_, corrupt := asCorrupt(err)
			switch {
			case corrupt:
				errs = append(errs, err)
			case err != nil:
				return m, s.listError(errs, err)
			case ok:
				m.items = append(m.items, found)
			}
			if len(errs) == maxCorrupt {
				return m, s.listError(errs, nil)
			}
		}
		if len(errs) > 0 {
			return m, s.listError(errs, nil)
		}
		if !m.more || limit > 0 && len(m.items) == limit {
			return m, nil
		}
		if err := ctx.Err(); err != nil {
			return m, apistorage.NewTimeoutError(q.Path, "request did not complete within requested timeout")
		}
		q.Start, q.Revision, q.Limit = m.last+"\x00", page.Revision, min(2*q.Limit, maxPage)
	}
}

// itemsOf returns the settable slice of items of a list.
func itemsOf(list runtime.Object) (reflect.Value, error) {
	ptr, err := meta.GetItemsPtr(list)
	if err != nil {
		return reflect.Value{}, err
	}
	items := reflect.ValueOf(ptr).Elem()
	if items.Kind() != reflect.Slice {
		return reflect.Value{}, fmt.Errorf("the items of %T are not a slice", list)
	}
	return items, nil
}

// fill sets the items of a list to shallow copies of objects. Typed items have no kind, as in the responses of
// kube-apiserver.
func fill(items reflect.Value, objects []*object) error {
	filled := reflect.MakeSlice(items.Type(), len(objects), len(objects))
	for i, o := range objects {
		if err := setItem(filled.Index(i), o); err != nil {
			return err
		}
	}
	items.Set(filled)
	return nil
}

// setItem sets an item of a list.
func setItem(item reflect.Value, o *object) error {
	from := reflect.ValueOf(o.Object).Elem()
	if from.Type() != item.Type() {
		return fmt.Errorf("cannot put %s into a list of %s", from.Type(), item.Type())
	}
	if _, ok := o.Object.(runtime.Unstructured); ok {
		item.Set(reflect.ValueOf(o.shallow()).Elem())
		return nil
	}
	item.Set(from)
	item.Addr().Interface().(runtime.Object).GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return nil
}

// reader returns what a request with a resource version reads. Without a version, it reads the latest state. Any state will do for
// "0", and a state of at least the version for others, so the replica of the backend will if it has the version. Otherwise,
// reader waits for the version.
//
//upstream:k8s.io/apiserver/pkg/storage/cacher/delegator.ShouldDelegateList
func (s *Store) reader(ctx context.Context, version string) (storage.Reader, error) {
	revision, err := s.versioner.ParseResourceVersion(version)
	if err != nil || version == "" {
		return s.backend, err
	}
	replica := storage.Replica(s.backend)
	if latest, _, err := replica.Revisions(ctx); err == nil && latest >= revision {
		return replica, nil
	}
	return s.backend, s.await(ctx, revision)
}

// await waits up to freshnessTimeout for a revision of the backend.
//
//upstream:k8s.io/apiserver/pkg/storage/cacher.watchCache.waitUntilFreshLocked
func (s *Store) await(ctx context.Context, revision uint64) error {
	if revision == 0 {
		return nil
	}
	latest, _, err := s.backend.Revisions(ctx)
	if err != nil || latest >= revision {
		return fromBackend(s.prefix, err)
	}
	w, err := s.backend.Watch(ctx, "", latest)
	if err != nil {
		return fromBackend(s.prefix, err)
	}
	defer w.Close()
	timer := time.NewTimer(freshnessTimeout)
	defer timer.Stop()
	for {
		_, latest, err := w.Next()
		if err != nil || latest >= revision {
			return fromBackend(s.prefix, err)
		}
		select {
		case <-w.Ready():
		case <-ctx.Done():
			return apistorage.NewTooLargeResourceVersionError(revision, latest, retryAfter)
		case <-timer.C:
			return apistorage.NewTooLargeResourceVersionError(revision, latest, retryAfter)
		}
	}
}
