package apiextensions

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var (
	update = flag.Bool("update", false, "rewrite failing.txt")
	only   = flag.String("only", "", "run only the tests that match this regular expression")
)

const (
	list     = "failing.txt"
	unstated = "to be replaced by the reason"
	// notRun begins the reasons of tests that cannot apply.
	notRun = "not run"
)

func TestAPIExtensions(t *testing.T) {
	s, err := newScratch()
	if err != nil {
		t.Fatal(err)
	}
	known := readList(t)
	var without []string
	for test, reason := range known {
		if strings.HasPrefix(reason, notRun) {
			without = append(without, test)
		}
	}
	ran, err := s.run(*only, without)
	if err != nil {
		t.Fatal(err)
	}
	if *only == "" && len(ran) < 500 {
		t.Fatalf("only %d tests were found", len(ran))
	}
	compare(t, known, ran)
}

// compare reports the differences between the results and failing.txt, or with -update writes it.
func compare(t *testing.T, known map[string]string, ran results) {
	t.Helper()
	current := map[string]string{} // reasons by test
	failed := 0
	for _, test := range slices.Sorted(maps.Keys(ran)) {
		reason, listed := known[test]
		failure := ran[test]
		switch {
		case failure == "" && !listed:
			continue
		case failure == "" && !strings.HasPrefix(reason, "flaky"):
			if !*update {
				t.Errorf("no longer fails: %s", test)
			}
			continue
		case !listed:
			reason = unstated
			if !*update {
				t.Errorf("fails: %s\n%s", test, failure)
			}
		}
		if failure != "" {
			failed++
		}
		current[test] = reason
	}
	for test, reason := range known {
		if _, ok := ran[test]; ok {
			continue
		}
		if *only != "" || strings.HasPrefix(reason, notRun) {
			current[test] = reason
		} else if !*update {
			t.Errorf("there is no such test: %s", test)
		}
	}
	t.Logf("%d tests, of which %d fail", len(ran), failed)
	if *update {
		writeList(t, current)
	}
}

// readList returns the reason of each test in failing.txt.
func readList(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	known, reason := map[string]string{}, ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "# "); ok {
			if reason = heading; reason == unstated && !*update {
				t.Errorf("%s has tests below the heading %q", list, unstated)
			}
		} else if line != "" {
			known[line] = reason
		}
	}
	return known
}

func writeList(t *testing.T, current map[string]string) {
	t.Helper()
	byReason := map[string][]string{}
	for test, reason := range current {
		byReason[reason] = append(byReason[reason], test)
	}
	var out strings.Builder
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		slices.Sort(byReason[reason])
		fmt.Fprintf(&out, "# %s\n%s\n\n", reason, strings.Join(byReason[reason], "\n"))
	}
	if err := os.WriteFile(list, []byte(strings.TrimSpace(out.String())+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
