package canonical

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Noise is the set of fields that differ between clean runs: by kind, and path with * for elements of lists.
type Noise map[string]bool

// NoiseKey returns the entry of a field in the noise.
func NoiseKey(kind, path string) string {
	var b strings.Builder
	b.WriteString(kind)
	b.WriteByte(' ')
	for {
		before, after, found := strings.Cut(path, "[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, path, _ = strings.Cut(after, "]")
		b.WriteString("[*]")
	}
}

// AnyName is the path under which noise has the kinds with names that differ between clean runs, such as an IPAddress.
const AnyName = "name"

// apply returns an outcome in which objects of kinds with differing names share one entry for each namespace.
func (n Noise) apply(o Outcome) Outcome {
	result := Outcome{}
	for key, all := range o {
		key = n.Key(key)
		result[key] = append(result[key], all...)
	}
	for _, all := range result {
		slices.SortFunc(all, func(a, b Fields) int { return strings.Compare(a.Text(), b.Text()) })
	}
	return result
}

// Key returns the entry of an object, if its kind has names that differ.
func (n Noise) Key(key string) string {
	kind, name, _ := strings.Cut(key, " ")
	if n[NoiseKey(kind, AnyName)] {
		namespace, _, _ := strings.Cut(name, "/")
		key = kind + " " + namespace + "/*"
	}
	return key
}

// Learn adds the fields in which two clean outcomes differ. It returns an error if they differ in more than the names of
// objects and the values of fields.
func (n Noise) Learn(a, b Outcome) error {
	for _, d := range Compare(a, b, nil) {
		if d.Path == "" {
			n[NoiseKey(d.Kind(), AnyName)] = true
		}
	}
	for _, d := range Compare(a, b, n) {
		if d.Path == "" {
			return fmt.Errorf("%s", d)
		}
		n[NoiseKey(d.Kind(), d.Path)] = true
	}
	return nil
}

// Difference is a field, or a whole object, in which an outcome differs from the reference.
type Difference struct {
	Object    string // kind and canonical name
	Path      string // "" for the object itself
	Got, Want string
}

// Kind returns the kind of the object.
func (d Difference) Kind() string { kind, _, _ := strings.Cut(d.Object, " "); return kind }

// String describes the difference on one line.
func (d Difference) String() string {
	switch {
	case d.Path == "":
		return fmt.Sprintf("%s: %s, want %s", d.Object, d.Got, d.Want)
	case d.Got == "":
		return fmt.Sprintf("%s: %s is missing, want %s", d.Object, d.Path, d.Want)
	case d.Want == "":
		return fmt.Sprintf("%s: %s is %s, want none", d.Object, d.Path, d.Got)
	}
	return fmt.Sprintf("%s: %s is %s, want %s", d.Object, d.Path, d.Got, d.Want)
}

// Compare returns the differences of an outcome from the reference, but for noise.
func Compare(got, want Outcome, n Noise) (all []Difference) {
	got, want = n.apply(got), n.apply(want)
	keys := map[string]bool{}
	for key := range got {
		keys[key] = true
	}
	for key := range want {
		keys[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		g, w := got[key], want[key]
		if len(g) != len(w) {
			all = append(all, Difference{Object: key, Got: Count(len(g)), Want: Count(len(w))})
			continue
		}
		for i := range g {
			all = append(all, CompareFields(key, g[i], w[i], n)...)
		}
	}
	return all
}

// Count describes how many objects there are.
func Count(n int) string {
	switch n {
	case 0:
		return "absent"
	case 1:
		return "present"
	}
	return fmt.Sprintf("%d objects", n)
}

// CompareFields returns the differences of an object from the reference, but for noise.
func CompareFields(object string, got, want Fields, n Noise) (all []Difference) {
	kind, _, _ := strings.Cut(object, " ")
	paths := map[string]bool{}
	for path := range got {
		paths[path] = true
	}
	for path := range want {
		paths[path] = true
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if g, w := got[path], want[path]; g != w && !n[NoiseKey(kind, path)] {
			all = append(all, Difference{object, path, g, w})
		}
	}
	return all
}
