package memory

import (
	"testing"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/storagetest"
)

// TestLeaseClockJump grants leases as if the wall clock had been set since. Each expires after its time to live, and not with the
// wall clock.
func TestLeaseClockJump(t *testing.T) {
	const ttl = 50 * time.Millisecond
	for _, jump := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		s := New(Options{})
		defer s.Close()
		w, err := s.Watch(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		granted := time.Now()
		for id, ttl := range map[int64]time.Duration{1: ttl, 2: time.Hour, 3: time.Hour} {
			if _, err := s.Grant(t.Context(), id, ttl); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Put(t.Context(), storage.Write{Key: "soon", Lease: 1}); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		for _, id := range []int64{1, 2} {
			s.leases.byID[id].Expires = storagetest.Jumped(s.leases.byID[id].Expires, jump)
		}
		s.leases.arm(s)
		s.mu.Unlock()
		for deleted := false; !deleted; {
			events, _, err := w.Next()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				deleted = deleted || e.Type == storage.Deleted
			}
			if len(events) == 0 {
				<-w.Ready()
			}
		}
		if took := time.Since(granted); took < ttl {
			t.Errorf("the lease has expired after %v", took)
		}
		all, err := s.Leases(t.Context())
		if err != nil || len(all) != 2 {
			t.Errorf("leases: %+v, %v", all, err)
		}
		for _, id := range []int64{2, 3} {
			if l, err := s.Renew(t.Context(), id); err != nil || time.Until(l.Expires) > time.Hour {
				t.Errorf("Renew: %+v, %v", l, err)
			}
		}
	}
}

// TestLoadedClock loads records, which then expire by the monotonic clock.
func TestLoadedClock(t *testing.T) {
	l := NewLoader(Options{})
	at := time.Now().Round(0).Add(time.Hour) // a file has no monotonic reading
	l.Record(storage.Record{Key: "snapshot", Created: 2, Revision: 2, Version: 1, Expires: at}, nil)
	l.At(2)
	if err := l.Commit([]storage.Write{{Key: "log", Expires: at}}); err != nil {
		t.Fatal(err)
	}
	s := l.Store()
	defer s.Close()
	for _, key := range []string{"snapshot", "log"} {
		r, err := s.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		storagetest.Jumped(r.Expires, time.Hour) // panics without a monotonic reading
		if !r.Expires.Round(0).Equal(at) {
			t.Errorf("%s expires at %v, want %v", key, r.Expires, at)
		}
	}
}
