package memory_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestTransactReadsUndoneWrite has a transaction read a write that the journal then refuses. The transaction must not
// return before, and its last call must not see the write.
func TestTransactReadsUndoneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := make(chan struct{})
		s := memory.New(memory.Options{Journal: &journal{before: func([]*storage.Event) error {
			<-refuse
			return errFull
		}}})
		defer s.Close()
		go func() {
			if _, err := s.Put(t.Context(), storage.Write{Key: "a"}); !errors.Is(err, errFull) {
				t.Errorf("Put: %v", err)
			}
		}()
		synctest.Wait()
		var seen []int
		go func() {
			_, err := s.Transact(t.Context(), func(v storage.View) ([]storage.Write, error) {
				page, err := v.Range(storage.Query{Start: "a", End: "b"})
				seen = append(seen, len(page.Records))
				return nil, err
			})
			if err != nil {
				t.Errorf("Transact: %v", err)
			}
			seen = append(seen, -1)
		}()
		synctest.Wait()
		if !slices.Equal(seen, []int{1}) {
			t.Fatalf("before the write is settled: %d", seen)
		}
		close(refuse)
		synctest.Wait()
		if !slices.Equal(seen, []int{1, 0, -1}) {
			t.Errorf("afterwards: %d", seen)
		}
	})
}
