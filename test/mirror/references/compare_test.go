package references

import (
	"strings"
	"testing"

	_ "flyball.dev/internal/orphans"
)

// TestCompare checks what differs between two releases, in whichever order they are given.
func TestCompare(t *testing.T) {
	older := openTest(t, "testdata/older.txtar", "v1.36.3")
	newer := openTest(t, "testdata/upstream.txtar", "v1.37.2")
	var directives []Directive
	for _, c := range []struct{ file, reference string }{
		{"a.go", "pkg/apis/core/validation.ValidatePort"},
		{"a.go", "pkg/apis/core/validation.Pod"},
		{"a.go", "pkg/apis/core/validation.Pod.Validate"},
		{"a.go", "pkg/apis/core/validation.Two"},
		{"a.go", "pkg/apis/core/validation.Wrapped"},
		{"b.go", "pkg/apis/core/validation.Pod"},
		{"b.go", "pkg/apis/core/validation.Gone"},
		{"b.go", "pkg/apis/core/validation/validation.go"},
		{"b.go", "k8s.io/apiserver/pkg/registry/"},
		{"b.go", "k8s.io/klog/v2.Info"},
	} {
		ref, err := Parse(c.reference)
		if err != nil {
			t.Fatal(err)
		}
		directives = append(directives, Directive{Reference: ref, File: c.file, Line: len(directives) + 1, Name: "F"})
	}
	changes, err := Compare(newer, older, &Module{Directives: directives})
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	if err := changes.Print(&list, true); err != nil {
		t.Fatal(err)
	}
	equal(t, strings.Split(list.String(), "\n"), strings.Split(`== a.go
changed pkg/apis/core/validation.Pod
	a.go:2 F
	b.go:6 F
changed pkg/apis/core/validation.Two
	a.go:4 F

== b.go
gone pkg/apis/core/validation.Gone
	b.go:7 F
new pkg/apis/core/validation/validation.go
	b.go:8 F
changed k8s.io/klog/v2.Info
	b.go:10 F

9 declarations from v1.36.3 to v1.37.2: 3 changed, 1 new, 1 gone, 4 unchanged
`, "\n"))

	changes, err = Compare(newer, older, &Module{Directives: directives}, directives[1].Reference)
	if err != nil {
		t.Fatal(err)
	}
	var diff strings.Builder
	if err := changes.Print(&diff, false); err != nil {
		t.Fatal(err)
	}
	if want := `--- v1.36.3
+++ v1.37.2
@@ -4,4 +4,4 @@
 
 func (p *Pod) Validate() error	{ return nil }
 
-func (p Pod) valid() bool	{ return false }
+func (p Pod) valid() bool	{ return true }


1 declarations from v1.36.3 to v1.37.2: 1 changed, 0 new, 0 gone, 0 unchanged
`; !strings.Contains(diff.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", diff.String(), want)
	}
}

// TestCompareUnknown checks that a reference to what neither release has is an error.
func TestCompareUnknown(t *testing.T) {
	release := openTest(t, "testdata/upstream.txtar", "v1.37.2")
	module := &Module{Directives: []Directive{{Reference: Reference{Folder: "pkg/a", Name: "A"}, File: "a.go", Line: 1}}}
	_, err := Compare(release, release, module)
	if err == nil || err.Error() != "a.go:1: pkg/a.A is in neither v1.37.2 nor v1.37.2" {
		t.Errorf("got %v", err)
	}
	_, err = Compare(release, release, module, Reference{Folder: "pkg/a", Name: "B"})
	if err == nil || err.Error() != "no code mirrors pkg/a.B" {
		t.Errorf("got %v", err)
	}
}
