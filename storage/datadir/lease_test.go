package datadir

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"flyball.dev/storage"
)

// leases describes the leases of a store: their time to live and their keys.
func leases(t testing.TB, s storage.Lessor) map[int64]string {
	t.Helper()
	all, err := s.Leases(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := map[int64]string{}
	for _, l := range all {
		if left := time.Until(l.Expires); left <= 0 || left > l.TTL {
			t.Errorf("lease %d has %v left of %v", l.ID, left, l.TTL)
		}
		_, keys, err := s.Lease(ctx, l.ID)
		if err != nil {
			t.Fatal(err)
		}
		found[l.ID] = fmt.Sprint(l.TTL, keys)
	}
	return found
}

// TestLeasesSurvive opens a store again and again, from its log, from a snapshot, and from both.
func TestLeasesSurvive(t *testing.T) {
	for name, o := range map[string]Options{
		"log":          {},
		"log files":    {LogFile: 1},
		"snapshots":    {SnapshotAfter: 1},
		"both":         {LogFile: 1 << 10, SnapshotAfter: 2 << 10},
		"a lease each": {LogFile: 600, SnapshotAfter: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			want := map[int64]string{}
			for round := range 5 {
				s, err := Open(dir, o)
				if err != nil {
					t.Fatal(err)
				}
				if got := leases(t, s); !reflect.DeepEqual(got, want) {
					t.Errorf("round %d: the leases are %v, want %v", round, got, want)
				}
				for i := range int64(20) {
					id := int64(round)*100 + i + 1
					if _, err := s.Grant(ctx, -id, time.Duration(id)*time.Minute); err != nil {
						t.Fatal(err)
					}
					switch i % 4 {
					case 0:
						if _, err := s.Revoke(ctx, -id); err != nil {
							t.Fatal(err)
						}
					case 1:
						for _, key := range []string{"a", "b"} {
							w := storage.Write{Key: fmt.Sprint(key, "/", id), Value: []byte("1"), Lease: -id}
							if _, err := s.Put(ctx, w); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				if round > 0 { // a lease with records from an earlier round
					if _, err := s.Revoke(ctx, -int64(round-1)*100-2); err != nil {
						t.Fatal(err)
					}
				}
				want = leases(t, s)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := leases(t, s); !reflect.DeepEqual(got, want) || len(got) != 5*15-4 {
				t.Errorf("the leases are %v, want %v", got, want)
			}
			page, err := s.Range(ctx, storage.Query{Path: "a/"})
			if err != nil || len(page.Records) != 5*5-4 {
				t.Errorf("%d records, %v", len(page.Records), err)
			}
		})
	}
}
