package gotest

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "flyball.dev/internal/orphans"
)

func nameOf(importPath, test string) string {
	return strings.TrimSpace(strings.TrimPrefix(importPath, "example.com/") + " " + test)
}

func TestResults(t *testing.T) {
	const output = `
{"Action":"run","Package":"example.com/a","Test":"TestPasses"}
{"Action":"pass","Package":"example.com/a","Test":"TestPasses"}
{"Action":"run","Package":"example.com/a","Test":"TestParent"}
{"Action":"run","Package":"example.com/a","Test":"TestParent/child"}
{"Action":"output","Package":"example.com/a","Test":"TestParent/child","Output":"why\n"}
{"Action":"fail","Package":"example.com/a","Test":"TestParent/child"}
{"Action":"fail","Package":"example.com/a","Test":"TestParent"}
{"Action":"run","Package":"example.com/a","Test":"TestSkipped"}
{"Action":"skip","Package":"example.com/a","Test":"TestSkipped"}
{"Action":"output","Package":"example.com/a","Output":"FAIL\n"}
{"Action":"fail","Package":"example.com/a"}
{"Action":"run","Package":"example.com/b","Test":"TestExits"}
{"Action":"output","Package":"example.com/b","Test":"TestExits","Output":"bye\n"}
{"Action":"output","Package":"example.com/b","Output":"FAIL\texample.com/b\n"}
{"Action":"fail","Package":"example.com/b"}
{"Action":"build-output","ImportPath":"example.com/c_test [example.com/c.test]","Output":"undefined: x\n"}
{"Action":"fail","Package":"example.com/c"}
{"Action":"pass","Package":"example.com/d"}
`
	got := Results{}
	if err := got.add([]byte(output), nameOf); err != nil {
		t.Fatal(err)
	}
	want := Results{
		"a TestPasses":       "",
		"a TestParent":       "",
		"a TestParent/child": "failed\nwhy\n",
		"a TestSkipped":      "",
		"b TestExits":        "ended the process\nbye\n",
		"b":                  "failed\nFAIL\texample.com/b\n",
		"c":                  "failed\nundefined: x\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if failed := got.Failed(); failed != 4 {
		t.Errorf("%d failed, want 4", failed)
	}
	if err := got.add([]byte("{"), nameOf); err == nil {
		t.Error("no error of output that ends within a line")
	}
}

func TestGinkgo(t *testing.T) {
	const report = `[{"SpecReports": [
{"LeafNodeType": "BeforeSuite", "LeafNodeLocation": {"FileName": "/x/suite_test.go", "LineNumber": 3}, "State": "passed"},
{"ContainerHierarchyTexts": ["A client", "Get"], "LeafNodeType": "It", "LeafNodeText": "reads  \n an object",
 "LeafNodeLocation": {"FileName": "/x/a_test.go", "LineNumber": 7}, "State": "passed"},
{"LeafNodeType": "It", "LeafNodeText": "panics", "LeafNodeLocation": {"FileName": "a_test.go", "LineNumber": 8},
 "State": "panicked", "Failure": {"Message": "nil"}},
{"LeafNodeType": "It", "LeafNodeText": "is not reached", "LeafNodeLocation": {"FileName": "a_test.go", "LineNumber": 9},
 "State": "skipped"}]}]`
	got := Results{"client TestClient": "failed", "client/fake TestClient": "failed", "client TestOther": ""}
	if err := got.AddGinkgo([]byte(report), "client", []string{"TestClient"}); err != nil {
		t.Fatal(err)
	}
	want := Results{
		"client/fake TestClient": "failed", "client TestOther": "",
		"client/suite_test.go:3 BeforeSuite":              "",
		"client/a_test.go:7 A client Get reads an object": "",
		"client/a_test.go:8 panics":                       "panicked\nnil",
		"client/a_test.go:9 is not reached":               "skipped\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSuiteTests(t *testing.T) {
	const file = `package client
func TestClient(t *testing.T) {
	if x { y() }
	RunSpecs(t, "Client")
}
func TestQualified(t *testing.T) { ginkgo.RunSpecs(t, "Client") }
func TestOther(t *testing.T) {}
func helper(t *testing.T) { RunSpecs(t, "Client") }`
	got, err := SuiteTests([]byte(file))
	if want := []string{"TestClient", "TestQualified"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
	if _, err := SuiteTests([]byte("x")); err == nil {
		t.Error("no error of a file that is no Go source")
	}
}

func TestScratch(t *testing.T) {
	dir, err := NewScratch("gotest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := NewScratch("gotest")
	if err != nil || again != dir {
		t.Errorf("another directory: %s (%v), want %s", again, err, dir)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is not empty: %v", err)
	}
	if _, err := ModuleDir("example.com/absent"); err == nil || !strings.Contains(err.Error(), "example.com/absent") {
		t.Errorf("error %v does not say what failed", err)
	}
}

func TestCompare(t *testing.T) {
	known := List{"fails as before": "a bug", "passes now": "a bug", "passes today": "flaky: time", "is gone": "a bug",
		"is left out": "not run: slow", "new at the last time": Unstated}
	ran := Results{"fails as before": "x", "passes now": "", "passes today": "", "passes": "", "is new": "why",
		"new at the last time": "x"}
	current, differences := known.Compare(ran, func(_, reason string) bool { return strings.HasPrefix(reason, "not run") })
	want := List{"fails as before": "a bug", "passes today": "flaky: time", "is left out": "not run: slow",
		"is new": Unstated, "new at the last time": Unstated}
	if diff := cmp.Diff(want, current); diff != "" {
		t.Error(diff)
	}
	wantDifferences := []string{
		"fails: is new\nwhy",
		`new at the last time: its reason is "to be replaced by the reason"`,
		"no longer fails: passes now",
		"there is no such test: is gone",
	}
	if diff := cmp.Diff(wantDifferences, differences); diff != "" {
		t.Error(diff)
	}
}

func TestListIsReadAsWritten(t *testing.T) {
	list := List{"a": "one", "b": "two", "c": "one"}
	path := filepath.Join(t.TempDir(), "failing.txt")
	if err := list.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadList(path)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, list) {
		t.Errorf("read %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(list)))
	}
}
