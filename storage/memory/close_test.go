package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestCloseDuringWrite closes a store while its journal writes. Close waits for the journal, and each writer is told what
// the journal has.
func TestCloseDuringWrite(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			entered, release := make(chan struct{}), make(chan error)
			j := &journal{before: func([]*storage.Event) error {
				entered <- struct{}{}
				return <-release
			}}
			s := memory.New(memory.Options{Journal: j})
			results := map[string]chan error{"first": make(chan error, 1), "second": make(chan error, 1)}
			put := func(key string) {
				_, err := s.Put(t.Context(), storage.Write{Key: key, Value: []byte(key)})
				results[key] <- err
			}
			go put("first")
			<-entered
			go put("second")
			synctest.Wait()
			closed := make(chan error, 2)
			go func() { closed <- s.Close() }()
			go func() { closed <- s.Close() }()
			synctest.Wait()
			select {
			case err := <-closed:
				t.Fatalf("Close returns while the journal writes: %v", err)
			default:
			}
			var failure error
			if fails {
				failure = errors.New("the disk is gone")
			}
			release <- failure
			synctest.Wait()
			select { // the second batch, if it came before Close
			case <-entered:
				release <- nil
			default:
			}
			for range 2 {
				if err := <-closed; err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			loaded := j.load(t)
			defer loaded.Close()
			for key, result := range results {
				err := <-result
				_, got := loaded.Get(t.Context(), key)
				if (err == nil) != (got == nil) {
					t.Errorf("the write of %s returned %v, and the journal has it: %v", key, err, got == nil)
				}
				if key == "first" && !errors.Is(err, failure) {
					t.Errorf("the first write returned %v, want %v", err, failure)
				}
			}
			if _, err := s.Put(t.Context(), storage.Write{Key: "third"}); !errors.Is(err, storage.ErrClosed) {
				t.Errorf("a write afterwards: %v", err)
			}
		})
	}
}
