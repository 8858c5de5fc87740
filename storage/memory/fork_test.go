package memory_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

func fork(t testing.TB, s *memory.Store) *memory.Store {
	t.Helper()
	f, err := s.Fork()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestForkStore runs the suite on forks of an empty store.
func TestForkStore(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store {
		s := memory.New(memory.Options{})
		t.Cleanup(func() { s.Close() })
		return fork(t, s)
	})
}

// TestForks forks stores at random, and forks of forks, with random writes to each. All stores have what a model of
// theirs has, which is copied with each fork.
func TestForks(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 7))
		type world struct {
			store *memory.Store
			want  map[string]written
		}
		worlds := []*world{{memory.New(memory.Options{History: 8 << 10}), map[string]written{}}}
		put := func(s *memory.Store, want map[string]written, value string) {
			r, err := s.Put(t.Context(), storage.Write{Key: "/forked", Value: []byte(value), If: storage.Any})
			if err != nil {
				t.Fatal(err)
			}
			want[r.Key] = written{value, r.Revision}
		}
		for range 60 {
			w := worlds[random.IntN(len(worlds))]
			switch random.IntN(4) {
			case 0: // between writes to the same node, without a read, which would take a snapshot
				w.want = maps.Clone(w.want)
				put(w.store, w.want, "before")
				f := &world{fork(t, w.store), maps.Clone(w.want)}
				put(f.store, f.want, "of the fork")
				put(w.store, w.want, "after")
				worlds = append(worlds, f)
			case 1:
				latest, _, err := w.store.Revisions(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := w.store.Compact(t.Context(), latest); err != nil {
					t.Fatal(err)
				}
			default:
				writeSome(t, w.store, random)
				w.want = revisions(t, w.store)
			}
			for i, w := range worlds {
				if got := revisions(t, w.store); !maps.Equal(got, w.want) {
					t.Fatalf("seed %d: store %d has %v, want %v", seed, i, got, w.want)
				}
			}
		}
		for _, w := range worlds {
			if err := w.store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestForkIsIndependent replaces, compresses and compacts in one fork, and reads the same bytes in the others.
func TestForkIsIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{History: 8 << 10, Retention: time.Second, CompressAfter: time.Second})
		defer s.Close()
		value := func(i int) []byte { return []byte(strings.Repeat(fmt.Sprintf("value %d ", i), 200)) }
		for i := range 400 {
			if _, err := s.Put(t.Context(), storage.Write{Key: fmt.Sprintf("/registry/things/%03d", i), Value: value(i)}); err != nil {
				t.Fatal(err)
			}
		}
		forks := []*memory.Store{s, fork(t, s)}
		forks = append(forks, fork(t, forks[1]))
		for _, f := range forks[1:] {
			defer f.Close()
		}
		for turn, f := range forks {
			page, err := f.Range(t.Context(), storage.Query{})
			if err != nil || len(page.Records) != 400 {
				t.Fatalf("%d records, %v", len(page.Records), err)
			}
			for i, r := range page.Records {
				if !bytes.Equal(r.Value(), value(i)) {
					t.Fatalf("fork %d: %s is %.40q", turn, r.Key, r.Value())
				}
				if r.SetCached(f, i) != i || r.Cached(f) != i {
					t.Fatalf("fork %d: %s caches nothing, as if it were replaced", turn, r.Key)
				}
			}
			for i := range 400 {
				key := fmt.Sprintf("/registry/things/%03d", i)
				if i%2 == 0 {
					_, err = f.Delete(t.Context(), key, storage.Any)
				} else {
					_, err = f.Put(t.Context(), storage.Write{Key: key, Value: []byte("new"), If: storage.Any})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute) // compresses and compacts
			if latest, oldest, err := f.Revisions(t.Context()); latest != oldest || err != nil {
				t.Errorf("fork %d is compacted up to %d of %d, %v", turn, oldest, latest, err)
			}
		}
	})
}

