package generate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flyball.dev/cmd/flyball/internal/testproject"
	_ "flyball.dev/internal/orphans"
)

// The options come from the commands in the Makefile, in go:generate lines, or in PROJECT.
func TestProjectCommands(t *testing.T) {
	year := "$(shell date +%Y)"
	kubebuilder := `
LOCALBIN ?= $(shell pwd)/bin
YEAR ?= ` + year + `
CONTROLLER_GEN ?= $(LOCALBIN)/controller-gen
.PHONY: manifests
manifests: controller-gen ## Generate manifests.
	"$(CONTROLLER_GEN)" rbac:roleName=manager-role crd webhook paths="./..." output:crd:artifacts:config=config/crd/bases
.PHONY: generate
generate: controller-gen
	"$(CONTROLLER_GEN)" object:headerFile="hack/boilerplate.go.txt" paths="./..."
.PHONY: controller-gen
controller-gen: $(CONTROLLER_GEN)
$(CONTROLLER_GEN): $(LOCALBIN)
	test -s $(LOCALBIN)/controller-gen && $(LOCALBIN)/controller-gen --version | grep -q $(VERSION) || \
	GOBIN=$(LOCALBIN) go install sigs.k8s.io/controller-tools/cmd/controller-gen@$(VERSION)
	$(call install-tool,$(CONTROLLER_GEN),sigs.k8s.io/controller-tools/cmd/controller-gen,$(VERSION))
define install-tool
@[ -f "$(1)-$(3)" ] && [ "$$(readlink -- "$(1)" 2>/dev/null)" = "$(1)-$(3)" ] || { \
set -e; \
package=$(2)@$(3) ;\
echo "Downloading $${package}" ;\
rm -f "$(1)" ;\
GOBIN="$(LOCALBIN)" go install $${package} ;\
mv "$(LOCALBIN)/$$(basename "$(1)")" "$(1)-$(3)" ;\
} ;\
ln -sf "$$(realpath "$(1)-$(3)")" "$(1)"
endef
`
	standard := [][]string{{"rbac:roleName=manager-role", "crd", "webhook", "paths=./...",
		"output:crd:artifacts:config=config/crd/bases", "object:headerFile=hack/boilerplate.go.txt"}}
	defaults := [][]string{{"rbac:roleName=manager-role", "crd", "webhook", "object", "applyconfiguration", "paths=./...",
		"output:crd:artifacts:config=config/crd/bases"}}
	for _, tt := range []struct {
		name, archive string
		dir           string // of the commands
		want          [][]string
		doubt, unseen string
	}{
		{name: "the Makefile of Kubebuilder", archive: "-- Makefile --" + kubebuilder, want: standard},
		{
			name: "several runs, continued lines, variables, included files",
			archive: "-- Makefile --\ninclude deps.mk\nmanifests: tool\n\t@$(CONTROLLER_GEN) \\\n\t\trbac:roleName=$(ROLE) \\\n\t\tcrd:$(EMBED) " +
				"output:crd:artifacts:config=config/components/crd/bases \\\n\t\tpaths=\"{./api/..., ./pkg/...}\"\n" +
				"\tcp -f ./config/components/crd/bases/a.yaml charts/\n" +
				"generate:\n\tset -e; ${CONTROLLER_GEN} object paths=./api/... && echo done\nunused:\n\t$(CONTROLLER_GEN) crd paths=./other\n" +
				"-- deps.mk --\nROLE := manager-role\nEMBED = generateEmbeddedObjectMeta=true\nCONTROLLER_GEN = go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0\n",
			want: [][]string{
				{"rbac:roleName=manager-role", "crd:generateEmbeddedObjectMeta=true", "output:crd:artifacts:config=config/components/crd/bases",
					"paths={./api/..., ./pkg/...}"},
				{"object", "paths=./api/..."},
			},
			unseen: "the Makefile runs controller-gen for other targets than manifests and generate",
		},
		{
			name:    "other targets",
			archive: "-- Makefile --\ncodegen:\n\tcontroller-gen object crd:maxDescLen=0 paths=./apis/... output:dir=out\n",
			want:    [][]string{{"object", "crd:maxDescLen=0", "paths=./apis/...", "output:dir=out"}},
		},
		{
			name: "go:generate",
			archive: "-- apis/gen.go --\npackage apis\n\n//go:generate go tool controller-gen object:headerFile=\"../hack/h.txt\" crd paths=./v1;./v2 output:crd:dir=../config/crd\n//go:generate stringer\n" +
				"-- tools/go.mod --\nmodule tools\n-- tools/gen.go --\npackage tools\n\n//go:generate controller-gen crd paths=.\n",
			dir:  "apis",
			want: [][]string{{"object:headerFile=../hack/h.txt", "crd", "paths={./v1,./v2}", "output:crd:dir=../config/crd"}},
		},
		{
			name:    "PROJECT",
			archive: "-- PROJECT --\nversion: \"3\"\nplugins: {flyball.dev/v1: {generate: [\"crd:maxDescLen=0 paths='./api/...'\"]}}\n-- Makefile --" + kubebuilder,
			want:    [][]string{{"crd:maxDescLen=0", "paths=./api/..."}},
		},
		{name: "a project of flyball init", archive: "-- PROJECT --\nversion: \"3\"\nplugins: {flyball.dev/v1: {runtime: flyball}}\n", want: defaults},
		{
			name:    "the Makefile of flyball init",
			archive: "-- api/a.go --\n-- Makefile --\nFLYBALL ?= go tool flyball\nmanifests:\n\t$(FLYBALL) generate\ngenerate:\n\t$(FLYBALL) generate\n",
			want:    defaults,
		},
		{
			name: "options in a conditional", archive: "-- api/a.go --\n-- Makefile --\nifeq ($(X),)\nOPTIONS = crd:maxDescLen=0\nendif\nmanifests:\n\tcontroller-gen $(OPTIONS) paths=./...\n",
			want: defaults, doubt: `the Makefile has the option "…", which only make and the shell can tell`,
		},
		{
			name: "a loop", archive: "-- api/a.go --\n-- Makefile --\nmanifests:\n\tfor d in a b; do controller-gen crd paths=./$$d; done\n",
			want: defaults, doubt: "the Makefile runs controller-gen on a condition or in a loop",
		},
		{
			name:    "a recipe in a conditional",
			archive: "-- api/a.go --\n-- Makefile --\nmanifests:\nifndef SMALL\n\tcontroller-gen crd paths=./...\nelse\n\tcontroller-gen crd:maxDescLen=0 paths=./...\nendif\n",
			want:    defaults, doubt: "the Makefile runs controller-gen on a condition or in a loop",
		},
		{
			name:    "a condition of the shell",
			archive: "-- api/a.go --\n-- Makefile --\nmanifests:\n\tif test -n \"$$SMALL\"; then controller-gen crd:maxDescLen=0 paths=./...; else controller-gen crd paths=./...; fi\n",
			want:    defaults, doubt: "the Makefile runs controller-gen on a condition or in a loop",
		},
		{
			name:    "a variable of a target",
			archive: "-- api/a.go --\n-- Makefile --\nOPTIONS = crd\nmanifests: OPTIONS = crd:maxDescLen=0\nmanifests:\n\tcontroller-gen $(OPTIONS) paths=./...\n",
			want:    defaults, doubt: `the Makefile has the option "…", which only make and the shell can tell`,
		},
		{
			name:    "a redirection",
			archive: "-- api/a.go --\n-- Makefile --\nmanifests:\n\tcontroller-gen crd paths=./... output:stdout > deploy/crds.yaml 2>&1\n",
			want:    defaults, doubt: `the Makefile has the option "…>", which only make and the shell can tell`,
		},
		{
			name: "another folder", archive: "-- api/a.go --\n-- Makefile --\nmanifests:\n\tcd api && controller-gen crd paths=./...\n",
			want: defaults, doubt: "the Makefile runs controller-gen in another folder",
		},
		{
			name: "changed afterwards",
			archive: "-- Makefile --\nmanifests:\n\tcontroller-gen crd paths=./... output:crd:artifacts:config=config/crd\n" +
				"\tyq -i 'del(.metadata.annotations)' ./config/crd/a.yaml\n",
			want:  [][]string{{"crd", "paths=./...", "output:crd:artifacts:config=config/crd"}},
			doubt: "the Makefile changes ./config/crd/a.yaml by yq after it is generated",
		},
		{
			name: "a flag", archive: "-- api/a.go --\n-- Makefile --\nmanifests:\n\tcontroller-gen --load-build-tags=x crd paths=./...\n",
			want: defaults, doubt: "the Makefile has the flag --load-build-tags=x of controller-gen",
		},
		{
			name: "a flag of flyball generate", archive: "-- api/a.go --\n-- Makefile --\nmanifests:\n\tflyball generate -v --load-build-tags x\n",
			want: defaults, doubt: "the Makefile has the flag --load-build-tags of controller-gen",
		},
		{
			name: "a variable that nobody sets", archive: "-- api/a.go --\npackage api\n\n//go:generate controller-gen crd paths=./$NOBODY_SETS_IT\n",
			want: defaults, doubt: `api/a.go has the option "paths=./…", which only make and the shell can tell`,
		},
		{
			name: "a script", archive: "-- api/a.go --\n-- Makefile --\nmanifests:\n\t./hack/update.sh\n",
			want: defaults, doubt: "neither the Makefile nor a go:generate line runs controller-gen or flyball generate",
			unseen: `the Makefile runs "./hack/update.sh", which may run controller-gen`,
		},
		{
			name: "another target has other options", want: [][]string{{"crd", "paths=./api/..."}},
			archive: "-- Makefile --\nmanifests:\n\tcontroller-gen crd paths=./api/...\nagain:\n\tcontroller-gen crd paths=./api/...\n" +
				"shared:\n\tcontroller-gen crd paths=example.com/shared/...\n",
			unseen: "the Makefile runs controller-gen for other targets than manifests and generate",
		},
		{
			name: "another target has the same options", want: [][]string{{"crd", "paths=./api/..."}},
			archive: "-- Makefile --\nmanifests:\n\tcontroller-gen crd paths=./api/...\nagain:\n\tcontroller-gen crd paths=./api/...\n",
		},
		{
			name: "another target has a script", want: [][]string{{"crd", "paths=./..."}},
			archive: "-- Makefile --\ncodegen:\n\tcontroller-gen crd paths=./...\nrelease:\n\t./hack/release.sh\n",
		},
		{
			name: "go:generate in files that go generate passes over", want: defaults,
			doubt: "neither the Makefile nor a go:generate line runs controller-gen or flyball generate",
			archive: "-- api/_gen.go --\npackage api\n\n//go:generate controller-gen crd paths=./...\n" +
				"-- api/.gen.go --\npackage api\n\n//go:generate controller-gen crd paths=./...\n",
		},
		{
			name: "go:generate with a constraint", want: defaults,
			doubt:   "neither the Makefile nor a go:generate line runs controller-gen or flyball generate",
			unseen:  `api/gen.go runs "controller-gen crd paths=./...", which go generate passes over here`,
			archive: "-- api/gen.go --\n//go:build ignore\n\npackage api\n\n//go:generate controller-gen crd paths=./...\n//go:generate stringer\n",
		},
		{
			name: "go:generate on another system", dir: "api", want: [][]string{{"crd", "paths=./..."}},
			unseen: `api/gen_plan9.go runs "controller-gen crd:maxDescLen=0", which go generate passes over here`,
			archive: "-- api/gen.go --\n//go:build generate\n\npackage api\n\n//go:generate controller-gen crd paths=./...\n" +
				"-- api/gen_plan9.go --\npackage api\n\n//go:generate controller-gen crd:maxDescLen=0\n",
		},
		{
			name: "go:generate runs a shell", dir: "api", want: [][]string{{"crd", "paths=./..."}},
			archive: "-- api/a.go --\npackage api\n\n//go:generate controller-gen crd paths=./...\n//go:generate sh -c \"controller-gen crd\"\n",
			unseen:  `api/a.go runs "sh -c controller-gen crd", which may run controller-gen`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testproject.Extract(t, tt.archive)
			got, err := complete(nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(invocations(t, tt.dir, tt.want), got.runs, all); diff != "" {
				t.Errorf("the runs (-want +got):\n%s", diff)
			}
			if got.doubt != tt.doubt || got.unseen != tt.unseen {
				t.Errorf("the doubt is %q, want %q; unseen is %q, want %q", got.doubt, tt.doubt, got.unseen, tt.unseen)
			}
		})
	}
}

