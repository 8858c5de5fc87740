package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestLoaderExpiry loads the writes of a journal, in which records have expired and were deleted. The store must not delete
// them a second time, neither before the journal does nor in its place.
func TestLoaderExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.NewLoader(memory.Options{})
		l.Record(storage.Record{Key: "snapshot", Created: 2, Revision: 2, Version: 1, Expires: time.Now().Add(-time.Hour)}, nil)
		l.At(2)
		commit := func(w storage.Write) {
			t.Helper()
			if err := l.Commit([]storage.Write{w}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // virtual
			synctest.Wait()
		}
		commit(storage.Write{Key: "soon", Expires: time.Now().Add(time.Second)})
		commit(storage.Write{Key: "other", Expires: time.Now().Add(-time.Second)})
		commit(storage.Write{Key: "snapshot", Delete: true, If: storage.Any})
		commit(storage.Write{Key: "soon", Delete: true, If: storage.Any})
		if l.Revision() != 6 || l.Len() != 1 {
			t.Errorf("%d records at revision %d", l.Len(), l.Revision())
		}
		s := l.Store() // from now on, the store deletes what has expired
		defer s.Close()
		time.Sleep(time.Microsecond) // virtual
		synctest.Wait()
		if page, err := s.Range(t.Context(), storage.Query{}); err != nil || len(page.Records) != 0 || page.Revision != 7 {
			t.Errorf("%+v, %v", page, err)
		}
	})
}
