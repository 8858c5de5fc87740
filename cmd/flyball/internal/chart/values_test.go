package chart

import (
	"slices"
	"testing"
)

func TestMergeValues(t *testing.T) {
	for _, tt := range []struct {
		name, edited, last, generated, want string
		kept                                []string
	}{
		{"nothing has changed", "a:   1 # odd\n", "a: 1\n", "a: 1\n", "a:   1 # odd\n", nil},
		{"config has changed", "# mine\na: 1\nb: 2\n", "a: 1\nb: 2\n", "a: 3\nb: 2\n", "# mine\na: 3\nb: 2\n", nil},
		{"a person has changed it", "a: 2\n", "a: 1\n", "a: 1\n", "a: 2\n", nil},
		{"both have", "a: 2\n", "a: 1\n", "a: 3\n", "a: 2\n", []string{"a"}},
		{"both have, in the same way", "a: 3\n", "a: 1\n", "a: 3\n", "a: 3\n", nil},
		{"in a group", "g: {a: 2, b: 1}\n", "g: {a: 1, b: 1}\n", "g: {a: 3, b: 2}\n", "g: {a: 2, b: 2}\n", []string{"g.a"}},
		{"a new value", "a: 1\n", "a: 1\n", "a: 1\n# new\nb: {c: d}\n", "a: 1\n# new\nb: {c: d}\n", nil},
		{"a person has removed it", "a: 1\n", "a: 1\nb: 2\n", "a: 1\nb: 3\n", "a: 1\n", nil},
		{"config has removed it", "a: 1\nb: 2\n", "a: 1\nb: 2\n", "a: 1\n", "a: 1\n", nil},
		{"config has removed what a person has changed", "a: 1\nb: 3\n", "a: 1\nb: 2\n", "a: 1\n", "a: 1\nb: 3\n", nil},
		{"a value of one's own", "a: 1\nmine: 2\n", "a: 1\n", "a: 2\n", "a: 2\nmine: 2\n", nil},
		{"a list", "a:\n- 1\n", "a:\n- 1\n", "a:\n- 1\n- 2\n", "a:\n- 1\n- 2\n", nil},
		{"a list that a person has changed", "a:\n- 3\n", "a:\n- 1\n", "a:\n- 2\n", "a:\n- 3\n", []string{"a"}},
		{"it is not known what was generated", "a: 2\n", "", "a: 1\nb: 1\n", "a: 2\nb: 1\n", []string{"a"}},
		{"another type", "a: {b: c}\n", "a: {b: c}\n", "a: 1\n", "a: 1\n", nil},
		{"a null of a person", "a: null\n", "a: 1\n", "a: 2\n", "a: null\n", []string{"a"}},
		{"an empty file", "", "a: 1\n", "a: 1\n", "a: 1\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, kept, err := MergeValues([]byte(tt.edited), []byte(tt.last), []byte(tt.generated))
			if err != nil || string(got) != tt.want || !slices.Equal(kept, tt.kept) {
				t.Errorf("%q, %q, %v, want %q, %q", got, kept, err, tt.want, tt.kept)
			}
		})
	}
}

func TestSplitImage(t *testing.T) {
	for image, want := range map[string][2]string{
		"controller": {"controller", "latest"}, "controller:v1": {"controller", "v1"},
		"example.com:5000/a/b": {"example.com:5000/a/b", "latest"}, "example.com:5000/a/b:v1": {"example.com:5000/a/b", "v1"},
		"a/b@sha256:0123": {"a/b", "sha256:0123"}, "a/b:v1@sha256:0123": {"a/b:v1", "sha256:0123"},
	} {
		if repository, tag := splitImage(image); repository != want[0] || tag != want[1] {
			t.Errorf("%s: %q, %q", image, repository, tag)
		}
	}
}
