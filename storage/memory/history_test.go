package memory_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestHistorySize: the history grows with writes, is bounded, and is empty some time after the last write.
func TestHistorySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, value = 64 << 10, 1 << 10
		s := memory.New(memory.Options{History: bound, Retention: time.Minute})
		defer s.Close()
		if got := s.HistorySize(); got != 0 {
			t.Errorf("the history of an empty store has %d bytes", got)
		}
		most := 0
		for i := range 500 {
			data := make([]byte, value)
			copy(data, fmt.Sprint(i))
			if _, err := s.Put(t.Context(), storage.Write{Key: "/a", Value: data, If: storage.Any}); err != nil {
				t.Fatal(err)
			}
			most = max(most, s.HistorySize())
			if i == 20 && most < 20*value {
				t.Errorf("after %d writes, the history has %d bytes", i, most)
			}
		}
		if most > 2*bound {
			t.Errorf("the history had %d bytes", most)
		}
		time.Sleep(66 * time.Second)
		synctest.Wait()
		if got := s.HistorySize(); got != 0 {
			t.Errorf("after the retention, the history has %d bytes", got)
		}
	})
}
