package main

import (
	"errors"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"flyball.dev/apiserver/resource"
	_ "flyball.dev/internal/orphans"
	"flyball.dev/test/mirror/references"
)

// sumFile has the hashes of the mirrored code that was read.
const sumFile = "upstream.sum"

var update = flag.Bool("update", false, "write "+sumFile+", and lower the numbers in "+longFile)

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

// TestSum checks that the source of all that the directives name was read, as it is in the release that go.mod requires.
func TestSum(t *testing.T) {
	module, err := references.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	release := openPinned(t)
	sums, err := references.ReadSums(sumFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	if *update {
		if sums, err = sums.Acknowledge(release, module); err != nil {
			t.Fatal(err)
		}
		if err := sums.Write(sumFile); err != nil {
			t.Fatal(err)
		}
	}
	drifts, err := sums.Compare(release, module)
	if err != nil {
		t.Fatal(err)
	}
	for _, drift := range drifts {
		t.Error(drift)
	}
	if len(drifts) > 0 {
		t.Errorf("%d of %d references differ from %s in %s: carry each change over, then acknowledge it with -update", len(drifts), len(sums), sumFile, release.Version)
	}
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

// openPinned returns the release that go.mod requires. All tests read one, since parsing takes long.
func openPinned(t *testing.T) *references.Release {
	t.Helper()
	release, err := pinnedRelease()
	if err != nil {
		t.Fatal(err)
	}
	return release
}

var pinnedRelease = sync.OnceValues(func() (*references.Release, error) {
	version, err := pinned("go.mod")
	if err != nil {
		return nil, err
	}
	return references.Open(version, os.Stderr)
})
