package compat

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// rewriteRule is a line of docs/migrating.md with a rule for gofmt -r.
var rewriteRule = regexp.MustCompile(`(?m)^    '(.* -> .*)'$`)

// The rules in docs/migrating.md rewrite what they are meant for.
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
