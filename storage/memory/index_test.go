package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/storage"
)

// byColor finds records by the first word of their values, unless it is "none".
var byColor = storage.Index{Name: "color", Path: "/things/", Of: func(r *storage.Record) string {
	color, _, _ := strings.Cut(string(r.Value()), " ")
	if color == "none" {
		return ""
	}
	return color
}}

// checkIndex compares the ranges by the index with the ranges of a path, at a revision.
func checkIndex(t *testing.T, s *Store, revision uint64) {
	t.Helper()
	for _, path := range []string{"/things/", "/things/a/", "/things/b/3", ""} {
		all, err := s.Range(t.Context(), storage.Query{Path: path, Revision: revision})
		if err != nil {
			t.Fatal(err)
		}
		for _, color := range []string{"red", "green", "blue", "black"} {
			var want []string
			for _, r := range all.Records {
				if storage.Covers(byColor.Path, r.Key) && byColor.Of(r) == color {
					want = append(want, fmt.Sprint(r.Key, " ", r.Revision))
				}
			}
			for _, limit := range []int{0, 2} {
				var got []string
				q := storage.Query{Path: path, Revision: revision, Index: "color", Value: color, Limit: limit}
				for {
					page, err := s.Range(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range page.Records {
						got = append(got, fmt.Sprint(r.Key, " ", r.Revision))
					}
					if len(got)+page.Remaining != len(want) {
						t.Fatalf("%d records of %s are %s, and %d remain, want %d", len(got), path, color, page.Remaining, len(want))
					}
					if page.Remaining == 0 {
						break
					}
					q.Start, q.Revision = page.Records[len(page.Records)-1].Key+"\x00", page.Revision
				}
				if !slices.Equal(got, want) {
					t.Fatalf("at revision %d, the records of %s that are %s are %v, want %v", revision, path, color, got, want)
				}
			}
		}
	}
}

// TestIndex makes random writes, compactions, checkpoints, resets and forks, and compares ranges by an index with ranges
// of the path: at the latest revision and at older ones, also of idle records.
func TestIndex(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			s := New(Options{CompressAfter: time.Second})
			stores := []*Store{s}
			defer func() {
				for _, s := range stores {
					s.Close()
				}
			}()
			late := random.IntN(100) // the index comes when there are records
			for i := range 300 {
				if i == late {
					for range 2 {
						if err := s.AddIndex(byColor); err != nil {
							t.Fatal(err)
						}
					}
				}
				key := fmt.Sprintf("/%s/%s/%d", []string{"things", "things", "others"}[random.IntN(3)], string(rune('a'+random.IntN(2))), random.IntN(6))
				color := []string{"red", "green", "blue", "none"}[random.IntN(4)]
				switch random.IntN(30) {
				case 0:
					latest, _, _ := s.Revisions(t.Context())
					s.Compact(t.Context(), latest-uint64(random.IntN(3)))
				case 1:
					s.Checkpoint()
				case 2:
					if s.checkpoint != nil {
						s.Reset()
					}
				case 3:
					f, err := s.Fork()
					if err != nil {
						t.Fatal(err)
					}
					stores = append(stores, f)
					if random.IntN(2) == 0 {
						s = f
					}
				case 4:
					time.Sleep(3 * time.Second) // records become idle
					synctest.Wait()
				case 5, 6, 7, 8, 9:
					_, err := s.Delete(t.Context(), key, storage.Any)
					if err != nil && !errors.Is(err, storage.ErrNotFound) {
						t.Fatal(err)
					}
				default:
					if _, err := s.Put(t.Context(), storage.Write{Key: key, Value: []byte(color + strings.Repeat(" thing", 20)), If: storage.Any}); err != nil {
						t.Fatal(err)
					}
				}
				if i < late {
					continue
				}
				latest, oldest, _ := s.Revisions(t.Context())
				checkIndex(t, s, 0)
				checkIndex(t, s, oldest+random.Uint64N(latest-oldest+1))
			}
			for _, s := range stores[:len(stores)-1] {
				if len(s.tree.indexes) > 0 {
					checkIndex(t, s, 0)
				}
			}
		})
	}
}

// TestIndexOfReplica: a replica that replaces its records keeps its indexes.
func TestIndexOfReplica(t *testing.T) {
	r := NewReplica(Options{})
	defer r.Close()
	if err := r.AddIndex(byColor); err != nil {
		t.Fatal(err)
	}
	if err := r.Apply(2, []storage.Write{{Key: "/things/a/1", Value: []byte("red")}, {Key: "/things/a/2", Value: []byte("blue")}}); err != nil {
		t.Fatal(err)
	}
	checkIndex(t, r.store, 0)
	if err := r.Replace(9, []storage.Record{{Key: "/things/a/1", Revision: 3}, {Key: "/things/b/3", Revision: 4}}, [][]byte{[]byte("green"), []byte("red")}); err != nil {
		t.Fatal(err)
	}
	checkIndex(t, r.store, 0)
	if _, err := r.Range(t.Context(), storage.Query{Path: "/things/", Index: "no such", Value: "x"}); !errors.Is(err, storage.ErrNoIndex) {
		t.Errorf("a range by an index that does not exist: %v", err)
	}
}