// TestForkHistory watches and reads a fork: it begins at the revision of the fork.
func TestForkHistory(t *testing.T) {
	s := memory.New(memory.Options{})
	defer s.Close()
	first, err := s.Put(t.Context(), storage.Write{Key: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Put(t.Context(), storage.Write{Key: "/b"})
	if err != nil {
		t.Fatal(err)
	}
	parent, err := s.Watch(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	f := fork(t, s)
	defer f.Close()
	if _, err := f.Watch(t.Context(), "", first.Revision); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("a watch from before the fork: %v", err)
	}
	w, err := f.Watch(t.Context(), "", second.Revision)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	third, err := f.Put(t.Context(), storage.Write{Key: "/c"})
	if err != nil || third.Revision != second.Revision+1 {
		t.Fatalf("%+v, %v", third, err)
	}
	if events, _, err := w.Next(); len(events) != 1 || events[0].Record.Key != "/c" || err != nil {
		t.Errorf("the watcher of the fork gets %v, %v", events, err)
	}
	if events, _, err := parent.Next(); len(events) > 0 || err != nil {
		t.Errorf("the watcher of the parent gets %v, %v", events, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(t.Context(), "/a"); err != nil {
		t.Errorf("after the parent is closed: %v", err)
	}
	if _, err := s.Fork(); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a fork of a closed store: %v", err)
	}
}

// TestForkExpiry lets a record expire in each of two stores.
func TestForkExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		defer s.Close()
		for key, after := range map[string]time.Duration{"/a": time.Second, "/b": time.Hour} {
			if _, err := s.Put(t.Context(), storage.Write{Key: key, Expires: time.Now().Add(after)}); err != nil {
				t.Fatal(err)
			}
		}
		f := fork(t, s)
		defer f.Close()
		if _, err := s.Put(t.Context(), storage.Write{Key: "/b", If: storage.Any}); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			after time.Duration
			s, f  error
			what  string
		}{{2 * time.Second, nil, nil, "/b"}, {0, storage.ErrNotFound, storage.ErrNotFound, "/a"}, {2 * time.Hour, nil, storage.ErrNotFound, "/b"}} {
			time.Sleep(step.after)
			synctest.Wait()
			if _, err := s.Get(t.Context(), step.what); !errors.Is(err, step.s) {
				t.Errorf("%s in the parent: %v", step.what, err)
			}
			if _, err := f.Get(t.Context(), step.what); !errors.Is(err, step.f) {
				t.Errorf("%s in the fork: %v", step.what, err)
			}
		}
	})
}

