package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/internal/heaptest"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

// TestCompressAlways runs the suite, and programs, on a store with records that constantly become idle.
func TestCompressAlways(t *testing.T) {
	storagetest.Run(t, func(testing.TB) storage.Store { return memory.New(memory.Options{CompressAfter: time.Nanosecond}) })
	for seed := range byte(10) {
		s := memory.New(memory.Options{CompressAfter: time.Nanosecond, History: 8 << 8})
		program := make([]byte, 4000)
		for i := range program {
			program[i] = byte(i*i>>3)*7 + seed*byte(i) + byte(i>>8)
		}
		storagetest.Replay(t, s, program)
		s.Close()
	}
}

// text returns a value that resembles others, of about 2 KB.
func text(i, round int) []byte {
	return fmt.Appendf(nil, `{"name":"pod-%d","uid":"%032x","spec":"%s"}`, i, i*7919+round,
		strings.Repeat(fmt.Sprintf("image-%d,", i%7), 200))
}

// TestCompressModel writes, reads and waits at random, and compares the read values with a map.
func TestCompressModel(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			s := memory.New(memory.Options{History: 1 << 20, Retention: time.Minute, CompressAfter: 10 * time.Second})
			defer s.Close()
			model := map[string]string{}
			compressed := 0
			for step := range 4000 {
				i := random.IntN(500)
				key := fmt.Sprintf("/core/%s/ns/%d", []string{"pods", "configmaps"}[i%2], i)
				switch random.IntN(20) {
				default:
					value := text(i, step)
					put(t, s, storage.Write{Key: key, Value: value, If: storage.Any})
					model[key] = string(value)
				case 0:
					if _, err := s.Delete(t.Context(), key, storage.Any); (err == nil) != (model[key] != "") {
						t.Fatalf("Delete: %v", err)
					}
					delete(model, key)
				case 1, 2:
					r, err := s.Get(t.Context(), key)
					if errors.Is(err, storage.ErrNotFound) && model[key] == "" {
						continue
					}
					if err != nil || string(r.Value()) != model[key] {
						t.Fatalf("Get: %v, or another value", err)
					}
					if r.SetCached(s, key) != key || r.Cached(s) != key {
						t.Fatal("nothing can be cached with a record that was read")
					}
				case 3:
					page, err := s.Range(t.Context(), storage.Query{Path: "/core/"})
					if err != nil || len(page.Records) != len(model) {
						t.Fatalf("Range: %v, %d records, want %d", err, len(page.Records), len(model))
					}
					for _, r := range page.Records {
						if string(r.Value()) != model[r.Key] {
							t.Fatalf("%s has another value", r.Key)
						}
						if memory.IsCompressed(r) {
							compressed++
						}
					}
				case 4:
					time.Sleep(time.Duration(random.IntN(30)) * time.Second)
				}
			}
			if compressed < 1000 {
				t.Errorf("only %d of the values that were read were compressed", compressed)
			}
		})
	}
}

// TestCompressAfter checks when records become idle, and which reads wake them.
func TestCompressAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{CompressAfter: 10 * time.Second})
		defer s.Close()
		var records []*storage.Record
		for i := range 500 { // fewer bytes than make an early sweep
			r := put(t, s, storage.Write{Key: fmt.Sprintf("/core/pods/ns/%03d", i), Value: text(i, 0)})
			r.SetCached(s, i)
			records = append(records, r)
		}
		idle := func() (n int) {
			for _, r := range records {
				if memory.IsCompressed(r) && len(slices.Collect(keysOf(r))) == 0 {
					n++
				}
			}
			return n
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n := idle(); n > 0 {
			t.Errorf("%d records are idle after 9 seconds", n)
		}
		time.Sleep(3 * time.Second)
		if _, err := s.Get(t.Context(), records[0].Key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n := idle(); n != len(records)-1 {
			t.Errorf("%d of %d records are idle after 21 seconds", n, len(records))
		}
		page, err := s.Range(t.Context(), storage.Query{Path: "/core/pods/", Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			if r.SetCached(s, 1); r.Cached(s) == nil {
				t.Errorf("%s caches nothing although it was read", r.Key)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := idle(); n != len(records) {
			t.Errorf("%d of %d records are idle in the end", n, len(records))
		}
	})
}

func keysOf(r *storage.Record) func(func(any) bool) {
	return func(yield func(any) bool) {
		for owner := range r.AllCached() {
			if !yield(owner) {
				return
			}
		}
	}
}

// TestCompressConcurrently reads and writes while records become idle.
func TestCompressConcurrently(t *testing.T) {
	s := memory.New(memory.Options{CompressAfter: time.Microsecond})
	defer s.Close()
	var running sync.WaitGroup
	for worker := range 4 {
		running.Go(func() {
			for round := range 300 {
				i := (worker*31 + round*7) % 200
				r := put(t, s, storage.Write{Key: fmt.Sprintf("/core/pods/ns/%03d", i), Value: text(i, round), If: storage.Any})
				r.SetCached(s, string(r.Value()))
				page, err := s.Range(context.Background(), storage.Query{Path: "/core/pods/", Limit: 20})
				if err != nil {
					t.Error(err)
				}
				for _, r := range page.Records {
					value := string(r.Value())
					if cached, ok := r.Cached(s).(string); ok && cached != value {
						t.Errorf("%s has another value than is cached", r.Key)
					}
					if got := r.SetCached(s, value); got != value {
						t.Errorf("%s: cached %v", r.Key, got)
					}
				}
			}
		})
	}
	running.Wait()
}

// TestCompressedSize bounds the memory of an idle record with a value of 2 KB.
func TestCompressedSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		s := memory.New(memory.Options{CompressAfter: 10 * time.Second})
		defer s.Close()
		heap := heaptest.New(t, "flyball.dev/storage/memory.")
		for i := range n {
			put(t, s, storage.Write{Key: fmt.Sprintf("/core/pods/ns/%06d", i), Value: text(i, 0)})
		}
		time.Sleep(time.Hour) // the history is compacted too
		synctest.Wait()
		if size := heap.Held() / n; size > 400 {
			t.Errorf("a record takes %d bytes", size)
		}
		runtime.KeepAlive(s)
	})
}

// TestReplacedValuesAreCompressed expects that the history has large values compressed, and that a watcher reads them.
func TestReplacedValuesAreCompressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, rounds = 20, 4
		s := memory.New(memory.Options{CompressAfter: 10 * time.Second})
		defer s.Close()
		value := func(i, round int) []byte { return bytes.Repeat(text(i, round), 16) }
		var records []*storage.Record
		for round := range rounds {
			for i := range n {
				key := fmt.Sprintf("/registry/example.org/definitions/%02d", i)
				records = append(records, put(t, s, storage.Write{Key: key, Value: value(i, round), If: storage.Any}))
			}
			time.Sleep(13 * time.Second)
			synctest.Wait()
		}
		w, err := s.Watch(t.Context(), "/registry/example.org/", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		events, _, err := w.Next()
		if err != nil || len(events) != n*rounds {
			t.Fatalf("%d events, want %d: %v", len(events), n*rounds, err)
		}
		for i, e := range events {
			if !bytes.Equal(e.Record.Value(), value(i%n, i/n)) {
				t.Errorf("event %d has another value", i)
			}
		}
		for i, r := range records[:n*(rounds-1)] {
			if !memory.IsCompressed(r) {
				t.Errorf("replaced record %d is not compressed", i)
			}
		}
	})
}
