package peer

import (
	"bytes"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

const source = `package x_test
import . "strings"
func Describe(string, func()) bool { return true }
func It(string, func()) bool { return true }
func DescribeTable(string, ...any) bool { return true }
func Entry(string, ...any) any { return nil }
func BeforeSuite(func()) bool { return true }
var _ = BeforeSuite(func() {
	kept()
	missing()
})
var _ = Describe("a", func() {
	It("compiles", func() { _ = ToUpper("") })
	It("does not", func() { missing() })
	DescribeTable("table",
		Entry("good", 1),
		Entry("bad", missing),
		Entry("worse", helper))
	Describe("b", func() {
		x := missing
		It("uses it", func() { _ = x })
	})
	for _, name := range []string{"c"} {
		It(name, func() { _, _ = name, missing })
	}
})
func kept() {}
func helper() { missing() }
func TestHelper() { helper() }
`

// imports imports packages with the function ToUpper alone.
type imports struct{}

func (imports) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path)
	text := types.NewTuple(types.NewVar(token.NoPos, p, "", types.Typ[types.String]))
	p.Scope().Insert(types.NewFunc(token.NoPos, p, "ToUpper", types.NewSignatureType(nil, nil, nil, text, text, false)))
	p.MarkComplete()
	return p, nil
}

// TestRepair removes exactly the tests that do not compile.
func TestRepair(t *testing.T) {
	dir := t.TempDir()
	f := &testFile{name: "x/x_test.go", path: dir + "/x_test.go", content: []byte(source)}
	u := &suite{path: "x", dir: dir, files: []*testFile{f}, excluded: map[string]string{}}
	if err := u.compile(imports{}); err != nil {
		t.Fatal(err)
	}
	var excluded []string
	for spec, reason := range u.excluded {
		excluded = append(excluded, spec)
		if reason != "undefined: missing" {
			t.Errorf("%s is excluded because %s", spec, reason)
		}
	}
	slices.Sort(excluded)
	want := []string{
		"x/x_test.go:14 a does not", "x/x_test.go:17 a table bad", "x/x_test.go:18 a table worse",
		"x/x_test.go:21 a b uses it", "x/x_test.go:24 a …", "x/x_test.go:29 TestHelper",
	}
	if !slices.Equal(excluded, want) {
		t.Errorf("excluded are\n%s", strings.Join(excluded, "\n"))
	}
	for _, left := range []string{"kept()", `It("compiles"`, `Entry("good", 1)`} {
		if !bytes.Contains(f.content, []byte(left)) {
			t.Errorf("%s is gone", left)
		}
	}
	if bytes.Count(f.content, []byte("\n")) != strings.Count(source, "\n") {
		t.Error("lines have moved")
	}
}

func TestExternal(t *testing.T) {
	for source, want := range map[string]string{
		"// c\npackage x // d\n": "// c\npackage x_test; import . \"m/x\" // d\n",
		"package x_test\n":       "package x_test\n",
	} {
		got, err := external([]byte(source), "m/x", true)
		if err != nil || string(got) != want {
			t.Errorf("%q became %q, %v", source, got, err)
		}
	}
}
