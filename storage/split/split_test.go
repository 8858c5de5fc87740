package split_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/split"
	"flyball.dev/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// events is the path of the keys in the second store.
const events = "/registry/events/"

// open returns a store of two, and the two.
func open(t testing.TB) (s *split.Store, rest, other *memory.Store) {
	t.Helper()
	rest, other = memory.New(memory.Options{}), memory.New(memory.Options{})
	s, err := split.New(rest, split.Override{Paths: []string{events}, Store: other})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, rest, other
}

// owning is one of the stores, with the life of the whole.
type owning struct {
	storage.Store
	whole storage.Store
}

func (o owning) Close() error { return o.whole.Close() }

// TestPartition runs the suite of the contract on the store of all other keys.
func TestPartition(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store {
		s, _, _ := open(t)
		return owning{s.Partition("/registry/pods/"), s}
	})
}

func TestKeys(t *testing.T) {
	s, rest, other := open(t)
	ctx := t.Context()
	for _, key := range []string{"/registry/events/default/a", "/registry/pods/default/a", "/registry/events"} {
		if _, err := s.Put(ctx, storage.Write{Key: key, Value: []byte(key)}); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Get(ctx, key); err != nil || string(r.Value()) != key {
			t.Errorf("%s: %+v, %v", key, r, err)
		}
	}
	for _, c := range []struct {
		store storage.Store
		want  []string
	}{
		{rest, []string{"/registry/events", "/registry/pods/default/a"}},
		{other, []string{"/registry/events/default/a"}},
		{s.Partition(events), []string{"/registry/events/default/a"}},
		{s.Partition("/registry/events/default/"), []string{"/registry/events/default/a"}},
		{storage.Partition(s, "/registry/pods/"), []string{"/registry/events", "/registry/pods/default/a"}},
		{storage.Partition(rest, events), []string{"/registry/events", "/registry/pods/default/a"}},
	} {
		page, err := c.store.Range(ctx, storage.Query{})
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, r := range page.Records {
			keys = append(keys, r.Key)
		}
		if !slices.Equal(keys, c.want) {
			t.Errorf("the keys are %v, want %v", keys, c.want)
		}
	}
	// Each store has its own revisions.
	page, err := s.Range(ctx, storage.Query{Path: events})
	if err != nil || page.Revision != storage.First+1 || len(page.Records) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	if latest, _, err := s.Revisions(ctx); err != nil || latest != storage.First+2 {
		t.Errorf("the latest revision is %d, %v", latest, err)
	}
}

