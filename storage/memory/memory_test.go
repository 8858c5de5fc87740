package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storagetest.Run(t, func(testing.TB) storage.Store { return memory.New(memory.Options{}) })
}

// TestShortHistory runs the suite on a store that compacts itself all the time, so that what a slow
// reader can run into does happen.
func TestShortHistory(t *testing.T) {
	for seed := range byte(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := memory.New(memory.Options{History: 8 << 8})
			defer s.Close()
			program := make([]byte, 4000)
			for i := range program {
				program[i] = byte(i*i>>3)*7 + seed*byte(i) + byte(i>>8)
			}
			storagetest.Replay(t, s, program)
		})
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte("flyball"), 1000)
	f.Add([]byte{1, 0, 0, 7, 1, 8, 2, 1, 13, 0, 2, 14, 0, 15, 1}, 300)
	f.Fuzz(func(t *testing.T, program []byte, history int) {
		s := memory.New(memory.Options{History: history % (100 << 8)})
		defer s.Close()
		storagetest.Replay(t, s, program)
	})
}

// TestExpiry runs in virtual time: records go at the very moment they expire, in that order.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := memory.New(memory.Options{})
		defer s.Close()
		w, err := s.Watch(ctx, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		start := time.Now()
		for i := range 10 {
			hours := time.Duration(i*7%10+1) * time.Hour
			put(t, s, storage.Write{Key: fmt.Sprintf("k%d", i), Expires: start.Add(hours)})
		}
		put(t, s, storage.Write{Key: "k0", If: storage.Any, Expires: start.Add(20 * time.Hour)})
		w.Next()
		<-w.Ready()
		for _, hours := range []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 20} {
			<-w.Ready()
			events, _, err := w.Next()
			if err != nil || len(events) != 1 || events[0].Type != storage.Deleted {
				t.Fatalf("after %v: %d events, %v", time.Since(start), len(events), err)
			}
			if r := events[0].Record; time.Since(start) != time.Duration(hours)*time.Hour || !r.Expires.Equal(time.Now()) {
				t.Errorf("%s went after %v, want %d hours", r.Key, time.Since(start), hours)
			}
		}
	})
}

// TestLatePast checks that what has expired by the time it is written goes too.
func TestLatePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		defer s.Close()
		put(t, s, storage.Write{Key: "a", Expires: time.Now().Add(-time.Second)})
		synctest.Wait()
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
	})
}

func put(t testing.TB, s *memory.Store, w storage.Write) *storage.Record {
	t.Helper()
	r, err := s.Put(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
