package gotest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// List maps tests that are known to fail, or that are not run, to the reasons. With a reason that begins with "flaky",
// a test may also pass. In the file of a list, each test has a line below a heading, which is "# " and the reason.
type List map[string]string

// Unstated is the placeholder reason that Compare gives to new failures. A developer has to replace it.
const Unstated = "to be replaced by the reason"

// ReadList reads the file of a list.
func ReadList(path string) (List, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list, reason := List{}, ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "# "); ok {
			reason = heading
		} else if line != "" {
			list[line] = reason
		}
	}
	return list, nil
}

// Write writes the file of a list, ordered by reasons and names.
func (l List) Write(path string) error {
	byReason := map[string][]string{}
	for test, reason := range l {
		byReason[reason] = append(byReason[reason], test)
	}
	var out strings.Builder
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		slices.Sort(byReason[reason])
		fmt.Fprintf(&out, "# %s\n%s\n\n", reason, strings.Join(byReason[reason], "\n"))
	}
	return os.WriteFile(path, []byte(strings.TrimSpace(out.String())+"\n"), 0o644)
}

// Compare updates the list from results. It returns the updated list, and the differences in order. Tests without a
// result stay in the list if keep returns true.
func (l List) Compare(ran Results, keep func(test, reason string) bool) (current List, differences []string) {
	current = List{}
	for test, reason := range l {
		if reason == Unstated {
			differences = append(differences, fmt.Sprintf("%s: its reason is %q", test, Unstated))
		}
		if _, ok := ran[test]; ok {
			continue
		}
		if keep(test, reason) {
			current[test] = reason
		} else {
			differences = append(differences, "there is no such test: "+test)
		}
	}
	for test, failure := range ran {
		reason, listed := l[test]
		switch {
		case failure != "" && !listed:
			reason = Unstated
			differences = append(differences, fmt.Sprintf("fails: %s\n%s", test, failure))
		case failure == "" && listed && !strings.HasPrefix(reason, "flaky"):
			differences = append(differences, "no longer fails: "+test)
			continue
		case !listed:
			continue
		}
		current[test] = reason
	}
	slices.Sort(differences)
	return current, differences
}

// Failed returns the number of tests that failed.
func (r Results) Failed() (n int) {
	for _, failure := range r {
		if failure != "" {
			n++
		}
	}
	return n
}
