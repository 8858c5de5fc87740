package storage_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// flaky is a store that fails the first watches.
type flaky struct {
	storage.Store
	failures int
	err      error
}

func (f *flaky) Watch(ctx context.Context, path string, after uint64) (storage.Watcher, error) {
	if f.failures--; f.failures >= 0 {
		return nil, f.err
	}
	return f.Store.Watch(ctx, path, after)
}

func TestRewatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		defer s.Close()
		start := time.Now()
		w, err := storage.Rewatch(t.Context(), &flaky{Store: s, failures: 3, err: errors.New("no connection")}, "a/")
		if err != nil || time.Since(start) != 3*time.Second {
			t.Fatalf("after %s: %v", time.Since(start), err)
		}
		w.Close()
		if _, err := storage.Rewatch(t.Context(), &flaky{Store: s, failures: 1, err: storage.ErrClosed}, "a/"); !errors.Is(err, storage.ErrClosed) {
			t.Errorf("a store that is closed: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := storage.Rewatch(ctx, &flaky{Store: s, failures: 1000, err: errors.New("no connection")}, "a/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a store that stays away: %v", err)
		}
	})
}
