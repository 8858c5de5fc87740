package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestPackagesOfVet lists packages in the same way as the multichecker: with the export data of compiled packages, and
// without compiling any.
func TestPackagesOfVet(t *testing.T) {
	const root, dependency = "example.com/operator", "sigs.k8s.io/controller-runtime/pkg/reconcile"
	t.Setenv("FLYBALL_MAIN", "1") // this program runs tools for the go command
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "off")
	t.Setenv("GOCACHE", filepath.Join(t.TempDir(), "a cache"))
	t.Chdir(project(t, "\treturn reconcile.Result{}, err"))
	expect := func(want map[string]bool) {
		t.Helper()
		var out bytes.Buffer
		if err := drivePackages(t.Context(), strings.NewReader("{}"), &out, []string{"./..."}); err != nil {
			t.Fatal(err)
		}
		var response packages.DriverResponse
		if err := json.Unmarshal(out.Bytes(), &response); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, p := range response.Packages {
			if p.ExportFile != "" {
				if _, err := os.Stat(p.ExportFile); err != nil {
					t.Error(err)
				}
			}
			if len(p.CompiledGoFiles) != 1 || len(p.Errors) > 0 {
				t.Errorf("%s has the files %q and the errors %v", p.ID, p.CompiledGoFiles, p.Errors)
			}
			got[p.ID] = p.ExportFile != ""
		}
		if !maps.Equal(got, want) {
			t.Errorf("export data: %v, want %v", got, want)
		}
		if len(response.Roots) != 1 || response.Roots[0] != root || response.Arch == "" || response.GoVersion == 0 {
			t.Errorf("roots %q, architecture %q, Go 1.%d", response.Roots, response.Arch, response.GoVersion)
		}
	}
	build := func() {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "go", "build", "./...").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	expect(map[string]bool{root: false, dependency: false})
	expect(map[string]bool{root: false, dependency: false})
	build()
	expect(map[string]bool{root: true, dependency: true})
	changed := "package reconcile\n\ntype Result struct {\n\tRequeue bool\n\tMore int64\n}\n"
	if err := os.WriteFile("runtime/pkg/reconcile/reconcile.go", []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	expect(map[string]bool{root: false, dependency: false})
}

// TestVetWithoutBuildCache: vet finds the same with an empty build cache.
func TestVetWithoutBuildCache(t *testing.T) {
	flyball, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", t.TempDir())
	code, _, stderr := inProject(t, project(t, hotLoop), flyball, "vet", "./...")
	if code != 3 || !strings.Contains(stderr, "reconciler.go:6:26: Requeue: true is deprecated") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}