// TestPathsThatAreReplaced: a run with other paths than the project's does not tell that types elsewhere are gone.
func TestPathsThatAreReplaced(t *testing.T) {
	for paths, want := range map[string]string{
		"./api/...":             "",
		"./api/v1;./api/v2":     "",
		"example.com/other/...": "the paths example.com/other/... of the project are replaced",
		"./api/...;../other":    "the paths ../other of the project are replaced",
	} {
		testproject.Extract(t, "-- api/a.go --\n-- Makefile --\nmanifests:\n\tcontroller-gen crd 'paths="+paths+"'\n")
		if c, err := complete([]string{"paths=./..."}); err != nil || c.unseen != want {
			t.Errorf("%s: unseen is %q, want %q, %v", paths, c.unseen, want, err)
		}
		if c, err := complete(nil); err != nil || c.unseen != "" {
			t.Errorf("%s: unseen is %q, %v", paths, c.unseen, err)
		}
	}
}

// TestGoGenerateAtTheEnd: a go:generate line without the end of a line is an error of go generate. Without a command, go
// generate passes over it.
func TestGoGenerateAtTheEnd(t *testing.T) {
	for end, want := range map[string]string{"": "", "\n": "", "-x": "", "\r\n": "",
		" controller-gen crd": "api/gen.go:3: the go:generate line ends without a newline, where go generate fails",
		"\tstringer":          "api/gen.go:3: the go:generate line ends without a newline, where go generate fails"} {
		testproject.Extract(t, "-- api/gen.go --\n")
		if err := os.WriteFile("api/gen.go", []byte("package api\n\n//go:generate"+end), 0o666); err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := projectCommands(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", end, got, want)
		}
	}
}

