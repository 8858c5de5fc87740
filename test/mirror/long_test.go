package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	_ "flyball.dev/internal/orphans"
	"flyball.dev/test/mirror/references"
)

const (
	// longLines is the number of lines that a function of the mirrored trees has at most without a directive.
	longLines = 14
	// longFile has the number of longer functions that each package is allowed. A number can only fall.
	longFile = "long.txt"
)

// TestLong checks that each function of more than 14 lines in the mirrored trees names what it mirrors, or says why it mirrors nothing,
// but for as many as a package is allowed.
func TestLong(t *testing.T) {
	long := map[string][]string{}
	for _, tree := range trees {
		found, err := references.Long(root, tree, longLines)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(long, found)
	}
	allowed, err := readAllowances(longFile)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		lower(allowed, long)
		if err := writeAllowances(longFile, allowed); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range disallowed(allowed, long) {
		t.Error(err)
	}
}

// TestDisallowed checks what TestLong finds, and that an allowance only falls.
func TestDisallowed(t *testing.T) {
	long := map[string][]string{"more": {"a", "b"}, "less": {"c"}, "new": {"d"}, "equal": {"e"}}
	allowed := map[string]int{"more": 1, "less": 2, "equal": 1, "done": 1}
	check := func(want ...string) {
		t.Helper()
		var got []string
		for _, err := range disallowed(allowed, long) {
			first, _, _ := strings.Cut(err.Error(), ",")
			got = append(got, first)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	tooMany := []string{"package more has 2 functions of more than 14 lines without //upstream:", "package new has 1 functions of more than 14 lines without //upstream:"}
	check("package done has 0 functions of more than 14 lines without //upstream:", "package less has 1 functions of more than 14 lines without //upstream:", tooMany[0], tooMany[1])
	lower(allowed, long)
	check(tooMany...)
	if want := map[string]int{"more": 1, "less": 1, "equal": 1}; !maps.Equal(allowed, want) {
		t.Errorf("got %v, want %v", allowed, want)
	}
}

// disallowed returns an error for each package that has another number of long functions than it is allowed.
func disallowed(allowed map[string]int, long map[string][]string) []error {
	all := maps.Clone(allowed)
	for pkg := range long {
		all[pkg] += 0
	}
	var wrong []error
	for _, pkg := range slices.Sorted(maps.Keys(all)) {
		n := len(long[pkg])
		has := fmt.Sprintf("package %s has %d functions of more than %d lines without //upstream:, and is allowed %d", pkg, n, longLines, all[pkg])
		switch {
		case n > all[pkg]:
			wrong = append(wrong, fmt.Errorf("%s; name what a function mirrors, or why it mirrors nothing:\n\t%s", has, strings.Join(long[pkg], "\n\t")))
		case n < all[pkg]:
			wrong = append(wrong, fmt.Errorf("%s; lower it with -update", has))
		}
	}
	return wrong
}

// lower lowers allowances to the numbers of long functions.
func lower(allowed map[string]int, long map[string][]string) {
	for pkg, n := range allowed {
		if allowed[pkg] = min(n, len(long[pkg])); allowed[pkg] == 0 {
			delete(allowed, pkg)
		}
	}
}

// readAllowances reads lines of a package and a number.
func readAllowances(file string) (map[string]int, error) {
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	allowed := map[string]int{}
	for line := range strings.Lines(string(content)) {
		var pkg string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d\n", &pkg, &n); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, line, err)
		}
		allowed[pkg] = n
	}
	return allowed, nil
}

// writeAllowances writes what readAllowances reads, sorted.
func writeAllowances(file string, allowed map[string]int) error {
	var text strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(allowed)) {
		fmt.Fprintf(&text, "%s %d\n", pkg, allowed[pkg])
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}
