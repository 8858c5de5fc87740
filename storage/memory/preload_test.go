package memory

import (
	"bytes"
	"fmt"
	"testing"

	"flyball.dev/storage"
)

// TestPreload: values are what they were after they were preloaded, whether they are compressed, empty, or of a record of no store.
func TestPreload(t *testing.T) {
	s := New(Options{CompressAfter: 1})
	defer s.Close()
	for _, n := range []int{1, 15, 16, 17, 40} {
		var records []*storage.Record
		var want [][]byte
		for i := range n {
			value := bytes.Repeat([]byte(fmt.Sprint("value ", i, " ")), i)
			record := NewRecord(storage.Record{Key: "none"}, value)
			if i%3 > 0 {
				var err error
				if record, err = s.Put(t.Context(), storage.Write{Key: fmt.Sprintf("/a/b/%d", i), Value: value, If: storage.Any}); err != nil {
					t.Fatal(err)
				}
			}
			records, want = append(records, record), append(want, bytes.Clone(value))
		}
		s.sweep()
		s.sweep()
		records[0].Preload(records)
		for i, r := range records {
			if !bytes.Equal(r.Value(), want[i]) {
				t.Errorf("of %d values, %d is %q", n, i, r.Value())
			}
		}
	}
}
