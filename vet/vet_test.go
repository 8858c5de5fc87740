package vet_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"flyball.dev/vet"
	"flyball.dev/vet/internal/operator"
)

// right is the folder of programs that are right and look wrong.
const right = "right"

// TestRules runs each rule on the packages of testdata that have its name. Comments in them say what the rule
// finds. They are written for controller-runtime; with other imports they are programs for this runtime, and tested
// again. The packages in the folder right look wrong, and all rules are silent on them.
func TestRules(t *testing.T) {
	rules := append(vet.Analyzers(), vet.Optional()...)
	// All packages are loaded at once, and each is given to its own rule.
	each := &analysis.Analyzer{Name: "each", Doc: "run the rule that a package is named after", Requires: []*analysis.Analyzer{operator.Analyzer}}
	each.Run = func(pass *analysis.Pass) (any, error) {
		name, _, _ := strings.Cut(pass.Pkg.Path(), "/")
		for _, a := range rules {
			if a.Name != name && name != right {
				continue
			}
			rule := *pass
			rule.Analyzer = a
			if _, err := a.Run(&rule); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	packages := []string{right + "/..."}
	for _, rule := range rules {
		packages = append(packages, rule.Name+"/...")
	}
	runtimes := map[string]*strings.Replacer{
		"controller-runtime": strings.NewReplacer(),
		"flyball": strings.NewReplacer("sigs.k8s.io/controller-runtime/pkg/", "flyball.dev/ctrl/",
			"sigs.k8s.io/controller-runtime", "flyball.dev/ctrl"),
	}
	for runtime, paths := range runtimes {
		t.Run(runtime, func(t *testing.T) {
			tested := map[string]bool{}
			for _, result := range analysistest.RunWithSuggestedFixes(t, testdata(t, paths), each, packages...) {
				name, _, _ := strings.Cut(result.Pass.Pkg.Path(), "/")
				tested[name] = tested[name] || len(result.Diagnostics) > 0
			}
			for _, rule := range rules {
				if !tested[rule.Name] {
					t.Errorf("%s has found nothing", rule.Name)
				}
			}
		})
	}
}

// TestNames: the rules have valid names of analyzers, and each has a page with examples.
func TestNames(t *testing.T) {
	all := append(vet.Analyzers(), vet.Optional()...)
	if err := analysis.Validate(all); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join("..", "docs", "vet", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range all {
		if !strings.Contains(string(index), "("+rule.Name+".md)") {
			t.Errorf("the index of the pages has no link to %s", rule.Name)
		}
		page, err := os.ReadFile(filepath.Join("..", "docs", "vet", rule.Name+".md"))
		if err != nil {
			t.Errorf("the rule %s has no page: %v", rule.Name, err)
			continue
		}
		for _, heading := range []string{"# " + rule.Name, "## Wrong", "## Right"} {
			if !strings.Contains(string(page), heading) {
				t.Errorf("the page of %s has no heading %q", rule.Name, heading)
			}
		}
	}
}

// testdata returns a copy of testdata in which the import paths are replaced. The package rbac is a
// module of its own there, because its rule reads the markers of a whole module.
func testdata(t *testing.T, paths *strings.Replacer) string {
	t.Helper()
	from, to := "testdata", t.TempDir()
	write := func(path string, content []byte) error {
		target := filepath.Join(to, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	}
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		target := filepath.FromSlash(paths.Replace(filepath.ToSlash(strings.TrimPrefix(path, from))))
		return write(target, []byte(paths.Replace(string(content))))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := write("src/rbac/go.mod", []byte("module rbac\n")); err != nil {
		t.Fatal(err)
	}
	return to
}
