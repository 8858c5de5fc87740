package fieldrules

import (
	"strings"
	"testing"
)

func TestLabelNames(t *testing.T) {
	for name, ok := range map[string]bool{"web": true, "web-1": true, "1web": true, "web.a": false, strings.Repeat("a", 64): false} {
		if got := len(NameIsLabel(name, false)) == 0; got != ok {
			t.Errorf("%s: %v", name, got)
		}
	}
	if errs := NameIsLabel("web-", true); len(errs) > 0 {
		t.Errorf("a prefix may end in a dash: %v", errs)
	}
}

func TestPathSegmentNames(t *testing.T) {
	for name, ok := range map[string]bool{"system:admin": true, "A b": true, "a/b": false, "a%b": false, "..": false} {
		if got := len(NameIsPathSegment(name, false)) == 0; got != ok {
			t.Errorf("%q: %v", name, got)
		}
	}
}
