package scaffold

import (
	"strings"
	"testing"
)

func TestInsertItem(t *testing.T) {
	for _, tt := range []struct{ name, content, marker, item, want string }{
		{"at the end", "resources:\n- a\n\npatches:\n- path: x\n", "", "b", "resources:\n- a\n- b\n\npatches:\n- path: x\n"},
		{"after a comment within", "resources:\n- a\n# about b\n- b\n# about d\n#- d\n", "", "c", "resources:\n- a\n# about b\n- b\n- c\n# about d\n#- d\n"},
		{"before a marker", "resources:\n- a\n# +kubebuilder:scaffold:m\n- b\n", "m", "c", "resources:\n- a\n- c\n# +kubebuilder:scaffold:m\n- b\n"},
		{"without the marker", "resources:\n- a\n", "m", "c", "resources:\n- a\n- c\n"},
		{"indented", "resources:\n  - a\n  # +kubebuilder:scaffold:m\n", "m", "b", "resources:\n  - a\n  - b\n  # +kubebuilder:scaffold:m\n"},
		{"an empty list", "resources: []\nx: y\n", "", "a", "resources: \n- a\nx: y\n"},
		{"a list of nothing", "resources:\n# +kubebuilder:scaffold:m\n", "m", "a", "resources:\n- a\n# +kubebuilder:scaffold:m\n"},
		{"no list", "x: y", "", "a", "x: y\n\nresources:\n- a\n"},
		{"a list in comments", "#resources:\n#- b\n", "", "a", "#resources:\n#- b\n\nresources:\n- a\n"},
		{"it is there", "resources: [a, b]\n", "", "b", "resources: [a, b]\n"},
		{"an object", "resources:\n- path: x\n", "", "path: y\ntarget:\n  kind: Z", "resources:\n- path: x\n- path: y\n  target:\n    kind: Z\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := insertItem([]byte(tt.content), tt.marker, "resources", tt.item)
			if err != nil || string(got) != tt.want {
				t.Errorf("%v\n%s", err, got)
			}
		})
	}
	for _, content := range []string{"resources: [a]\n", "resources:\n- a\nx:\n- c\n# +kubebuilder:scaffold:m\n"} {
		if _, err := insertItem([]byte(content), "m", "resources", "b"); err == nil || !strings.Contains(err.Error(), `cannot insert into the list "resources": insert this yourself:`) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

func TestInsertGo(t *testing.T) {
	const formatted = "package p\n\nimport (\n\t\"b\"\n\t// +kubebuilder:scaffold:imports\n)\n"
	got, err := insertGo([]byte(formatted), "imports", "\t\"a\"\n")
	if want := "package p\n\nimport (\n\t\"a\"\n\t\"b\"\n\t// +kubebuilder:scaffold:imports\n)\n"; err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	again, err := insertGo(got, "imports", "\t\"a\"\n")
	if err != nil || string(again) != string(got) {
		t.Errorf("inserted twice: %v\n%s", err, again)
	}
	// A file that the user has not formatted stays unformatted.
	const unformatted = "package p\n\nvar   x = 1\n//+kubebuilder:scaffold:imports\n"
	got, err = insertGo([]byte(unformatted), "imports", "var y = 2\n")
	if want := "package p\n\nvar   x = 1\nvar y = 2\n//+kubebuilder:scaffold:imports\n"; err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}
