package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rewriteRule is a line of docs/migrating.md with a rule for gofmt -r.
var rewriteRule = regexp.MustCompile(`(?m)^    '(.* -> .*)'$`)

// The rules in docs/migrating.md rewrite their examples.
func TestRewriteRules(t *testing.T) {
	doc, err := os.ReadFile("../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("testdata/migrating/before.txt")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "old.go")
	write(t, name, source)
	rules := rewriteRule.FindAllSubmatch(doc, -1)
	for _, rule := range rules {
		before, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		run(t, ".", "gofmt", "-r", string(rule[1]), "-w", name)
		after, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(before) == string(after) {
			t.Errorf("nothing in before.txt needs the rule %s", rule[1])
		}
	}
	want, err := os.ReadFile("testdata/migrating/after.txt")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Package migrated has an example for each row of the table in docs/migrating.md. It compiles with controller-runtime
// and with Flyball.
func TestMigrated(t *testing.T) {
	doc, err := os.ReadFile("../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("migrated/migrated.go")
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\s*// row: (.*)$`).FindAllSubmatch(source, -1) {
		examples[string(m[1])] = true
	}
	rows := regexp.MustCompile(`(?m)^\| (.*?) \| .* \| 0\.\d+ \|$`).FindAllSubmatch(doc, -1)
	if len(rows) < 30 {
		t.Fatalf("only %d rows were found", len(rows))
	}
	for _, row := range rows {
		before := strings.ReplaceAll(string(row[1]), "`", "")
		if !examples[before] {
			t.Errorf("there is no example of the row %q", before)
		}
		delete(examples, before)
	}
	for before := range examples {
		t.Errorf("there is no row %q", before)
	}
	run(t, ".", "go", "build", "./migrated")
	run(t, ".", "go", "build", "-modfile=flyball.mod", "./migrated")
}

// The spellings that docs/migrating.md says are still accepted compile with Flyball.
func TestAccepted(t *testing.T) {
	run(t, ".", "go", "build", "-modfile=flyball.mod", "./testdata/accepted")
	if out, err := exec.Command("go", "build", "./testdata/accepted").CombinedOutput(); err == nil {
		t.Errorf("they compile with controller-runtime too: %s", out)
	}
}