// TestWatch: a watch of one path has the events of its store.
func TestWatch(t *testing.T) {
	s, _, _ := open(t)
	ctx := t.Context()
	w, err := s.Watch(ctx, events, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, key := range []string{"/registry/pods/default/a", events + "a"} {
		if _, err := s.Put(ctx, storage.Write{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Delete(ctx, events+"a", storage.Any); err != nil {
		t.Fatal(err)
	}
	got, revision, err := w.Next()
	if err != nil || len(got) != 2 || revision != storage.First+2 {
		t.Errorf("%d events up to revision %d, %v", len(got), revision, err)
	}
}

// TestConditions writes with conditions on a record in the other store, in both directions.
func TestConditions(t *testing.T) {
	s, _, _ := open(t)
	ctx := t.Context()
	namespace, err := s.Put(ctx, storage.Write{Key: "/registry/namespaces/a"})
	if err != nil {
		t.Fatal(err)
	}
	event, err := s.Put(ctx, storage.Write{Key: events + "a/first"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		write storage.Write
		want  error
	}{
		"holds":                {storage.Write{Key: events + "a/x", Require: []storage.Condition{{Key: namespace.Key, If: namespace.Revision}}}, nil},
		"any":                  {storage.Write{Key: events + "a/y", Require: []storage.Condition{{Key: namespace.Key, If: storage.Any}}}, nil},
		"absent":               {storage.Write{Key: events + "a/z", Require: []storage.Condition{{Key: "/registry/namespaces/b"}}}, nil},
		"both stores":          {storage.Write{Key: events + "a/v", Require: []storage.Condition{{Key: namespace.Key, If: namespace.Revision}, {Key: event.Key, If: event.Revision}}}, nil},
		"other direction":      {storage.Write{Key: "/registry/pods/a/x", Require: []storage.Condition{{Key: event.Key, If: event.Revision}}}, nil},
		"fails":                {storage.Write{Key: events + "a/u", Require: []storage.Condition{{Key: namespace.Key, If: namespace.Revision + 1}}}, storage.ErrCondition},
		"own fails":            {storage.Write{Key: events + "a/t", Require: []storage.Condition{{Key: namespace.Key, If: namespace.Revision}, {Key: event.Key}}}, storage.ErrCondition},
		"not there":            {storage.Write{Key: events + "a/s", Require: []storage.Condition{{Key: "/registry/namespaces/b", If: 7}}}, storage.ErrCondition},
		"conflict comes first": {storage.Write{Key: event.Key, Require: []storage.Condition{{Key: namespace.Key}}}, storage.ErrConflict},
		"no record, conflict":  {storage.Write{Key: events + "a/r", If: 7, Require: []storage.Condition{{Key: namespace.Key}}}, storage.ErrConflict},
	} {
		before := contents(t, s)
		require := slices.Clone(c.write.Require)
		r, err := s.Put(ctx, c.write)
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if name == "conflict comes first" && (r == nil || r.Revision != event.Revision) {
			t.Errorf("%s: the current record is %+v", name, r)
		}
		if c.want != nil && !slices.Equal(before, contents(t, s)) {
			t.Errorf("%s: a refused write has changed the store", name)
		}
		if _, failed := s.Commit(ctx, []storage.Write{c.write}); c.want != nil && !errors.Is(failed, c.want) {
			t.Errorf("%s: Commit returns %v, want %v", name, failed, c.want)
		}
		if !slices.Equal(require, c.write.Require) {
			t.Errorf("%s: the write of the caller has changed", name)
		}
	}
}

// contents lists the keys of both stores.
func contents(t *testing.T, s *split.Store) (keys []string) {
	t.Helper()
	for _, path := range []string{events, "/registry/pods/"} {
		page, err := s.Partition(path).Range(t.Context(), storage.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			keys = append(keys, r.Key)
		}
	}
	return keys
}

// TestSeveral: what concerns both stores at once is refused, and changes nothing.
func TestSeveral(t *testing.T) {
	s, _, _ := open(t)
	ctx := t.Context()
	for name, f := range map[string]func() error{
		"range": func() error { _, err := s.Range(ctx, storage.Query{Path: "/registry/"}); return err },
		"watch": func() error { _, err := s.Watch(ctx, "", 0); return err },
		"commit": func() error {
			_, err := s.Commit(ctx, []storage.Write{{Key: "/registry/pods/a"}, {Key: events + "a"}})
			return err
		},
		"index": func() error {
			return s.AddIndex(storage.Index{Name: "n", Path: "/registry/", Of: func(*storage.Record) string { return "" }})
		},
	} {
		if err := f(); err == nil {
			t.Errorf("%s of several stores: no error", name)
		}
	}
	if keys := contents(t, s); len(keys) > 0 {
		t.Errorf("there are %v", keys)
	}
	records, err := s.Commit(ctx, []storage.Write{{Key: events + "a"}, {Key: events + "b"}})
	if err != nil || len(records) != 2 || records[0].Revision != records[1].Revision {
		t.Errorf("a transaction within a store: %v, %v", records, err)
	}
}

func TestRefusedPaths(t *testing.T) {
	rest := memory.New(memory.Options{})
	defer rest.Close()
	for _, paths := range [][]string{{""}, {"/registry/events"}, {events, events}, {"/registry/", events}, {events, "/registry/"}} {
		var overrides []split.Override
		for _, path := range paths {
			overrides = append(overrides, split.Override{Paths: []string{path}, Store: rest})
		}
		if _, err := split.New(rest, overrides...); err == nil {
			t.Errorf("%q: no error", paths)
		}
		if _, err := split.New(rest, split.Override{Paths: paths, Store: rest}); err == nil {
			t.Errorf("%q in one store: no error", paths)
		}
	}
}

// unhealthy is a store that cannot write.
type unhealthy struct{ storage.Store }

func (unhealthy) Healthy() error { return storage.ErrNoSpace }

func TestHealthy(t *testing.T) {
	s, _, _ := open(t)
	if err := s.Healthy(); err != nil {
		t.Error(err)
	}
	sick, err := split.New(memory.New(memory.Options{}), split.Override{Paths: []string{events}, Store: unhealthy{memory.New(memory.Options{})}})
	if err != nil {
		t.Fatal(err)
	}
	defer sick.Close()
	if err := sick.Healthy(); !errors.Is(err, storage.ErrNoSpace) {
		t.Errorf("one of the stores has no space: %v", err)
	}
	if _, err := sick.Get(context.Background(), "/registry/a"); !errors.Is(err, storage.ErrNotFound) {
		t.Error(err)
	}
}
