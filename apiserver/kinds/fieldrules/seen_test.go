package fieldrules

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestSeen(t *testing.T) {
	var s Seen[int]
	for round := range 2 {
		for i := range 1000 {
			if s.Has(i) != (round == 1) || s.Add(i) != (round == 0) {
				t.Fatalf("round %d: element %d", round, i)
			}
		}
	}
}

// TestSeenIndexesLongLists: no element of a long list is compared with all before it.
func TestSeenIndexesLongLists(t *testing.T) {
	var s Seen[string]
	for i := range len(s.few) + 1 {
		if s.many != nil {
			t.Fatalf("%d elements are indexed", i)
		}
		s.Add(strings.Repeat("x", i))
	}
	if len(s.many) != len(s.few)+1 {
		t.Errorf("%d of %d elements are indexed", len(s.many), len(s.few)+1)
	}
}

func TestSeenDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		var s Seen[string]
		for _, name := range [...]string{"a", "b", "c", "a"} {
			s.Add(name)
		}
	}); n > 0 {
		t.Errorf("a short list takes %.0f allocations", n)
	}
}

// TestListsAreNotComparedPairwise: no validation searches the elements before one for an equal one.
func TestListsAreNotComparedPairwise(t *testing.T) {
	pairwise := regexp.MustCompile(`(Contains|ContainsFunc|Index|IndexFunc)\([\w.]+\[(:\w+|\w+\+1:)\]|range [\w.]+\[:[ij]\]`)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range pairwise.FindAll(text, -1) {
			t.Errorf("%s: %s: use fieldrules.Seen", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
