package resource

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestBounded(t *testing.T) {
	errsAt := func(n int, path string) (errs field.ErrorList) {
		for i := range n {
			errs = append(errs, field.Required(field.NewPath(path).Index(i), ""))
		}
		return errs
	}
	for _, tc := range []struct {
		name       string
		errs       field.ErrorList
		first, all int
	}{
		{"none", nil, 0, 0},
		{"few", errsAt(1000, "a"), 1000, 1000},
		{"many", errsAt(5000, "a"), 1000, 5000},
		{"one with a long path", errsAt(1, strings.Repeat("a", 2<<20)), 1, 1},
		{"long paths", errsAt(100, strings.Repeat("a", 500<<10)), 2, 100},
	} {
		got := Bounded(tc.errs)
		if tc.first == tc.all {
			if len(got) != tc.all {
				t.Errorf("%s: %d of %d errors", tc.name, len(got), tc.all)
			}
			continue
		}
		if len(got) != tc.first+1 || !strings.Contains(got[tc.first].Error(), fmt.Sprintf("has %d errors", tc.all)) {
			t.Errorf("%s: %d errors, want %d; the last is %.200s", tc.name, len(got), tc.first+1, got[len(got)-1])
		}
	}
}
