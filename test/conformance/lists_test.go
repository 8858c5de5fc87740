package conformance

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
	conformancetestdata "k8s.io/kubernetes/test/conformance/testdata"
)

// The lists of specs.
const (
	passingFile  = "passing.txt"
	excludedFile = "excluded.txt"
)

// conformanceSpecs returns the names of all conformance tests.
func conformanceSpecs(t *testing.T) []string {
	t.Helper()
	source := conformancetestdata.GetConformanceTestdataFS()
	text, err := source.EmbeddedFS.ReadFile("conformance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Codename string `yaml:"codename"`
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, spec := range all {
		names = append(names, spec.Codename)
	}
	return names
}

// readPassing returns the durations of the specs that pass, in seconds.
func readPassing(t *testing.T) map[string]float64 {
	t.Helper()
	passing := map[string]float64{}
	for line := range lines(t, passingFile) {
		duration, name, _ := strings.Cut(line, " ")
		seconds, err := strconv.ParseFloat(duration, 64)
		if err != nil || name == "" {
			t.Fatalf("%s: %q is not a duration and a name", passingFile, line)
		}
		if _, ok := passing[name]; ok {
			t.Errorf("%s: %s is there twice", passingFile, name)
		}
		passing[name] = seconds
	}
	return passing
}

// writePassing writes the durations of the specs that pass.
func writePassing(t *testing.T, passing map[string]float64) {
	t.Helper()
	var text strings.Builder
	names := make([]string, 0, len(passing))
	for name := range passing {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&text, "%.1f %s\n", passing[name], name)
	}
	if err := os.WriteFile(passingFile, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

// removeExcluded removes the specs that pass from the list of the others, and reasons without a spec.
func removeExcluded(t *testing.T, passing map[string]float64) {
	t.Helper()
	text, err := os.ReadFile(excludedFile)
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for group := range strings.SplitSeq(string(text), "\n\n") {
		var kept []string
		for line := range strings.Lines(group) {
			line = strings.TrimSuffix(line, "\n")
			if _, passes := passing[line]; !passes && line != "" {
				kept = append(kept, line)
			}
		}
		if len(kept) > 1 {
			groups = append(groups, strings.Join(kept, "\n")+"\n")
		}
	}
	if err := os.WriteFile(excludedFile, []byte(strings.Join(groups, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
}

// readExcluded returns the reasons of the specs that do not pass.
func readExcluded(t *testing.T) map[string]string {
	t.Helper()
	excluded := map[string]string{}
	reason := ""
	for line := range lines(t, excludedFile) {
		if text, ok := strings.CutPrefix(line, "# "); ok {
			reason = text
			continue
		}
		if reason == "" {
			t.Fatalf("%s: %s has no reason", excludedFile, line)
		}
		if _, ok := excluded[line]; ok {
			t.Errorf("%s: %s is there twice", excludedFile, line)
		}
		excluded[line] = reason
	}
	return excluded
}

// lines returns the lines of a file that are not empty.
func lines(t *testing.T, file string) func(func(string) bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string) bool) {
		for scanner := bufio.NewScanner(strings.NewReader(string(text))); scanner.Scan(); {
			if line := scanner.Text(); line != "" && !yield(line) {
				return
			}
		}
	}
}

// TestLists checks that each conformance test is in one list.
func TestLists(t *testing.T) {
	passing, excluded := readPassing(t), readExcluded(t)
	all := conformanceSpecs(t)
	for _, name := range all {
		_, passes := passing[name]
		switch reason := excluded[name]; {
		case passes && reason != "":
			t.Errorf("%s is in both lists", name)
		case !passes && reason == "":
			t.Errorf("%s is in no list", name)
		}
	}
	for _, list := range []func(func(string) bool){keys(passing), keys(excluded)} {
		for name := range list {
			if !slices.Contains(all, name) {
				t.Errorf("%s is no conformance test", name)
			}
		}
	}
	t.Logf("%d of %d conformance tests pass", len(passing), len(all))
}

func keys[K cmp.Ordered, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
