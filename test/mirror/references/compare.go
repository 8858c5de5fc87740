package references

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"golang.org/x/mod/semver"
)

// Changes says what differs between two releases.
type Changes struct {
	// Older and Newer are the versions.
	Older, Newer string
	// Changes are sorted by the first of our files that mirrors the declaration.
	Changes   []*Change
	Unchanged int
}

// Change is a mirrored declaration that differs.
type Change struct {
	Mirrored
	// Older and Newer are the texts, empty in a release that does not have the declaration.
	Older, Newer string
}

// Mirrored is a reference with the directives that have it.
type Mirrored struct {
	Reference Reference
	Places    []Directive
}

// grouping groups directives by reference, in the order in which references first occur.
type grouping struct {
	mirrored []Mirrored
	at       map[Reference]int
}

func (g *grouping) add(d Directive) {
	i, ok := g.at[d.Reference]
	if !ok {
		i = len(g.mirrored)
		g.at[d.Reference] = i
		g.mirrored = append(g.mirrored, Mirrored{Reference: d.Reference})
	}
	g.mirrored[i].Places = append(g.mirrored[i].Places, d)
}

// Compare compares what a module mirrors in two releases, or only some of it.
func Compare(older, newer *Release, module *Module, only ...Reference) (*Changes, error) {
	if semver.Compare(older.Version, newer.Version) > 0 {
		older, newer = newer, older
	}
	mirrored, err := newer.mirrored(module)
	if err != nil {
		return nil, err
	}
	before, err := older.mirrored(module)
	if err != nil {
		return nil, err
	}
	if mirrored, err = choose(union(mirrored, before), only); err != nil {
		return nil, err
	}
	result := &Changes{Older: older.Version, Newer: newer.Version}
	for _, m := range mirrored {
		change := &Change{Mirrored: m}
		if change.Older, err = older.textOrNone(m.Reference); err != nil {
			return nil, err
		}
		if change.Newer, err = newer.textOrNone(m.Reference); err != nil {
			return nil, err
		}
		if change.Older == "" && change.Newer == "" {
			return nil, fmt.Errorf("%s: %s is in neither %s nor %s", m.Places[0].Place(), m.Reference, older.Version, newer.Version)
		}
		if hash(change.Older) == hash(change.Newer) {
			result.Unchanged++
			continue
		}
		result.Changes = append(result.Changes, change)
	}
	slices.SortStableFunc(result.Changes, func(a, b *Change) int { return strings.Compare(a.Places[0].File, b.Places[0].File) })
	return result, nil
}

// union adds to a what only b has.
func union(a, b []Mirrored) []Mirrored {
	has := map[Reference]bool{}
	for _, m := range a {
		has[m.Reference] = true
	}
	for _, m := range b {
		if !has[m.Reference] {
			a = append(a, m)
		}
	}
	return a
}

// choose returns the mirrored declarations of the given references, or all without one.
func choose(mirrored []Mirrored, only []Reference) ([]Mirrored, error) {
	if len(only) == 0 {
		return mirrored, nil
	}
	var chosen []Mirrored
	for _, ref := range only {
		i := slices.IndexFunc(mirrored, func(m Mirrored) bool { return m.Reference == ref })
		if i < 0 {
			return nil, fmt.Errorf("no code mirrors %s", ref)
		}
		chosen = append(chosen, mirrored[i])
	}
	return chosen, nil
}

// textOrNone returns the text of a declaration, or nothing if the release does not have it.
func (r *Release) textOrNone(ref Reference) (string, error) {
	text, err := r.Text(ref)
	if isNotFound(err) {
		return "", nil
	}
	return text, err
}

// isNotFound reports whether an error says that a release has no declaration for a reference.
func isNotFound(err error) bool {
	_, ok := errors.AsType[*NotFoundError](err)
	return ok
}

// Kind returns "changed", "new" or "gone".
func (c *Change) Kind() string {
	switch {
	case c.Older == "":
		return "new"
	case c.Newer == "":
		return "gone"
	}
	return "changed"
}

// Print writes the changes by our file, with diffs unless only a list is wanted. A declaration that several files mirror is at the
// first.
func (c *Changes) Print(w io.Writer, list bool) error {
	counts := map[string]int{}
	file := ""
	for _, change := range c.Changes {
		counts[change.Kind()]++
		if at := change.Places[0].File; at != file {
			if file != "" {
				fmt.Fprintln(w)
			}
			file = at
			fmt.Fprintf(w, "== %s\n", file)
		}
		fmt.Fprintf(w, "%s %s\n", change.Kind(), change.Reference)
		for _, d := range change.Places {
			fmt.Fprintf(w, "\t%s %s\n", d.Place(), d.Name)
		}
		if list {
			continue
		}
		diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
			A: lines(change.Older), B: lines(change.Newer), FromFile: c.Older, ToFile: c.Newer, Context: 3,
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(w, diff)
	}
	if file != "" {
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintf(w, "%d declarations from %s to %s: %d changed, %d new, %d gone, %d unchanged\n",
		len(c.Changes)+c.Unchanged, c.Older, c.Newer, counts["changed"], counts["new"], counts["gone"], c.Unchanged)
	return err
}

// lines splits a text.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return difflib.SplitLines(text[:len(text)-1])
}