// TestForkWhileWriting forks a store while others write to it and to its forks. A writer puts the same number under two
// keys in a transaction, so that each fork has the same numbers.
func TestForkWhileWriting(t *testing.T) {
	s := memory.New(memory.Options{History: 64 << 10, CompressAfter: time.Millisecond})
	defer s.Close()
	write := func(s *memory.Store, n, writer int) error {
		value := bytes.Repeat(fmt.Appendf(nil, "%d ", n), 300)
		_, err := s.Commit(t.Context(), []storage.Write{
			{Key: fmt.Sprintf("/a/%d", writer), Value: value, If: storage.Any}, {Key: fmt.Sprintf("/b/%d", writer), Value: bytes.Clone(value), If: storage.Any}})
		return err
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for writer := range 3 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := write(s, n, writer); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 100 {
		f := fork(t, s)
		page, err := f.Range(t.Context(), storage.Query{})
		if err != nil {
			t.Fatal(err)
		}
		half := len(page.Records) / 2
		for i, a := range page.Records[:half] {
			if b := page.Records[half+i]; !bytes.Equal(a.Value(), b.Value()) || a.Revision != b.Revision {
				t.Errorf("%s is %.10q and %s is %.10q", a.Key, a.Value(), b.Key, b.Value())
			}
		}
		for writer := range 3 {
			if err := write(f, -1, writer); err != nil {
				t.Error(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	writers.Wait()
}

// TestForkPending forks a store while its journal writes. The fork has the durable writes, whatever the journal returns in the end.
func TestForkPending(t *testing.T) {
	for name, failure := range map[string]error{"success": nil, "failure": errFull} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var block chan struct{}
				s := memory.New(memory.Options{Journal: &journal{before: func([]*storage.Event) error {
					if block == nil {
						return nil
					}
					<-block
					return failure
				}}})
				defer s.Close()
				if err := s.AddIndex(storage.Index{Name: "value", Of: func(r *storage.Record) string { return string(r.Value()) }}); err != nil {
					t.Fatal(err)
				}
				ctx := t.Context()
				expires := time.Now().Add(time.Hour)
				must := func(_ any, err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				for id := range int64(3) {
					must(s.Grant(ctx, id+1, time.Minute))
				}
				for _, key := range []string{"/a", "/b", "/c"} {
					must(s.Put(ctx, storage.Write{Key: key, Value: []byte("before"), Expires: expires}))
				}
				must(s.Put(ctx, storage.Write{Key: "/leased", Value: []byte("before"), Lease: 1}))
				must(s.Put(ctx, storage.Write{Key: "/moved", Value: []byte("before"), Lease: 2}))
				want := append(state(t, s), leaseLines(t, s)...)

				block = make(chan struct{})
				var writing sync.WaitGroup
				for i, write := range []func() error{
					func() error {
						_, err := s.Put(ctx, storage.Write{Key: "/a", Value: []byte("after"), If: storage.Any})
						return err
					},
					func() error { _, err := s.Delete(ctx, "/b", storage.Any); return err },
					func() error { _, err := s.Revoke(ctx, 1); return err },
					func() error { _, err := s.Grant(ctx, 4, time.Minute); return err },
					func() error {
						_, err := s.Put(ctx, storage.Write{Key: "/moved", Lease: 4, If: storage.Any})
						return err
					},
					func() error { _, err := s.Revoke(ctx, 3); return err },
					func() error { _, err := s.Put(ctx, storage.Write{Key: "/new", Value: []byte("before")}); return err },
				} {
					writing.Go(func() {
						if err := write(); !errors.Is(err, failure) {
							t.Errorf("write %d: %v", i, err)
						}
					})
					synctest.Wait() // the first one is in the journal, and the others wait
				}
				f := fork(t, s)
				defer f.Close()
				check := func(when string) {
					t.Helper()
					if got := append(state(t, f), leaseLines(t, f)...); !slices.Equal(got, want) {
						t.Errorf("%s, the fork has\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
					page, err := f.Range(ctx, storage.Query{Index: "value", Value: "before"})
					if err != nil || len(page.Records) != 5 {
						t.Errorf("%s, the index finds %d records, %v", when, len(page.Records), err)
					}
				}
				check("at first")
				close(block)
				writing.Wait()
				check("when the journal has returned")
				second := fork(t, s)
				defer second.Close()
				if got, want := append(state(t, second), leaseLines(t, second)...), append(state(t, s), leaseLines(t, s)...); !slices.Equal(got, want) {
					t.Errorf("another fork has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				time.Sleep(2 * time.Minute) // the leases end
				for _, key := range []string{"/leased", "/moved"} {
					if _, err := f.Get(ctx, key); !errors.Is(err, storage.ErrNotFound) {
						t.Errorf("after the end of its lease, %s: %v", key, err)
					}
				}
				time.Sleep(time.Hour)
				if page, err := f.Range(ctx, storage.Query{}); err != nil || len(page.Records) != 0 {
					t.Errorf("after an hour, the fork has %d records, %v", len(page.Records), err)
				}
			})
		})
	}
}

// leaseLines describes the leases of a store.
func leaseLines(t *testing.T, s *memory.Store) (lines []string) {
	t.Helper()
	leases, err := s.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		_, keys, err := s.Lease(t.Context(), l.ID)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("lease %d of %s until %v has %q", l.ID, l.TTL, l.Expires, keys))
	}
	slices.Sort(lines)
	return lines
}

func BenchmarkFork(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		s := memory.New(memory.Options{})
		for i := range n {
			if _, err := s.Put(b.Context(), storage.Write{Key: fmt.Sprintf("/registry/things/%06d", i)}); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f := fork(b, s)
				if _, err := f.Put(b.Context(), storage.Write{Key: "/registry/things/x"}); err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
		s.Close()
	}
}
