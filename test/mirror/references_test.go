package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"flyball.dev/apiserver/resource"
	_ "flyball.dev/internal/orphans"
	"flyball.dev/test/mirror/references"
)

// TestReferences checks that each //upstream: is well-formed, and names a declaration of the release that go.mod requires.
func TestReferences(t *testing.T) {
	module, err := references.Read(root)
	if err != nil {
		t.Error(err)
	}
	if module == nil {
		return
	}
	release := openPinned(t)
	for _, d := range module.Directives {
		if _, err := release.Text(d.Reference); err != nil {
			t.Errorf("%s: %s: %v", d.Place(), d.Name, err)
		}
	}
	t.Logf("%d references", len(module.Directives))
}

// TestPackages checks that no package of the mirrored trees goes without a reference.
func TestPackages(t *testing.T) {
	module, err := references.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(uncovered(module.Packages)...); err != nil {
		t.Error(err)
	}
	for _, tree := range trees {
		if _, err := os.Stat(root + "/" + tree); err != nil {
			t.Error(err)
		}
	}
}

// TestUncovered checks what TestPackages finds.
func TestUncovered(t *testing.T) {
	packages := map[string]*references.Package{
		"apiserver/crd":      {},
		"apiserver/kinds":    {References: 1},
		"apiserver/kinds/a":  {None: "a.go:1"},
		"apiserver/kinds/b":  {},
		"apiserver/kindship": {},
	}
	var got []string
	for _, err := range uncovered(packages) {
		text := err.Error()
		got = append(got, text[:strings.IndexAny(text, ":,")])
	}
	want := []string{
		"package apiserver/crd has no reference to the Kubernetes code that it mirrors",
		"package apiserver/kinds/b has no reference to the Kubernetes code that it mirrors",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestPinned checks that go.mod requires the release that the server says it is.
func TestPinned(t *testing.T) {
	version, err := pinned("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if version != "v"+resource.Release {
		t.Errorf("go.mod requires Kubernetes %s, and the server is v%s", version, resource.Release)
	}
}

// openPinned returns the release that go.mod requires.
func openPinned(t *testing.T) *references.Release {
	t.Helper()
	version, err := pinned("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	release, err := references.Open(version, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return release
}
