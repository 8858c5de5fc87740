package store

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/ctrl/client"
)

// Changed publishes objects before they are packed, up to a maximum, and Pack packs them. Readers
// that have an Object or a Snapshot from before can still read it, and it no longer holds the Go
// value.
func TestPackingIsDeferred(t *testing.T) {
	for _, sharing := range []Sharing{ShareOnDemand, ShareNone, ShareAll} {
		s := New(sharing)
		c := s.Scope("")
		obj := object("a", "u", 1)
		obj.Labels = map[string]string{"app": "web"}
		snapshot := c.Changed(obj).New
		if snapshot.Object() != client.Object(obj) {
			t.Fatal("the listeners are not given the object of the event")
		}
		old := s.records.get(key("a")).watched
		if !old.value.IsZero() {
			t.Fatal("the object is packed at once")
		}
		before, _ := s.Get(key("a"), false)
		snapshot = snapshot.Packed()

		c.Pack()
		if s.records.get(key("a")).watched.value.IsZero() || old.decoded.Load().object != nil {
			t.Fatal("the object is not packed, or its Go value is kept")
		}
		for _, got := range []client.Object{before.Copy(), before.Shared(), snapshot.Object(), get(s, key("a"), true)} {
			if !reflect.DeepEqual(got, client.Object(obj)) || got == client.Object(obj) {
				t.Fatalf("got %v", got)
			}
		}
		if before.version() != "1" || before.labels().Get("app") != "web" {
			t.Fatalf("version %s, labels %v", before.version(), before.labels())
		}
	}
}

func TestDeferredPackingIsBounded(t *testing.T) {
	s := New(ShareOnDemand)
	c := s.Scope("")
	for n := range 2 * maxPending {
		c.Changed(object(fmt.Sprint(n), "u", n+1))
	}
	pending := func() (count int) {
		s.records.all(func(r *record) {
			if r.watched.value.IsZero() {
				count++
			}
		})
		return count
	}
	if n := pending(); n != maxPending {
		t.Errorf("%d objects wait to be packed, want %d", n, maxPending)
	}
	if c.Pack(); pending() != 0 || c.pending.len() != 0 {
		t.Errorf("%d objects are not packed", pending())
	}
}

// Objects are packed some time after the events, also if nothing else happens.
func TestPackedAfterSomeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(ShareOnDemand)
		c := s.Scope("")
		isPacked := func() bool {
			synctest.Wait()
			s.mu.RLock()
			defer s.mu.RUnlock()
			return !s.records.get(key("a")).watched.value.IsZero()
		}
		for n := range 3 {
			c.Changed(object("a", "u", n+1))
			if time.Sleep(packAfter - time.Nanosecond); isPacked() {
				t.Fatal("the object is packed at once")
			}
			if time.Sleep(time.Nanosecond); !isPacked() {
				t.Fatal("the object is not packed")
			}
		}
	})
}

// An object that is superseded or deleted before it is packed is not packed.
func TestSupersededBeforePacking(t *testing.T) {
	s := New(ShareOnDemand)
	c := s.Scope("")
	c.Changed(object("a", "u", 1))
	c.Changed(object("a", "u", 2))
	c.Changed(object("b", "v", 3))
	c.Deleted(object("b", "v", 4))
	c.Pack()
	if got := get(s, key("a"), true); got.GetResourceVersion() != "2" {
		t.Errorf("got version %s", got.GetResourceVersion())
	}
	c.Deleted(object("a", "u", 5))
	if s.packing.size != 0 || s.records.count != 0 {
		t.Errorf("%d bytes of %d objects are left", s.packing.size, s.records.count)
	}
}

func TestReadersWhileIdle(t *testing.T) {
	s := New(ShareOnDemand)
	c := s.Scope("")
	objects := make(chan Object)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for o := range objects {
				for range 20 {
					version := o.version()
					if got := o.Copy().GetResourceVersion(); got != version {
						t.Errorf("got version %s, want %s", got, version)
					}
					if got := o.Shared().GetResourceVersion(); got != version {
						t.Errorf("shared is version %s, want %s", got, version)
					}
				}
			}
		})
	}
	for n := range 500 {
		c.Changed(object("a", "u", n+1))
		o, _ := s.Get(key("a"), false)
		objects <- o
		objects <- o
		c.Pack()
	}
	close(objects)
	readers.Wait()
}
