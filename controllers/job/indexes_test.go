package job

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestParseIndexes(t *testing.T) {
	for _, tt := range []struct {
		list        string
		completions int
		want        string
	}{
		{"", 5, ""}, {"1", 5, "1"}, {"1,2", 5, "1,2"}, {"1-3", 5, "1-3"}, {"0,2-4", 5, "0,2-4"}, {"1,2,3", 5, "1-3"},
		{"3-9", 5, "3,4"}, {"7", 5, ""}, {"4-7,9", 5, "4"}, {"x,1-y,3", 5, "3"}, {"3,1", 5, "1,3"}, {"0-99999", 100_000, "0-99999"},
	} {
		if got := parseIndexes(tt.list, tt.completions).String(); got != tt.want {
			t.Errorf("%q up to %d: %q, want %q", tt.list, tt.completions, got, tt.want)
		}
	}
}

// TestIndexesAgainstModel compares with sets of numbers.
func TestIndexesAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const size = 20
	some := func() (list []int, set [size]bool) {
		for range random.IntN(size) {
			n := random.IntN(size)
			list, set[n] = append(list, n), true
		}
		return list, set
	}
	for range 2000 {
		aList, a := some()
		bList, b := some()
		x, y := indexesOf(aList...), indexesOf(bList...)
		union := x.union(y)
		count, common := 0, 0
		var missing []int
		for n := range size {
			if x.has(n) != a[n] || union.has(n) != (a[n] || b[n]) {
				t.Fatalf("%v and %v: wrong about %d in %v or %v", aList, bList, n, x, union)
			}
			if a[n] {
				count++
			} else if len(missing) < 3 {
				missing = append(missing, n)
			}
			if a[n] && b[n] {
				common++
			}
		}
		if x.count() != count || x.common(y) != common || !slices.Equal(x.missing(3, size), missing) {
			t.Fatalf("%v and %v: %d, %d in common, %v missing", x, y, x.count(), x.common(y), x.missing(3, size))
		}
		if again := parseIndexes(x.String(), size); !slices.Equal(again, x) {
			t.Fatalf("%v becomes %v", x, again)
		}
	}
}
