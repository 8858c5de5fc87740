package generate

import (
	stdcmp "cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flyball.dev/cmd/flyball/internal/testproject"
)

const types = `
-- PROJECT --
-- api/v1/groupversion_info.go --
// Package v1 has widgets.
// +kubebuilder:object:generate=true
// +groupName=example.com
package v1
-- api/v1/widget_types.go --
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WidgetSpec is the desired state of a widget.
type WidgetSpec struct {
	// Size is the size.
	// +kubebuilder:validation:Minimum=1
	Size int ` + "`json:\"size\"`" + `
}

// +kubebuilder:object:root=true

// Widget is a widget.
type Widget struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `
	Spec WidgetSpec   ` + "`json:\"spec\"`" + `
}

// +kubebuilder:rbac:groups=example.com,resources=widgets,verbs=get;list;watch
`

// generated are the files that are generated for types without arguments.
var generated = []string{"api/v1/zz_generated.deepcopy.go", "config/crd/bases/example.com_widgets.yaml", "config/rbac/role.yaml"}

func TestRunWritesAndChecks(t *testing.T) {
	testproject.New(t, types)
	want := func(state State, result *Result) {
		t.Helper()
		var got, wanted []string
		for _, f := range result.Files {
			got = append(got, string(f.State)+" "+f.Path)
		}
		for _, path := range generated {
			wanted = append(wanted, string(state)+" "+path)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
	before := testproject.Files(t)
	want(Created, run(t, Options{Check: true}))
	if diff := cmp.Diff(before, testproject.Files(t)); diff != "" {
		t.Errorf("--check has changed files (-before +after):\n%s", diff)
	}
	want(Created, run(t, Options{}))
	crd := testproject.Files(t)[generated[1]]
	if !strings.Contains(crd, "    controller-gen.kubebuilder.io/version: "+toolsRequired+"\n") {
		t.Errorf("the CRD has no annotation with the version of controller-tools:\n%s", crd)
	}

	// A symbolic link and the permissions of a file remain.
	if err := errors.Join(os.Rename("config/rbac/role.yaml", "role.yaml"), os.Symlink("../../role.yaml", "config/rbac/role.yaml"),
		os.WriteFile("role.yaml", []byte("---\nold"), 0o600), os.Chmod("role.yaml", 0o600)); err != nil {
		t.Fatal(err)
	}
	result := run(t, Options{})
	if changed := result.Changed(); len(changed) != 1 || changed[0].State != Updated || changed[0].Line != 2 {
		t.Errorf("changed is %+v, want role.yaml from line 2", changed)
	}
	info, err := os.Stat("role.yaml")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v; want 0600", info.Mode(), err)
	}
	if link, err := os.Lstat("config/rbac/role.yaml"); err != nil || link.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the symbolic link was replaced: %v", err)
	}
	for _, path := range generated {
		abs, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		if real, err := filepath.EvalSymlinks(abs); err != nil || !result.AllCurrent([]string{real}) {
			t.Errorf("%s is not current: %v", path, err)
		}
	}
}

