package references

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// nearest returns the name that was probably meant: the one with the fewest changes, or better a method or function of the same
// name. It is empty if no name is near.
func nearest[V any](name string, names map[string]V) string {
	best, least := "", len(name)/3+1
	for _, candidate := range slices.Sorted(maps.Keys(names)) {
		n := changes(strings.ToLower(name), strings.ToLower(candidate))
		if !strings.HasSuffix(name, ".go") && lastElement(candidate) == lastElement(name) {
			n -= 1000
		}
		if n < least {
			best, least = candidate, n
		}
	}
	return best
}

// lastElement returns the name of a method without its type.
func lastElement(name string) string { return name[strings.LastIndex(name, ".")+1:] }

// nearFolder returns the reference with the folder that was probably meant, or an empty string.
func nearFolder(ref Reference, folder string) string {
	entries, err := os.ReadDir(filepath.Dir(folder))
	if err != nil {
		return ""
	}
	names := map[string]bool{}
	for _, entry := range entries {
		if entry.IsDir() {
			names[entry.Name()] = true
		}
	}
	near := nearest(path.Base(ref.Folder), names)
	if near == "" {
		return ""
	}
	ref.Folder = path.Join(path.Dir(ref.Folder), near)
	return ref.String()
}

// changes returns how many bytes must be inserted, removed or replaced to make b of a.
func changes(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
