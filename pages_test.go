package flyball_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are the pages of documentation.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"README.md", "ARCHITECTURE.md", "compat/README.md", "examples/README.md"}
	for _, folder := range []string{"docs", "docs/vet"} {
		in, err := filepath.Glob(folder + "/*.md")
		if err != nil || len(in) == 0 {
			t.Fatal(folder, err)
		}
		found = append(found, in...)
	}
	return found
}

var (
	namedTest = regexp.MustCompile("`((?:Test|Benchmark)[A-Z]\\w*)`")
	link      = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInLink = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestPagesNameTests: the tests and benchmarks that pages refer to exist.
func TestPagesNameTests(t *testing.T) {
	declared := declaredTests(t)
	for _, page := range pages(t) {
		for _, match := range namedTest.FindAllStringSubmatch(read(t, page), -1) {
			if !declared[match[1]] {
				t.Errorf("%s: there is no %s", page, match[1])
			}
		}
	}
}

// declaredTests returns the names of the tests, benchmarks and fuzz tests of all modules.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, match := range function.FindAllSubmatch(content, -1) {
			declared[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return declared
}

// TestPagesLink: the files and headings that pages link to exist.
func TestPagesLink(t *testing.T) {
	for _, page := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(read(t, page), -1) {
			target, anchor := match[1], match[2]
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s: %s has no heading for %s", page, file, anchor)
			}
		}
	}
}

// anchors returns the anchors of a page's headings, as they are rendered on GitHub.
func anchors(page string) []string {
	var all []string
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		text := notInLink.ReplaceAllString(strings.ToLower(match[1]), "")
		all = append(all, "#"+strings.ReplaceAll(text, " ", "-"))
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestExamplesAreListed: examples/README.md has a row for each example.
func TestExamplesAreListed(t *testing.T) {
	page := read(t, "examples/README.md")
	mains, err := filepath.Glob("examples/*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatal(err)
	}
	for _, main := range mains {
		name := filepath.Base(filepath.Dir(main))
		if !strings.Contains(page, "\n| ["+name+"]("+name+") |") {
			t.Errorf("examples/README.md has no row for %s", name)
		}
	}
}

// TestLimitsHaveTests: each row of the table of what a request may cost names a test.
func TestLimitsHaveTests(t *testing.T) {
	rows := 0
	for line := range strings.Lines(read(t, "docs/limits.md")) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| request ") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 5 || !strings.Contains(cells[4], "Test") && !strings.Contains(cells[4], "_test.go") {
			t.Errorf("docs/limits.md: %d cells, and no test in the last one: %s", len(cells), line)
		}
	}
	if rows < 20 {
		t.Errorf("docs/limits.md has %d rows", rows)
	}
}
