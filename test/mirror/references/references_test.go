package references

import (
	"errors"
	"go/scanner"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/tools/txtar"
)

// extract writes the files of an archive into a new folder.
func extract(t *testing.T, archive string) string {
	t.Helper()
	parsed, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, file := range parsed.Files {
		name := filepath.Join(root, filepath.FromSlash(file.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, file.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// openTest opens the release in an archive.
func openTest(t *testing.T, archive, version string) *Release {
	t.Helper()
	root := extract(t, archive)
	release, err := open(version, func(m module.Version) (string, error) {
		return filepath.Join(root, filepath.FromSlash(m.String())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// equal compares lines.
func equal(t *testing.T, got, want []string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// TestRead checks which directives are found, and which are wrong.
func TestRead(t *testing.T) {
	m, err := Read(extract(t, "testdata/ours.txtar"))
	var got []string
	for _, d := range m.Directives {
		if strings.HasPrefix(d.File, "good/") {
			got = append(got, d.Place()+" "+d.Name+" "+d.Reference.String())
		}
	}
	equal(t, got, []string{
		"good/good.go:6 validatePort pkg/apis/core/validation.validateServicePort",
		"good/good.go:7 validatePort k8s.io/apiserver/pkg/registry/generic/registry.Store.Create",
		"good/good.go:12 Table pkg/printers/printers.go",
		"good/good.go:18 One pkg/apis/core/validation.Two",
		"good/good.go:26 T pkg/apis/core/v1/",
		"good/good.go:32 T.M pkg/apis/core/validation.T",
	})
	equal(t, strings.Split(err.Error(), "\n"), []string{
		`reason/reason.go:3: //upstream:none has no reason`,
		`wrong/wrong.go:3: //upstream:pkg/apis/core/v1/ is not in the doc comment of a declaration`,
		`wrong/wrong.go:6: //upstream:pkg/a.Floating is not in the doc comment of a declaration`,
		`wrong/wrong.go:10: //upstream:pkg/a.Body is not in the doc comment of a declaration`,
		`wrong/wrong.go:11: //upstream:pkg/a.Trailing is not in the doc comment of a declaration`,
		`wrong/wrong.go:16: //upstream:pkg/a.Field is not in the doc comment of a declaration`,
		`wrong/wrong.go:20: no reference`,
		`wrong/wrong.go:21: "pkg/a.A and more" has spaces; a line has one reference and nothing else`,
		`wrong/wrong.go:22: pkg/a is not PATH.NAME, PATH.TYPE.METHOD, PATH/FILE.go or PATH/`,
		`wrong/wrong.go:23: pkg/a.B.C.D is not PATH.NAME, PATH.TYPE.METHOD, PATH/FILE.go or PATH/`,
		`wrong/wrong.go:24: staging/src/k8s.io/api/core/v1.Pod is a module of its own: write k8s.io/api/core/v1.Pod`,
		`wrong/wrong.go:25: //upstream:none, but the function has references`,
		`wrong/wrong.go:26: "/pkg/a.A" has an empty element`,
		`wrong/wrong.go:27: // upstream:pkg/a.Space is no directive, which begins with //upstream: without a space`,
		`wrong/wrong.go:28: //upstream pkg/a.Colon is no directive, which begins with //upstream: without a space`,
		`wrong/wrong.go:31: //upstream:none is not in the comment of a package or a function`,
		`wrong/wrong.go:34: //upstream:none has no reason`,
		`both/both.go:3: //upstream:none, but package both has references`,
	})
	for folder, want := range map[string]Package{"good": {References: 6}, "none": {None: "none/doc.go:3"}, "bare": {}} {
		if got := m.Packages[folder]; got == nil || *got != want {
			t.Errorf("package %s: got %v, want %v", folder, got, want)
		}
	}
	for _, folder := range []string{"nested", "good/testdata"} {
		if m.Packages[folder] != nil {
			t.Errorf("package %s is not of the module", folder)
		}
	}
}

// TestText checks which source a reference covers.
func TestText(t *testing.T) {
	release := openTest(t, "testdata/upstream.txtar", "v1.37.2")
	for _, c := range []struct{ reference, want string }{
		{"pkg/apis/core/validation.ValidatePort", "func ValidatePort(port int) error {\n\treturn nil\n}\n"},
		{"pkg/apis/core/validation.Pod", "type Pod struct {\n\tName string\n}\n\nfunc (p *Pod) Validate() error\t{ return nil }\n\nfunc (p Pod) valid() bool\t{ return true }\n"},
		{"pkg/apis/core/validation.Pod.valid", "func (p Pod) valid() bool\t{ return true }\n"},
		{"pkg/apis/core/validation.List", "type List[K, V any] []V\n\nfunc (l List[K, V]) Len() int\t{ return len(l) }\n"},
		{"pkg/apis/core/validation.Four", "const Four // as _ = iota * 2 // iota = 2\n"},
		{"pkg/apis/core/validation.Word", "const Word = \"word\"\n"},
		{"pkg/apis/core/validation.B", "var a, B = 1, 2\n"},
		{"pkg/apis/core/validation.OnLinux", "func OnLinux()\t{}\n"},
		{"pkg/apis/core/validation/more_linux.go", "func OnLinux()\t{}\n"},
		{"k8s.io/apiserver/pkg/registry/", "type Store struct{}\n\nfunc (s *Store) Create()\t{}\n"},
		{"k8s.io/apiserver/pkg/registry.Store.Create", "func (s *Store) Create()\t{}\n"},
		{"gopkg.in/yaml.v3.Node.Decode", "func (n *Node) Decode()\t{}\n"},
		{"k8s.io/klog/v2.Info", "func Info()\t{}\n"},
	} {
		ref, err := Parse(c.reference)
		if err != nil {
			t.Error(err)
			continue
		}
		if ref.String() != c.reference {
			t.Errorf("%s is written as %s", c.reference, ref)
		}
		got, err := release.Text(ref)
		if err != nil || got != c.want {
			t.Errorf("%s: got %v\n%q\nwant\n%q", c.reference, err, got, c.want)
		}
	}
}

// TestNotFound checks the errors for references to what there is not.
func TestNotFound(t *testing.T) {
	release := openTest(t, "testdata/upstream.txtar", "v1.37.2")
	for _, c := range []struct{ reference, want string }{
		{"pkg/apis/core/validation.validatePort", "Kubernetes v1.37.2 has no such declaration; is it pkg/apis/core/validation.ValidatePort?"},
		{"pkg/apis/core/validation.ValidatePorts", "Kubernetes v1.37.2 has no such declaration; is it pkg/apis/core/validation.ValidatePort?"},
		{"pkg/apis/core/validation.valid", "Kubernetes v1.37.2 has no such declaration; is it pkg/apis/core/validation.Pod.valid?"},
		{"pkg/apis/core/validation.Pod.Name", "Kubernetes v1.37.2 has no such declaration"},
		{"pkg/apis/core/validation.OnWindows", "Kubernetes v1.37.2 has no such declaration"},
		{"pkg/apis/core/validation.TestOnly", "Kubernetes v1.37.2 has no such declaration"},
		{"pkg/apis/core/validation/validations.go", "Kubernetes v1.37.2 has no such file with declarations for linux; is it pkg/apis/core/validation/validation.go?"},
		{"pkg/apis/core/valdation.ValidatePort", "Kubernetes v1.37.2 has no such folder; is it pkg/apis/core/validation.ValidatePort?"},
		{"pkg/apis/core/", "Kubernetes v1.37.2 has no such declaration"},
		{"k8s.io/unknown/pkg/a.A", "Kubernetes v1.37.2 has no such module"},
		{"k8s.io/apiserver/pkg/registry.Store.Update", "Kubernetes v1.37.2 has no such declaration; is it k8s.io/apiserver/pkg/registry.Store.Create?"},
	} {
		ref, err := Parse(c.reference)
		if err != nil {
			t.Error(err)
			continue
		}
		_, err = release.Text(ref)
		missing, ok := errors.AsType[*NotFoundError](err)
		if !ok || missing.Error() != c.reference+": "+c.want {
			t.Errorf("got  %v\nwant %s: %s", err, c.reference, c.want)
		}
	}
}

// TestSyntaxError checks that a file that cannot be parsed is an error.
func TestSyntaxError(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("package a\n\n//upstream:pkg/a.A\nfunc\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Read(root)
	if _, ok := errors.AsType[scanner.ErrorList](err); !ok {
		t.Errorf("got %v, want a syntax error", err)
	}
}
