package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "flyball.dev/internal/orphans"
)

var objects = flag.Int("objects", 48000, "the largest number of writes of a kind")

// TestCoverage: the generated objects reach 80 % of Kubernetes's validation of each kind, and no function that unreachable.txt
// lists. Each entry of that list excludes a function that a kind would have to reach.
func TestCoverage(t *testing.T) {
	src, err := readKubernetes("..")
	if err != nil {
		t.Fatal(err)
	}
	results, err := src.measure("..", regexp.MustCompile(""), 3000, *objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range src.unused() {
		t.Errorf("unreachable.txt excludes nothing by %s", entry)
	}
	if len(results) < 60 {
		t.Errorf("%d kinds", len(results))
	}
	for _, r := range results {
		t.Log(r)
		for _, p := range r.problems() {
			t.Errorf("%s: %s", r.kind, p)
		}
	}
}

// sample is the source of a validation package.
const sample = `package validation

func ValidateA() {
	one()
}

func one() {
	two()
}

func two() {
	println()
}

func other() {
	for range 2 {
		two()
		println()
	}
	println()
}
`

// TestResult checks what the coverage of a kind is, and which results are not good enough.
func TestResult(t *testing.T) {
	const file = "example.com/pkg/apis/a/validation/v.go"
	at := func(line, statements, times int) block {
		return block{file: file, line: line, end: line, statements: statements, times: times}
	}
	for _, tt := range []struct {
		name, unreachable string
		blocks            []block
		reached, total    int
		problems          []string
	}{
		{"all", "", []block{at(4, 1, 1), at(8, 1, 1), at(12, 1, 1), at(16, 9, 0)}, 3, 3, nil},
		{"80 %", "", []block{at(4, 4, 1), at(8, 1, 0), at(12, 0, 0)}, 4, 5, nil},
		{"79 %", "", []block{at(4, 79, 1), at(12, 21, 0)}, 79, 100, []string{"less than 80 %"}},
		{"nothing", "", nil, 0, 0, []string{"no validation was found"}},
		{"nothing reached", "", []block{at(4, 1, 0)}, 0, 0, []string{"no validation was found"}},
		{"unreachable", "# No object has a two.\nas two", []block{at(4, 1, 1), at(8, 1, 1), at(12, 9, 0)}, 2, 2, nil},
		{"unreachable for another kind", "# No object has a two.\nbs two", []block{at(4, 4, 1), at(12, 1, 0)}, 4, 5, nil},
		{"loops", "# No object has twos.\nas other:loops", []block{at(15, 1, 1), at(17, 9, 0), at(20, 1, 1)}, 2, 2, nil},
		{"a loop", "", []block{at(15, 9, 1), at(17, 1, 0), at(20, 2, 1)}, 11, 12, nil},
		{"stale loops", "# No object has twos.\nas other:loops", []block{at(15, 1, 1), at(17, 9, 0), at(18, 1, 1)}, 1, 1,
			[]string{"example.com/pkg/apis/a/validation.other was reached, but unreachable.txt lists it"}},
		{"stale", "# No object has a two.\n.* two", []block{at(4, 1, 1), at(12, 8, 0), at(13, 1, 1)}, 1, 1,
			[]string{"example.com/pkg/apis/a/validation.two was reached, but unreachable.txt lists it"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := readSample(t)
			if err := s.readUnreachable(write(t, "unreachable.txt", tt.unreachable)); err != nil {
				t.Fatal(err)
			}
			r := s.result("as", tt.blocks)
			if unused := s.unused(); len(unused) > 0 != (tt.name == "unreachable for another kind") {
				t.Errorf("unused: %q", unused)
			}
			if r.reached != tt.reached || r.total != tt.total || !slices.Equal(r.problems(), tt.problems) {
				t.Errorf("got %v %q, want %d of %d %q", r, r.problems(), tt.reached, tt.total, tt.problems)
			}
		})
	}
}

// TestUnreachable checks the errors of a list.
func TestUnreachable(t *testing.T) {
	for text, want := range map[string]string{
		"as two":                                          "no reason",
		"# Why\nas two":                                   "no reason",
		"# No object has a two.\n\nas two":                "no reason",
		"# No object has a two.\nas three":                "no function three",
		"# No object has a two.\n( two":                   "missing closing )",
		"# No object has a two,\n# or a one.\nas two one": "",
	} {
		err := readSample(t).readUnreachable(write(t, "unreachable.txt", text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestGroups: the versions of a kind are measured together.
func TestGroups(t *testing.T) {
	found := [][]string{{"", "pods"}, {"", "events.events.k8s.io"}, {"", "events"}, {"", "podtemplates"}}
	for only, want := range map[string]string{
		"":       "events events.events.k8s.io, pods, podtemplates",
		"^pods$": "pods",
		"k8s":    "events events.events.k8s.io",
	} {
		var got []string
		for _, g := range groups(found, regexp.MustCompile(only)) {
			got = append(got, strings.Join(g, " "))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %q, want %q", only, got, want)
		}
	}
}

func readSample(t *testing.T) *source {
	t.Helper()
	root := t.TempDir()
	folder := filepath.Join(root, "pkg/apis/a/validation")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "v.go"), []byte(sample), 0o644); err != nil {
		t.Fatal(err)
	}
	s := newSource()
	if err := s.readModule("example.com", root); err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}