// An error in the options of a project is the project's, which flyball dev then tells.
func TestConfiguredWithAnError(t *testing.T) {
	testproject.Extract(t, "-- Makefile --\nmanifests:\n\tcontroller-gen crd:none=1 paths=./...\n")
	if _, err := complete(nil); err == nil || !strings.Contains(err.Error(), `the Makefile: unable to parse option "crd:none=1"`) {
		t.Errorf("the error is %v", err)
	}
	if !Configured() {
		t.Error("the project is not configured")
	}
}

// all compares all fields.
var all = cmp.Exporter(func(reflect.Type) bool { return true })

// invocations parses the options of some runs.
func invocations(t *testing.T, dir string, runs [][]string) (all []invocation) {
	t.Helper()
	for _, options := range runs {
		v, err := parse(dir, options)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// Files that git tracks are not overwritten unless the options that generated them are known.
func TestTrackedFilesAreKept(t *testing.T) {
	const archive = `
-- api/v1/types.go --
// +kubebuilder:object:generate=true
// +groupName=example.com
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true

// Widget is a widget.
type Widget struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `
	Labelled metav1.ObjectMeta ` + "`json:\"labelled\"`" + `
}
-- config/crd/bases/example.com_widgets.yaml --
written by other means
-- Makefile --
manifests:
	./hack/update.sh
`
	const name = "config/crd/bases/example.com_widgets.yaml"
	testproject.New(t, archive)
	git(t, "init", "-q")
	git(t, "add", "config")
	before := testproject.Files(t)
	for _, check := range []bool{false, true} {
		_, err := Run(t.Context(), Options{Tags: DefaultTags, Check: check})
		var unknown *UnknownOptionsError
		if !errors.As(err, &unknown) || !strings.HasPrefix(err.Error(), "nothing is written: "+name+" would change, which git tracks, and") {
			t.Errorf("the error is %v", err)
		}
	}
	if diff := cmp.Diff(before, testproject.Files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	// The Makefile tells.
	makefile := "manifests:\n\tcontroller-gen crd:generateEmbeddedObjectMeta=true paths=./... output:crd:dir=config/crd/bases\n"
	if err := os.WriteFile("Makefile", []byte(makefile), 0o666); err != nil {
		t.Fatal(err)
	}
	run(t, Options{})
	content := testproject.Files(t)[name]
	if !strings.Contains(content, "annotations:\n                additionalProperties:") {
		t.Errorf("the definition is without embedded metadata:\n%s", content)
	}
	if files := testproject.Files(t); files["api/v1/zz_generated.deepcopy.go"] != "" {
		t.Error("deep copies were generated, which the Makefile does not")
	}

	// The version of the generator alone changes nothing.
	other := strings.Replace(content, versionAnnotation+": "+toolsVersion(), versionAnnotation+": v0.1.0", 1)
	if err := os.WriteFile(name, []byte(other), 0o666); err != nil || other == content {
		t.Fatal(err, "the definition has no version")
	}
	if result := run(t, Options{}); len(result.Changed()) != 0 || !result.AllCurrent([]string{result.Files[0].path}) {
		t.Errorf("changed: %v", result.Changed())
	}
}

// TestTrackedWhereGitFails: where git cannot say whether it tracks a file, it may.
func TestTrackedWhereGitFails(t *testing.T) {
	repository := func(t *testing.T) { git(t, "init", "-q"); git(t, "add", "a.yaml") }
	broken := func(t *testing.T) {
		if err := os.WriteFile(".git", []byte("gitdir: nowhere\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	noGit := func(t *testing.T) { t.Setenv("PATH", t.TempDir()) }
	none := func(*testing.T) {}
	for _, tt := range []struct {
		name    string
		prepare []func(*testing.T)
		file    string
		state   State
		kept    bool
	}{
		{"tracked", []func(*testing.T){repository}, "a.yaml", Updated, true},
		{"not tracked", []func(*testing.T){repository}, "b.yaml", Updated, false},
		{"new", []func(*testing.T){repository}, "a.yaml", Created, false},
		{"stale", []func(*testing.T){repository}, "a.yaml", Stale, false},
		{"no repository", []func(*testing.T){none}, "a.yaml", Updated, false},
		{"no repository, no git", []func(*testing.T){noGit}, "a.yaml", Updated, false},
		{"a broken repository", []func(*testing.T){broken}, "a.yaml", Updated, true},
		{"a repository, no git", []func(*testing.T){repository, noGit}, "a.yaml", Updated, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testproject.Extract(t, "-- a.yaml --\n-- b.yaml --\n")
			for _, prepare := range tt.prepare {
				prepare(t)
			}
			path, err := filepath.Abs(tt.file)
			if err != nil {
				t.Fatal(err)
			}
			err = keepTracked([]File{{Path: tt.file, path: path, State: tt.state}}, "a reason")
			var unknown *UnknownOptionsError
			if kept := errors.As(err, &unknown) && slices.Equal(unknown.Files, []string{tt.file}); kept != tt.kept {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func git(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", args, err, out)
	}
}

// TestMayGenerate: a command is in doubt if it may run controller-gen, and not if it is a usual part of a recipe.
func TestMayGenerate(t *testing.T) {
	for want, lines := range map[bool][]string{
		false: {"mkdir -p out", "echo done", "go fmt ./...", "go vet ./...", "go test ./... -coverprofile cover.out", "go generate", "go generate ./...",
			"test -s bin/x || go install example.com/x@v1", "bin/kustomize build config/crd > out.yaml", "/usr/bin/yq -i . a.yaml", "! git diff --quiet",
			"echo x >&2", "echo x &>> log", "if [ -d out ]; then rm -r out; else true; fi", "for f in a b; do sed -i s/a/b/ $f; done", "docker build -t x .", "controller-gen --version",
			"go run example.com/cmd/mockgen@v1 x", "X=1 Y=2", "stringer -type X"},
		true: {"sh -c 'controller-gen crd'", "bash -c x", "make x", "./hack/update.sh", "hack/test", "cat x | sh", "go generate ./tools/...", "go run ./hack/gen",
			"cd x && go generate", "find . -exec controller-gen crd {} +", "xargs controller-gen", "docker run x controller-gen", "$X crd", "python3 gen.py",
			"env -i controller-gen crd", ". hack/lib.sh", "eval $X", "if ./hack/changed; then true; fi", "time ./hack/update.sh", "go -C tools generate"},
	} {
		for _, line := range lines {
			got, elsewhere := false, false
			for _, words := range shellCommands(line, false) {
				elsewhere = elsewhere || words[0] == "cd"
				got = got || mayGenerate(words, elsewhere)
			}
			if got != want {
				t.Errorf("%s: %v", line, got)
			}
		}
	}
}