func TestStaleFilesAreReportedAndPruned(t *testing.T) {
	testproject.New(t, types+"-- Makefile --\nmanifests:\n\tflyball generate\n")
	run(t, Options{})
	if err := errors.Join(os.WriteFile("config/crd/bases/mine.yaml", []byte("kind: CustomResourceDefinition\n"), 0o666),
		os.Remove("api/v1/widget_types.go"),
		os.WriteFile("api/v1/other.go", []byte("package v1\n\nimport _ \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	stale := func(want State) {
		t.Helper()
		var got []string
		for _, f := range run(t, Options{Prune: want == Removed}).Files {
			if f.State == want {
				got = append(got, f.Path)
			}
		}
		if diff := cmp.Diff(generated[:2], got); diff != "" {
			t.Errorf("%s files (-want +got):\n%s", want, diff)
		}
	}
	stale(Stale)
	stale(Removed)
	files := testproject.Files(t)
	for _, path := range generated[:2] {
		if _, ok := files[path]; ok {
			t.Errorf("%s is there", path)
		}
	}
	if _, ok := files["config/crd/bases/mine.yaml"]; !ok {
		t.Error("a CRD that was not generated was removed")
	}
}

// TestPruneWithOtherPaths: only a run that has read all packages of the project tells that types are gone, however the
// option says so, and only in the folder of the project.
func TestPruneWithOtherPaths(t *testing.T) {
	for _, test := range []struct {
		paths, folder string
		pruned        bool
	}{
		{paths: `paths=./...`, pruned: true},
		{paths: `paths="./..."`, pruned: true},
		{paths: `+paths={"./..."}`, pruned: true},
		{paths: `paths=./api/v1;./...`, pruned: true},
		{paths: `paths=$PWD/...`, pruned: true},
		{paths: `paths="./api/..."`},
		{paths: `paths={./api/v1}`},
		{paths: `paths=./...`, folder: "../shared"},
	} {
		t.Run(test.paths+test.folder, func(t *testing.T) {
			testproject.New(t, types)
			wd, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			folder := stdcmp.Or(test.folder, "out")
			old := filepath.Join(folder, "old.yaml")
			if err := errors.Join(os.MkdirAll(folder, 0o777), os.WriteFile(old, []byte(staleDefinition), 0o666)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(folder) })
			run(t, Options{Prune: true, Args: []string{"crd", strings.ReplaceAll(test.paths, "$PWD", wd), `output:crd:dir="` + folder + `"`}})
			if _, err := os.Stat(old); errors.Is(err, fs.ErrNotExist) != test.pruned {
				t.Errorf("the stale definition: %v; pruned is to be %v", err, test.pruned)
			}
		})
	}
}

// staleDefinition is a definition that an earlier run has generated.
const staleDefinition = "kind: CustomResourceDefinition\nmetadata:\n  annotations:\n    " + versionAnnotation + ": v0\n"

// TestPruneThroughLinks: a file that the run generates is current, whatever the links in its path, and a folder is
// outside of the project if its target is.
func TestPruneThroughLinks(t *testing.T) {
	for _, test := range []struct {
		name    string
		project bool   // whether the project is entered through a link
		target  string // of the output folder, relative to the project
		want    []string
	}{
		{name: "the project", project: true, want: []string{"crds/old.yaml"}},
		{name: "a folder in the project", target: "charts", want: []string{"crds/old.yaml"}},
		{name: "a folder in a linked project", project: true, target: "charts", want: []string{"crds/old.yaml"}},
		{name: "a folder of another project", target: "$TMP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			testproject.New(t, types)
			wd, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			if link := filepath.Join(t.TempDir(), "link"); test.project {
				if err := os.Symlink(wd, link); err != nil {
					t.Fatal(err)
				}
				t.Chdir(link) // sets PWD, as a shell does
			}
			if target := strings.Replace(test.target, "$TMP", t.TempDir(), 1); target != "" {
				if err := errors.Join(os.MkdirAll(target, 0o777), os.Symlink(target, "crds")); err != nil {
					t.Fatal(err)
				}
			}
			options := Options{Prune: true, Args: []string{"object", "crd", "paths=./...", "output:crd:dir=crds"}}
			run(t, options)
			if err := os.WriteFile("crds/old.yaml", []byte(staleDefinition), 0o666); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, removed(run(t, options))); diff != "" {
				t.Errorf("removed files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPruneInDoubt: nothing is removed if another command may generate it.
func TestPruneInDoubt(t *testing.T) {
	for _, test := range []struct{ name, recipe, kept string }{
		{name: "known commands", recipe: "controller-gen crd paths=./... output:crd:dir=crds"},
		{name: "an unseen command", recipe: "controller-gen crd paths=./... output:crd:dir=crds; ./hack/more.sh",
			kept: `the Makefile runs "./hack/more.sh", which may run controller-gen`},
		{name: "unknown options", recipe: "controller-gen crd paths=./... output:crd:dir=crds; controller-gen crd $(shell ./options)",
			kept: `the Makefile has the option "…", which only make and the shell can tell`},
	} {
		t.Run(test.name, func(t *testing.T) {
			testproject.New(t, types+"-- crds/old.yaml --\n"+staleDefinition+"-- Makefile --\nmanifests:\n\t"+test.recipe+"\n")
			result := run(t, Options{Prune: true})
			if got := removed(result); result.Kept != test.kept || (len(got) > 0) != (test.kept == "") {
				t.Errorf("removed %q; kept, because %q, want %q", got, result.Kept, test.kept)
			}
		})
	}
}

// TestPruneInAFolderWithBrackets: the name of a folder is no pattern.
func TestPruneInAFolderWithBrackets(t *testing.T) {
	testproject.New(t, types+"-- crds1/old.yaml --\n"+staleDefinition+"-- crds[12]/old.yaml --\n"+staleDefinition)
	options := []string{"crd", "paths=./...", `output:crd:dir="crds[12]"`}
	if diff := cmp.Diff([]string{"crds[12]/old.yaml"}, removed(run(t, Options{Prune: true, Args: options}))); diff != "" {
		t.Errorf("removed files (-want +got):\n%s", diff)
	}
}

// TestPruneOfALink: a link to a stale file stays, and so does the file.
func TestPruneOfALink(t *testing.T) {
	for name, folder := range map[string]string{"to the project": ".", "to another folder": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			testproject.New(t, types)
			old, err := filepath.Abs(filepath.Join(folder, "old.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(old, []byte(staleDefinition), 0o666), os.Mkdir("crds", 0o777),
				os.Symlink(old, "crds/old.yaml")); err != nil {
				t.Fatal(err)
			}
			run(t, Options{Prune: true, Args: []string{"crd", "paths=./...", "output:crd:dir=crds"}})
			if content, err := os.ReadFile("crds/old.yaml"); err != nil || string(content) != staleDefinition {
				t.Errorf("the file has %q, %v", content, err)
			}
		})
	}
}

// removed returns the files that a run has removed.
func removed(result *Result) (paths []string) {
	for _, f := range result.Files {
		if f.State == Removed {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

func TestErrorsHaveAPlaceAndWriteNothing(t *testing.T) {
	for _, test := range []struct {
		name     string
		old, new string
		args     []string
		want     []string
	}{
		{name: "markers", old: "// +kubebuilder:validation:Minimum=1\n",
			new: "// +kubebuilder:validation:Minimum=one\n\t// +kubebuilder:validation:XValidation:rule=`self > 1`,mesage=`x`\n",
			want: []string{
				`api/v1/widget_types.go:8:2: marker +kubebuilder:validation:Minimum: invalid minimum value: strconv.ParseFloat: ` +
					`parsing "one": invalid syntax; its arguments: =float64`,
				`api/v1/widget_types.go:9:2: marker +kubebuilder:validation:XValidation: unknown argument "mesage"; its arguments: ` +
					`[fieldPath=string], [message=string], [messageExpression=string], [optionalOldSelf=bool], [reason=string], rule=string`,
			}},
		{name: "argument", old: "resources=widgets", new: "resorces=widgets", want: []string{
			`api/v1/widget_types.go:21:1: marker +kubebuilder:rbac: unknown argument "resorces"; its arguments: [groups=string;...], ` +
				`[namespace=string], [resourceNames=string;...], [resources=string;...], [roleName=string], [urls=string;...], verbs=string;...`}},
		{name: "types", old: "// +kubebuilder:validation:Minimum=1\n\tSize int `json:\"size\"`", new: "// It is a number.\n\tSize float64 `json:\"size\"`\n\tF func() `json:\"f\"`\n\tName string\n\tU Unknown `json:\"u\"`",
			want: []string{
				`api/v1/widget_types.go:9:7: found float, the usage of which is highly discouraged, as support for them varies across ` +
					`languages. Please consider serializing your float as string instead. If you are really sure you want to use them, ` +
					`re-run with crd:allowDangerousTypes=true`,
				`api/v1/widget_types.go:10:2: invalid field type: func()`,
				`api/v1/widget_types.go:10:4: unsupported AST kind *ast.FuncType: functions cannot be in the types of an API`,
				`api/v1/widget_types.go:11:2: encountered struct field "Name" without JSON tag in type "WidgetSpec": ` +
					`give it one, such as json:"name", or json:"-" to leave the field out`,
				`api/v1/widget_types.go:12:4: unknown type Unknown`,
			}},
		{name: "syntax", old: "type Widget struct {", new: "type Widget {",
			want: []string{`api/v1/widget_types.go:15:13: expected type, found '{'`,
				`api/v1/widget_types.go:17:2: expected declaration, found metav1`}},
		{name: "import", old: "import metav1", new: "import _ \"example.com/nowhere\"\nimport metav1",
			want: []string{`api/v1/widget_types.go:3:8: no required module provides package example.com/nowhere; to add it: go get example.com/nowhere`}},
		{name: "option", args: []string{"crdd"}, want: []string{
			`unknown option "crdd": it must be one of the generators applyconfiguration, crd, object, rbac, schemapatch, webhook, or ` +
				`paths=..., output:RULE... or output:GENERATOR:RULE... with one of the rules artifacts, dir, none, stdout; ` +
				`flyball generate -h explains them`}},
		{name: "no packages", args: []string{"crd", "paths=./config/..."}, want: []string{`no Go packages match ./config/...`}},
		{name: "no Go files", args: []string{"crd"}, want: []string{`no Go files in .: name the folders with Go files, such as paths=./api/...`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			testproject.New(t, strings.Replace(types, test.old, test.new, 1)+"-- config/x.yaml --\n")
			before := testproject.Files(t)
			_, err := Run(t.Context(), Options{Args: test.args, Tags: DefaultTags})
			if err == nil {
				t.Fatal("there is no error")
			}
			dir, _ := os.Getwd()
			got := strings.Split(strings.ReplaceAll(err.Error(), dir, "."), "\n")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, testproject.Files(t)); diff != "" {
				t.Errorf("files have changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestErrorsOfTheModule(t *testing.T) {
	for _, test := range []struct{ name, project, want string }{
		{"no module", "-- api/v1/a.go --\npackage v1\n", "run it in the folder of a project; flyball init makes one"},
		{"Go too old", "-- go.mod --\nmodule example.com/p\n\ngo 1.999\n-- api/v1/a.go --\npackage v1\n",
			"requires go >= 1.999 (running go"},
		{"a workspace of others", "-- go.work --\ngo 1.26\n\nuse ./other\n-- other/go.mod --\nmodule other\n-- go.mod --\nmodule example.com/p\n-- api/v1/a.go --\npackage v1\n",
			"add this module to the workspace with go work use ., or set GOWORK=off"},
		{"no project", "-- a.go --\npackage a\n", "is not the folder of a project in Kubebuilder's layout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			testproject.Extract(t, test.project)
			_, err := Run(t.Context(), Options{Tags: DefaultTags})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %q", err)
			}
		})
	}
}

func TestUnknownMarkersAreWarnedOf(t *testing.T) {
	testproject.New(t, strings.Replace(types, "+kubebuilder:validation:Minimum=1",
		"+kubebuilder:validaton:Minimum=1\n\t// +kubebuilder:scaffold:x\n\t// +mine:x", 1))
	var got []string
	for _, w := range run(t, Options{}).Warnings {
		got = append(got, w.String())
	}
	want := []string{"api/v1/widget_types.go:8:2: no generator knows the marker +kubebuilder:validaton:Minimum, so it has no effect; " +
		"did you mean +kubebuilder:validation:Minimum?"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestUnknownOptionsAreWarnedOf: a run that leaves a command of the project out, or stands for it, says so.
func TestUnknownOptionsAreWarnedOf(t *testing.T) {
	for recipe, want := range map[string][]string{
		"flyball generate":                          nil,
		"controller-gen crd $(X)":                   {`the Makefile has the option "…", which only make and the shell can tell: Kubebuilder's defaults apply`},
		"flyball generate; controller-gen crd $(X)": {`the Makefile has the option "…", which only make and the shell can tell`},
	} {
		t.Run(recipe, func(t *testing.T) {
			testproject.New(t, types+"-- Makefile --\nmanifests:\n\t"+recipe+"\n")
			var got []string
			for _, w := range run(t, Options{}).Warnings {
				got = append(got, w.String())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLineEndings: git may check files out with the line endings of Windows. They are up to date.
func TestLineEndings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for content, want := range map[string]State{"a\r\nb\r\n": Unchanged, "a\nb\n": Unchanged, "a\r\nc\r\n": Updated} {
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if file, err := compare(path, []byte("a\nb\n")); err != nil || file.State != want {
			t.Errorf("%q is %s, %v", content, file.State, err)
		}
	}
}

func TestWriteIsAllOrNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, content := range map[string]string{"a": "old", "z/file": "in the way"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(content), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	before := testproject.Files(t)
	updated, created := File{State: Updated, path: "a", new: []byte("new")}, File{State: Created, path: "m/b/c", new: []byte("new")}
	for name, last := range map[string]File{
		"a folder cannot be made":     {State: Created, path: "z/file/x"},
		"a file cannot be replaced":   {State: Updated, path: "z"},
		"a stale file cannot be gone": {State: Stale, path: "z"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := write([]File{updated, created, last}, true); err == nil {
				t.Error("there is no error")
			}
			if diff := cmp.Diff(before, testproject.Files(t)); diff != "" {
				t.Errorf("files have changed (-before +after):\n%s", diff)
			}
			if _, err := os.Stat("m"); err == nil {
				t.Error("a folder was left")
			}
		})
	}
	if err := write([]File{updated, created}, true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "new", "m/b/c": "new", "z/file": "in the way"}, testproject.Files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestCompleteAddsWhatIsMissing(t *testing.T) {
	testproject.Extract(t, "-- hack/boilerplate.go.txt --\n-- apis/x/v1/a.go --\n")
	project := []string{"rbac:roleName=manager-role", "crd", "webhook", "object:headerFile=hack/boilerplate.go.txt",
		"applyconfiguration:headerFile=hack/boilerplate.go.txt"}
	paths, output := "paths=./...", "output:crd:artifacts:config=config/crd/bases"
	for _, test := range []struct{ args, want []string }{
		{nil, append(slices.Clone(project), paths, output)},
		{[]string{"paths=./apis/..."}, append(slices.Clone(project), output, "paths=./apis/...")},
		{[]string{"output:stdout"}, append(slices.Clone(project), paths, "output:stdout")},
		{[]string{"object"}, []string{"object"}},
		{[]string{"+crd:maxDescLen=0", "paths=."}, []string{"+crd:maxDescLen=0", "paths=."}},
	} {
		got, err := complete(test.args)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(invocations(t, ".", [][]string{test.want}), got.runs, all); diff != "" {
			t.Errorf("complete(%q) (-want +got):\n%s", test.args, diff)
		}
	}
}

func run(t *testing.T, o Options) *Result {
	t.Helper()
	o.Tags = DefaultTags
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestRequiredVersionIsThatOfTheModule(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", toolsModule).Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != toolsRequired {
		t.Errorf("go.mod requires %s %s, %v; the constant is %s", toolsModule, got, err, toolsRequired)
	}
}
