package flyball_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// may says who may import whom. A package is judged by the longest path that it is at or below; it may
// import what that row names, at or below, its own row's packages, and everything outside the module
// unless the row forbids it.
var may = []struct {
	path    string
	imports []string
	// outside, if not nil, are the only packages from outside the standard library.
	outside []string
}{
	{path: "storage", outside: []string{}},
	{path: "storage/memory", imports: []string{"storage"}, outside: []string{}},
	{path: "storage/storagetest", imports: []string{"storage"}, outside: []string{"github.com/google/go-cmp"}},

	{path: "apiserver", imports: []string{"storage", "apiserver"}},
	{path: "apiserver/resource"},
	{path: "apiserver/schema"},
	{path: "apiserver/store", imports: []string{"storage"}},
	{path: "apiserver/authn"},
	{path: "apiserver/authz"},
	{path: "apiserver/admission"},
	{path: "apiserver/endpoints", imports: []string{"apiserver/resource"}},
	{path: "apiserver/discovery", imports: []string{"apiserver/resource"}},
	{path: "apiserver/openapi", imports: []string{"apiserver/resource", "apiserver/schema"}},
	{path: "apiserver/builtin", imports: []string{"apiserver/kinds"}},
	{path: "apiserver/kinds", imports: []string{"apiserver/resource"}},
	{path: "apiserver/kinds/fieldrules"},
	{path: "apiserver/kinds/columns"},
	{path: "apiserver/kinds/allocator", outside: []string{"k8s.io/apimachinery"}},
	{path: "apiserver/kinds/podspec", imports: []string{"apiserver/kinds/fieldrules"}},
	{path: "apiserver/kinds/workload", imports: []string{"apiserver/kinds/fieldrules", "apiserver/kinds/columns", "apiserver/kinds/podspec"}},
	{path: "apiserver/crd", imports: []string{"apiserver/resource", "apiserver/store", "storage"}},

	{path: "ctrl", imports: []string{"ctrl"}},
	{path: "ctrl/cache/informertest", imports: []string{"ctrl/cache", "ctrl/client", "ctrl/controller/controllertest"}},
	{path: "ctrl/controller/controllertest", imports: []string{"ctrl/reconcile"}},
	{path: "ctrl/metrics/filters", imports: []string{"ctrl/metrics/server"}},
	{path: "ctrl/certwatcher", imports: []string{"ctrl/log", "ctrl/metrics"}},
	{path: "controllers", imports: []string{"ctrl", "controllers"}},
	{path: "controlplane", imports: []string{"storage", "apiserver", "controllers", "ctrl"}},
	{path: "cmd", imports: []string{"controlplane", "ctrl/log", "internal"}},
	{path: "examples", imports: []string{"ctrl", "controlplane", "examples", "internal"}},
	{path: "internal", imports: []string{"internal"}},
}

const module = "flyball.dev"

type listed struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	Standard   bool
	Imports    []string
}

func TestImports(t *testing.T) {
	standard := map[string]bool{}
	var packages []listed
	for _, p := range list(t) {
		if p.Standard {
			standard[p.ImportPath] = true
		}
		if within(p.ImportPath, module) {
			packages = append(packages, p)
		}
	}
	if len(packages) < 10 {
		t.Fatalf("only %d packages were listed", len(packages))
	}
	for _, p := range packages {
		path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		row := -1
		for i, r := range may {
			if within(path, r.path) && (row < 0 || len(r.path) > len(may[row].path)) {
				row = i
			}
		}
		if path == "" {
			continue
		}
		if row < 0 {
			t.Errorf("%s has no row in the table of imports", path)
			continue
		}
		for _, imported := range p.Imports {
			switch inside, ok := strings.CutPrefix(imported, module+"/"); {
			case ok:
				if !within(inside, may[row].path) && !slices.ContainsFunc(may[row].imports, func(a string) bool { return within(inside, a) }) {
					t.Errorf("%s may not import %s", path, inside)
				}
			case !standard[imported] && may[row].outside != nil:
				if !slices.ContainsFunc(may[row].outside, func(a string) bool { return within(imported, a) }) {
					t.Errorf("%s may not import %s from outside the standard library", path, imported)
				}
			}
		}
		if slices.ContainsFunc(p.Imports, func(i string) bool { return within(i, "k8s.io/kubernetes") }) {
			t.Errorf("%s imports k8s.io/kubernetes", path)
		}
	}
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func list(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,Dir,GoFiles,Standard,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
