package generate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// TestSameOutputOfProjects compares the output of flyball generate with the output of go generate or make, which run
// controller-gen, for the forms that an option may have there. Where flyball generate refuses a form, the error names
// the form, and nothing is written.
func TestSameOutputOfProjects(t *testing.T) {
	flyball, peer := programs(t)
	t.Setenv("PATH", filepath.Dir(peer[0])+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("FORMS_OUT", "fromenv")
	const makes, generates = "make manifests generate", "go generate ./..."
	line := func(options string) string {
		return "-- api/gen.go --\npackage api\n\n//go:generate controller-gen " + options + "\n"
	}
	within := func(options string) string {
		return "-- api/v1/gen.go --\npackage v1\n\n//go:generate controller-gen " + options + "\n"
	}
	makefile := func(options string) string {
		return "-- Makefile --\nCONTROLLER_GEN ?= controller-gen\nmanifests:\n\t$(CONTROLLER_GEN) " + options + "\ngenerate:\n"
	}
	bash := func(options string) string {
		return strings.Replace(makefile(options), "-- Makefile --\n", "-- Makefile --\nSHELL = /usr/bin/env bash -o pipefail\n", 1)
	}
	project := func(options string) string {
		return "-- PROJECT --\nversion: \"3\"\nplugins:\n  flyball.dev/v1:\n    generate:\n    - |-\n      " + options + "\n"
	}
	const out = " output:crd:dir=../out"
	for _, test := range []struct{ name, archive, peer, refused string }{
		// go:generate: no shell reads the line, so the marker has the quotation marks.
		{name: "quoted path", archive: within(`object crd paths="." output:crd:dir=../../out`)},
		{name: "path in backquotes", archive: line("crd paths=`./v1`" + out)},
		{name: "word in quotes", archive: line(`crd "paths={\"./v1\", \"./v1beta1\"}"` + out)},
		{name: "list in braces", archive: line(`crd paths={./v1,./v1beta1}` + out)},
		{name: "quoted list in braces", archive: line(`crd paths={"./v1"}` + out)},
		{name: "list with a trailing comma", archive: line(`crd paths={"./v1",}` + out)},
		{name: "semicolons", archive: line(`crd paths=./v1;./v1` + out)},
		{name: "quoted semicolons", archive: line(`crd paths="./v1";"./v1beta1"` + out)},
		{name: "plus signs", archive: line(`+crd +paths=./v1 +output:crd:dir=../out`)},
		{name: "several paths", archive: line(`crd paths=./v1 paths="./v1beta1"` + out)},
		{name: "no path", archive: within(`object:headerFile="../../hack/boilerplate.go.txt"`)},
		{name: "all below", archive: line(`object crd paths=./...` + out)},
		{name: "all below, quoted", archive: line(`object crd paths="./..."` + out)},
		{name: "outside the folder", archive: line(`rbac:roleName="x" crd paths="../internal/..." paths={../api/v1} output:dir="../out"`)},
		{name: "absolute path", archive: line(`crd paths="$PWD/v1" output:crd:dir="$PWD/../out"`)},
		{name: "package", archive: line(`crd object paths=example.com/corpus/api/v1` + out)},
		{name: "packages", archive: line(`crd object paths="example.com/corpus/api/..."` + out)},
		{name: "files", archive: within(`crd paths={groupversion_info.go,corpus_types.go,values_types.go} output:crd:dir=../../out`)},
		{name: "package of another module", archive: line(`crd paths=example.com/other/api/v1;./v1`+out) + other},
		{name: "folder of another module", archive: line(`crd object paths="../other/api/v1"`+out) + other},
		{name: "all below with another module", archive: line(`crd object paths=../...`+out) + other},
		{name: "default outputs", archive: line(`rbac:roleName=x crd webhook paths=./v1 paths=../internal/...`)},
		{name: "some default outputs", archive: line(`crd rbac:roleName=x paths=../... output:rbac:stdout`)},
		{name: "quoted outputs", archive: line("crd object rbac:roleName=x paths=./v1;../internal/controller +output:crd:artifacts:config=\"../out\" output:rbac:dir=`../roles` output:object:artifacts:code=\"../code\",config=x")},
		{name: "a folder with braces", archive: line(`crd object paths=./v1 output:artifacts:code="../code",config={`)},
		{name: "artifacts without a folder", archive: line(`crd object paths=./v1 output:artifacts:code="../code"`), refused: `output:artifacts:code=\"../code\"`},
		{name: "unknown option", archive: line(`crd:trivialVersions="true" paths=./v1`), refused: `crd:trivialVersions=\"true\"`},
		{name: "an output for another generator", archive: line(`object paths=./v1 output:crd:dir="../out"`), refused: `"crd"`},
		{name: "the same generator twice", archive: line(`crd +crd:maxDescLen=0 paths=./v1`), refused: `"crd"`},
		{name: "artifacts of all", archive: line(`crd object paths=./v1 output:artifacts:config="../out",code="../code"`)},
		{name: "nothing", archive: line(`crd object paths=./v1 output:none output:crd:dir="../out"`)},
		{name: "versions in braces", archive: line(`crd:crdVersions={v1},maxDescLen=10 paths=./v1` + out)},
		{name: "quoted versions", archive: line(`crd:maxDescLen=0,crdVersions={"v1"},headerFile="../hack/boilerplate.yaml.txt",year="2026" paths=./v1` + out)},
		{name: "header second", archive: line(`object:year=2026,headerFile="../hack/boilerplate.go.txt" paths=./v1`)},
		{name: "headers", archive: line(`rbac:headerFile="../hack/boilerplate.yaml.txt",roleName=x webhook:headerFile=../hack/boilerplate.yaml.txt paths=../... output:dir=../out`)},
		{name: "apply configurations", archive: line(`applyconfiguration:headerFile="../hack/boilerplate.go.txt" paths=./v1`)},
		{name: "apply configurations without a header", archive: within(`applyconfiguration paths="."`)},
		{name: "schemapatch", archive: line(`schemapatch:maxDescLen=50,manifests="./manifests" paths="./v1" output:dir="./patched"`) + manifest},
		{name: "variables", archive: within(`crd paths=. output:crd:dir=../../out/$GOPACKAGE/${GOFILE}/$GOLINE`)},
		{name: "a variable of the environment", archive: line(`crd paths=./v1 output:crd:dir=../$FORMS_OUT`)},
		{name: "a dollar sign", archive: line(`crd paths=./v1 output:crd:dir=../out${DOLLAR}x`)},
		{name: "a command", archive: "-- api/gen.go --\npackage api\n\n//go:generate -command gen controller-gen crd\n" +
			"//go:generate\tgen\tpaths=\"./v1\" output:crd:dir=../out\n"},
		{name: "two folders", archive: line(`crd paths=./v1`+out) + within(`object crd paths="." output:crd:dir=other`)},
		{name: "the same line in two folders", archive: within(`object:headerFile="../../hack/boilerplate.go.txt" paths="."`) +
			strings.ReplaceAll(within(`object:headerFile="../../hack/boilerplate.go.txt" paths="."`), "v1", "v1beta1")},

		// Makefiles: make and the shell read the line first.
		{name: "make: quoted", archive: makefile(`crd paths="./api/..." output:crd:artifacts:config="config/crd"`)},
		{name: "make: quotes in quotes", archive: makefile(`crd 'paths={"./api/v1","./api/v1beta1"}' output:crd:dir='"my crds"'`)},
		{name: "make: escaped quotes", archive: makefile(`crd paths="{\"./api/v1\"}" object:headerFile=\"hack/boilerplate.go.txt\"`)},
		{name: "make: backslashes in quotes", archive: makefile(`crd paths=./api/v1 output:crd:dir="\"a\\tb\""`)},
		{name: "make: semicolons", archive: makefile(`crd "paths=./api/v1;./api/legacy" object`)},
		{name: "make: plus signs", archive: makefile(`+crd +paths="./api/v1"`)},
		{name: "make: continued", archive: makefile("crd:maxDescLen=10 \\\n\t\tpaths=./api/v1 \\\n\toutput:crd:dir=out")},
		{name: "make: continued within a word", archive: makefile("crd:maxDescLen=10,\\\n\tcrdVersions={v1} paths=./api/v1 output:crd\\\n\t:dir=out")},
		{name: "make: continued within quotes", archive: makefile("crd paths=\"./api/\\\n\tv1\" output:crd:dir=out")},
		{name: "make: variables", archive: strings.Replace(makefile(`crd paths="$(ROOT)/api/v1" $(OUT)`), "manifests:",
			"ROOT := $(CURDIR)\nOUT = output:crd:dir=\"$(ROOT)/out\" \\\n\t+object\nmanifests:", 1)},
		{name: "make: braces", archive: makefile(`crd paths={./api/v1,./api/v1beta1}`)},
		{name: "make: braces in bash", archive: bash(`crd paths={./api/v1,./api/v1beta1}`)},
		{name: "make: braces in a path in bash", archive: bash(`object crd:crdVersions={v1} paths=./api/{v1,"v1beta1"}`)},
		{name: "make: quoted braces in bash", archive: bash(`crd paths="{./api/v1,./api/v1beta1}"`)},
		{name: "make: runs", archive: makefile("rbac:roleName=manager-role crd webhook paths=\"./...\" output:crd:artifacts:config=config/crd/bases\n\t" +
			"$(CONTROLLER_GEN) object:headerFile=\"hack/boilerplate.go.txt\" paths='{\"./...\"}'")},
		{name: "make: runs with other outputs", archive: makefile("crd paths=./api/v1 output:dir=a\n\t$(CONTROLLER_GEN) +crd:maxDescLen=0 paths=\"./api/v1\" output:dir=b")},

		// PROJECT has options as a shell has them.
		{name: "PROJECT: quoted", archive: project(`+crd paths='{"./api/v1"}' object:headerFile='"hack/boilerplate.go.txt"' output:crd:dir="out"`),
			peer: `controller-gen +crd paths='{"./api/v1"}' object:headerFile='"hack/boilerplate.go.txt"' output:crd:dir="out"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.peer == "" && strings.Contains(test.archive, "-- Makefile --") {
				test.peer = makes
			} else if test.peer == "" {
				test.peer = generates
			}
			before, want, message, err := runIn(t, test.archive, "sh", "-c", test.peer)
			if refused := err != nil; refused != (test.refused != "") {
				t.Fatalf("%s: %v: %s", test.peer, err, message)
			}
			_, got, message, err := runIn(t, test.archive, flyball...)
			if test.refused != "" {
				if err == nil || !strings.Contains(message, test.refused) {
					t.Errorf("the error is %v, %s; it has no %s", err, message, test.refused)
				}
				want = before
			} else if err != nil {
				t.Fatalf("flyball generate: %v: %s", err, message)
			} else if cmp.Equal(before, want) {
				t.Fatal("controller-gen has generated nothing")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-controller-gen +flyball generate:\n%s", diff)
			}
		})
	}
}

// manifest is a definition without a schema.
const manifest = `
-- api/manifests/corpora.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: corpora.corpus.example.com
spec:
  group: corpus.example.com
  names:
    kind: Corpus
    plural: corpora
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
`

// other is another module, which the module of the corpus requires.
const other = `
-- other/go.mod --
-- other/api/v1/types.go --
// Package v1 has others.
// +kubebuilder:object:generate=true
// +groupName=other.example.com
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true

// Other is another kind.
type Other struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `
}
-- go.mod --

require example.com/other v0.0.0

replace example.com/other => ./other
`

// moduleLine matches the line of a go.mod with the module.
var moduleLine = regexp.MustCompile(`(?m)^module .*$`)

// runIn runs a program in a copy of the corpus with the files of an archive added. It returns all files from before and
// after, and the messages of the program. The file go.mod of the archive is appended to the one of the corpus, and a
// go.mod of another module has the requirements of the corpus.
func runIn(t *testing.T, archive string, args ...string) (before, after map[string]string, message string, err error) {
	t.Helper()
	dir := corpus(t)
	for _, file := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, file.Name)
		if filepath.Base(path) == "go.mod" {
			goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err != nil {
				t.Fatal(err)
			}
			if module := filepath.Dir(file.Name); module != "." {
				goMod = moduleLine.ReplaceAll(goMod, []byte("module example.com/"+module))
				copyFile(t, filepath.Join(dir, "go.sum"), filepath.Join(filepath.Dir(path), "go.sum"))
			}
			file.Data = append(goMod, file.Data...)
		}
		writeFile(t, path, file.Data)
	}
	before = files(t, dir)
	var stderr bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	err = cmd.Run()
	return before, files(t, dir), stderr.String(), err
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, to, content)
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
}
