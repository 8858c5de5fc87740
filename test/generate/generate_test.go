package generate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "k8s.io/api/core/v1"                                       // of the corpus
	_ "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1" // of the corpus
	_ "k8s.io/apimachinery/pkg/util/intstr"                      // of the corpus
	"sigs.k8s.io/controller-tools/pkg/applyconfiguration"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/deepcopy"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/controller-tools/pkg/rbac"
	"sigs.k8s.io/controller-tools/pkg/webhook"

	_ "flyball.dev/internal/orphans"
)

const controllerGen = "sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0"

// TestSameOutput compares the output of flyball generate and controller-gen, byte for byte, for the same options. Where
// flyball generate has no options, controller-gen uses the options of Kubebuilder's Makefile.
func TestSameOutput(t *testing.T) {
	flyball, peer := programs(t)
	manifests := []string{"rbac:roleName=manager-role", "crd", "webhook", "paths=./...", "output:crd:artifacts:config=config/crd/bases"}
	for _, test := range []struct {
		name          string
		flyball, peer [][]string
	}{
		{"project", [][]string{nil}, [][]string{manifests,
			{"object:headerFile=hack/boilerplate.go.txt", "paths=./..."},
			{"applyconfiguration:headerFile=hack/boilerplate.go.txt", "paths=./..."}}},
		{"default outputs", same("rbac:roleName=x", "crd", "webhook", "object", "paths=./..."), nil},
		{"all options", same("rbac:roleName=x,fileName=y.yaml,headerFile=hack/boilerplate.yaml.txt,year=2026",
			"crd:ignoreUnexportedFields=true,allowDangerousTypes=true,maxDescLen=30,crdVersions=v1,generateEmbeddedObjectMeta=true,"+
				"headerFile=hack/boilerplate.yaml.txt,year=2026,deprecatedV1beta1CompatibilityPreserveUnknownFields=false,omitToolVersion=true",
			"webhook:headerFile=hack/boilerplate.yaml.txt,year=2026", "object:headerFile=hack/boilerplate.go.txt,year=2026",
			"applyconfiguration:headerFile=hack/boilerplate.go.txt,"+
				"externalApplyConfigurations=k8s.io/api/core/v1.EnvVar@k8s.io/client-go/applyconfigurations/core/v1",
			"paths={./api/...,./internal/...}", "output:object:dir=copies", "output:dir=out", "output:webhook:none"), nil},
		{"no descriptions", same("crd:maxDescLen=0", "paths=./api/v1", "paths=./api/v1beta1", "output:stdout"), nil},
		{"code in another folder", same("object", "crd", "paths=./api/v1;./api/legacy", "output:artifacts:config=manifests,code=code"), nil},
		{"schemapatch", append(same("crd:maxDescLen=0", "paths=./...", "output:dir=manifests"),
			[]string{"schemapatch:manifests=manifests,maxDescLen=50,generateEmbeddedObjectMeta=true", "paths=./api/...", "output:dir=patched"}), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.peer == nil {
				test.peer = test.flyball
			}
			want := generate(t, peer, test.peer)
			if len(want) == 0 {
				t.Fatalf("controller-gen has generated nothing: %v", want)
			}
			got := generate(t, flyball, test.flyball)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-controller-gen +flyball generate:\n%s", diff)
			}
		})
	}
}

// programs builds the programs, and returns their commands.
func programs(t *testing.T) (flyball, peer []string) {
	t.Helper()
	dir := t.TempDir()
	run(t, ".", []string{"GOBIN=" + dir}, "go", "install", controllerGen)
	run(t, "../..", nil, "go", "build", "-o", dir, "./cmd/flyball")
	return []string{filepath.Join(dir, "flyball"), "generate"}, []string{filepath.Join(dir, "controller-gen")}
}

func same(options ...string) [][]string { return [][]string{options} }

// generate runs a program with several lists of options in a copy of the corpus. It returns the created files, and the
// standard output under the name "".
func generate(t *testing.T, program []string, runs [][]string) map[string]string {
	t.Helper()
	dir := corpus(t)
	before := files(t, dir)
	generated := map[string]string{}
	for _, options := range runs {
		out := run(t, dir, nil, append(slices.Clone(program), options...)...)
		if slices.Contains(options, "output:stdout") {
			generated[""] += out
		}
	}
	for path, content := range files(t, dir) {
		if before[path] != content {
			generated[path] = content
		}
	}
	return generated
}

// corpus copies the corpus to a temporary folder and makes it a module.
func corpus(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	goMod, err := os.ReadFile("go.mod")
	source, absErr := filepath.Abs("../..")
	if err := errors.Join(err, absErr); err != nil {
		t.Fatal(err)
	}
	goMod = moduleLine.ReplaceAll(goMod, []byte("module example.com/corpus"))
	goMod = bytes.Replace(goMod, []byte("flyball.dev => ../.."), []byte("flyball.dev => "+source), 1)
	goSum, err := os.ReadFile("go.sum")
	if err := errors.Join(err, os.CopyFS(dir, os.DirFS("testdata/corpus")), os.WriteFile(filepath.Join(dir, "go.mod"), goMod, 0o666),
		os.WriteFile(filepath.Join(dir, "go.sum"), goSum, 0o666)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCorpusHasAllMarkers checks that the corpus has every marker that there is.
func TestCorpusHasAllMarkers(t *testing.T) {
	registry := &markers.Registry{}
	for _, g := range []genall.Generator{applyconfiguration.Generator{}, crd.Generator{}, deepcopy.Generator{}, rbac.Generator{}, webhook.Generator{}} {
		if err := g.RegisterMarkers(registry); err != nil {
			t.Fatal(err)
		}
	}
	var all strings.Builder
	for path, content := range files(t, "testdata/corpus") {
		if filepath.Ext(path) == ".go" {
			all.WriteString(content)
		}
	}
	for _, definition := range registry.AllDefinitions() {
		marker := regexp.MustCompile(`// \+` + regexp.QuoteMeta(definition.Name) + `[:=\n]`)
		if !marker.MatchString(all.String()) {
			t.Errorf("the corpus has no +%s", definition.Name)
		}
	}
}

// files returns the content of all files below a folder, by path.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		all[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// run runs a program and returns its standard output.
func run(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(fmt.Errorf("%q: %w: %s", args, err, &stderr))
	}
	return stdout.String()
}
