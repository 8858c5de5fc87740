package references

import (
	"path/filepath"
	"slices"
	"testing"

	_ "flyball.dev/internal/orphans"
)

// named returns a module that has directives with references.
func named(t *testing.T, refs ...string) *Module {
	t.Helper()
	var directives []Directive
	for i, text := range refs {
		ref, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		directives = append(directives, Directive{Reference: ref, File: "a.go", Line: i + 1, Name: "F"})
	}
	return &Module{Directives: directives}
}

// compare compares sums with a release.
func compare(t *testing.T, sums Sums, release *Release, module *Module, want ...string) {
	t.Helper()
	drifts, err := sums.Compare(release, module)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range drifts {
		got = append(got, d.String())
	}
	equal(t, got, want)
}

// acknowledge acknowledges a release, and reads what was written.
func acknowledge(t *testing.T, sums Sums, release *Release, module *Module) Sums {
	t.Helper()
	sums, err := sums.Acknowledge(release, module)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "upstream.sum")
	if err := sums.Write(file); err != nil {
		t.Fatal(err)
	}
	if sums, err = ReadSums(file); err != nil {
		t.Fatal(err)
	}
	return sums
}

// TestSums checks which changes of a release need acknowledgement: a body that changed, a name that vanished, and neither comments
// nor line breaks.
func TestSums(t *testing.T) {
	older := openTest(t, "testdata/older.txtar", "v1.36.3")
	newer := openTest(t, "testdata/upstream.txtar", "v1.37.2")
	const pkg = "pkg/apis/core/validation."
	module := named(t, pkg+"ValidatePort", pkg+"Wrapped", pkg+"Pod.valid", pkg+"Gone", "k8s.io/klog/v2.Info", pkg+"Pod.valid")

	compare(t, nil, older, named(t, pkg+"ValidatePort"), "new "+pkg+"ValidatePort\n\ta.go:1 F")
	sums := acknowledge(t, nil, older, module)
	compare(t, sums, older, module)

	changed := "changed " + pkg + "Pod.valid\n\ta.go:3 F\n\ta.go:6 F\n\tgo run -C test/mirror . diff v1.36.3 " + pkg + "Pod.valid"
	gone := "gone " + pkg + "Gone\n\ta.go:4 F\n\tgo run -C test/mirror . diff v1.36.3 " + pkg + "Gone"
	logged := "changed k8s.io/klog/v2.Info\n\ta.go:5 F\n\tgo run -C test/mirror . diff v1.36.3 k8s.io/klog/v2.Info"
	compare(t, sums, newer, module, changed, gone, logged)

	sums = acknowledge(t, sums, newer, module)
	compare(t, sums, newer, module, gone)
	for ref, version := range map[string]string{"ValidatePort": "v1.36.3", "Wrapped": "v1.36.3", "Pod.valid": "v1.37.2", "Gone": "v1.36.3"} {
		if got := sums[Reference{Folder: "pkg/apis/core/validation", Name: ref}].Version; got != version {
			t.Errorf("%s was read in %s, want %s", ref, got, version)
		}
	}

	module.Directives = append(module.Directives[:3:3], module.Directives[4])
	compare(t, sums, newer, module, "gone "+pkg+"Gone\n\tgo run -C test/mirror . diff v1.36.3 "+pkg+"Gone")
	sums = acknowledge(t, sums, newer, module)
	compare(t, sums, newer, module)
	module.Directives = module.Directives[1:]
	compare(t, sums, newer, module, "unused "+pkg+"ValidatePort")
}

// TestGenerated checks that the sums have the generated validation of a kind with what it uses, and name a value that it newly allows
// and a function that it newly calls. What a directive names is not also the kind's.
func TestGenerated(t *testing.T) {
	older := openTest(t, "testdata/older.txtar", "v1.36.3")
	newer := openTest(t, "testdata/upstream.txtar", "v1.37.2")
	module, err := Read(extract(t, "testdata/kinds.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	sums := acknowledge(t, nil, older, module)
	var got []string
	for ref := range sums {
		got = append(got, ref.String())
	}
	slices.Sort(got)
	equal(t, got, []string{
		"pkg/apis/apps/v1.ValidateCustom_Mode",
		"pkg/apis/apps/v1.Validate_Former",
		"pkg/apis/apps/v1.Validate_Widget",
		"pkg/apis/apps/v1.Validate_WidgetSpec",
		"pkg/apis/apps/v1.symbolsForMode",
		"pkg/apis/core/v1.Validate_Template",
		"pkg/apis/core/v1.Validate_Volume",
	})
	diff := "\n\tgo run -C test/mirror . diff v1.36.3 pkg/apis/apps/v1."
	compare(t, sums, newer, module,
		"changed pkg/apis/apps/v1.Validate_WidgetSpec\n\tkinds/widget.go:15 Widgets"+diff+"Validate_WidgetSpec",
		"changed pkg/apis/apps/v1.symbolsForMode\n\tkinds/widget.go:15 Widgets"+diff+"symbolsForMode",
		"new pkg/apis/apps/v1.Validate_Size\n\tkinds/widget.go:15 Widgets",
		"changed pkg/apis/core/v1.Validate_Volume\n\tkinds/widget.go:20 template\n\tgo run -C test/mirror . diff v1.36.3 pkg/apis/core/v1.Validate_Volume",
		"gone pkg/apis/apps/v1.Validate_Former"+diff+"Validate_Former",
	)
	changes, err := Compare(older, newer, module, Reference{Folder: "pkg/apis/apps/v1", Name: "Validate_Former"})
	if err != nil || len(changes.Changes) != 1 || changes.Changes[0].Kind() != "gone" {
		t.Errorf("got %v, %v", changes, err)
	}

	first := named(t, "k8s.io/klog/v2.Info") // at a.go
	module.Directives = append(module.Directives, first.Directives...)
	if changes, err = Compare(older, newer, module); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, change := range changes.Changes {
		files = append(files, change.Places[0].File)
	}
	if !slices.IsSorted(files) || files[0] != "a.go" {
		t.Errorf("the changes are at %v, not sorted", files)
	}
}

// TestHash checks which texts are equal.
func TestHash(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		equal bool
	}{
		{"func F() {\n\tg()\n}\n", "func F() { g() }\n", true},
		{"func F() {\n\tg(\n\t\t1,\n\t)\n}\n", "func F()\t{ g(1) }\n", true},
		{"var a = []int{\n\t1,\n\t2,\n}\n", "var a = []int{1, 2}\n", true},
		{"func F() {\n\tg()\n\th()\n}\n", "func F() { g(); h() }\n", true},
		{"func F() {\n\tg()\n\th()\n}\n", "func F() {\n\th()\n\tg()\n}\n", false},
		{"var a = \"b c\"\n", "var a = \"b  c\"\n", false},
		{"const A // as _ = iota // iota = 1\n", "const A // as _ = iota // iota = 2\n", false},
		{"var a = f(b, c)\n", "var a = f(bc)\n", false},
		{"", "func F() {}\n", false},
	} {
		if (hash(c.a) == hash(c.b)) != c.equal {
			t.Errorf("%q and %q: want equal %t", c.a, c.b, c.equal)
		}
	}
}
