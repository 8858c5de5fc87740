package references

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"slices"
	"strings"
)

// Sums has what was read of the mirrored code: a [Sum] for each reference.
type Sums map[Reference]Sum

// Sum is the text of a declaration that our code follows.
type Sum struct {
	// Version is the release in which the text was read. Later releases with an equal text keep it.
	Version string
	Hash    string
}

// Drift is a reference for which a release and the sums differ.
type Drift struct {
	Mirrored
	// Kind is "changed", "gone" if the release has no such declaration, "new" if the declaration has no sum, or "unused" if nothing
	// of ours mirrors a declaration that has one.
	Kind string
	// Since is the release in which the declaration was read, empty if it is new.
	Since string
}

// ReadSums reads a file of sums. Each line has a reference, a version and a hash.
func ReadSums(file string) (Sums, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	sums := Sums{}
	n := 0
	for line := range strings.Lines(string(content)) {
		n++
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s:%d: not REFERENCE VERSION HASH", file, n)
		}
		ref, err := Parse(fields[0])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		if _, ok := sums[ref]; ok {
			return nil, fmt.Errorf("%s:%d: %s has two lines", file, n, ref)
		}
		sums[ref] = Sum{Version: fields[1], Hash: fields[2]}
	}
	return sums, nil
}

// Write writes a file of sums, sorted by reference.
func (s Sums) Write(file string) error {
	lines := make([]string, 0, len(s))
	for ref, sum := range s {
		lines = append(lines, fmt.Sprintf("%s %s %s\n", ref, sum.Version, sum.Hash))
	}
	slices.Sort(lines)
	return os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644)
}

// Compare returns the differences between the sums and a release, for what a module mirrors.
func (s Sums) Compare(release *Release, module *Module) ([]Drift, error) {
	current, mirrored, err := release.sums(module)
	if err != nil {
		return nil, err
	}
	var drifts []Drift
	for _, m := range mirrored {
		read, known := s[m.Reference]
		now, found := current[m.Reference]
		drift := Drift{Mirrored: m, Since: read.Version}
		switch {
		case !found:
			drift.Kind = "gone"
		case !known:
			drift.Kind = "new"
		case now.Hash != read.Hash:
			drift.Kind = "changed"
		default:
			continue
		}
		drifts = append(drifts, drift)
	}
	unused, err := s.unused(release, mirrored)
	return append(drifts, unused...), err
}

// unused returns the sums that no declaration of ours mirrors.
func (s Sums) unused(release *Release, mirrored []Mirrored) ([]Drift, error) {
	used := map[Reference]bool{}
	for _, m := range mirrored {
		used[m.Reference] = true
	}
	var drifts []Drift
	for ref, sum := range s {
		if used[ref] {
			continue
		}
		drift := Drift{Mirrored: Mirrored{Reference: ref}, Kind: "unused", Since: sum.Version}
		switch text, err := release.textOrNone(ref); {
		case err != nil:
			return nil, err
		case text == "":
			drift.Kind = "gone"
		}
		drifts = append(drifts, drift)
	}
	slices.SortFunc(drifts, func(a, b Drift) int { return strings.Compare(a.Reference.String(), b.Reference.String()) })
	return drifts, nil
}

// Acknowledge returns the sums of a release. A declaration that did not change keeps the release in which it was read. A declaration
// that is gone keeps its sum as long as a directive names it, since the directive is wrong then.
func (s Sums) Acknowledge(release *Release, module *Module) (Sums, error) {
	current, mirrored, err := release.sums(module)
	if err != nil {
		return nil, err
	}
	result := Sums{}
	for _, m := range mirrored {
		read, known := s[m.Reference]
		now, found := current[m.Reference]
		switch {
		case known && (!found || now.Hash == read.Hash):
			result[m.Reference] = read
		case found:
			result[m.Reference] = now
		}
	}
	return result, nil
}

// sums returns what a module mirrors, and the sums of the declarations that the release has.
func (r *Release) sums(module *Module) (Sums, []Mirrored, error) {
	mirrored, err := r.mirrored(module)
	if err != nil {
		return nil, nil, err
	}
	sums := Sums{}
	for _, m := range mirrored {
		text, err := r.textOrNone(m.Reference)
		if err != nil {
			return nil, nil, err
		}
		if text != "" {
			sums[m.Reference] = Sum{Version: r.Version, Hash: hash(text)}
		}
	}
	return sums, mirrored, nil
}

// String returns the difference with our places, and the command that shows the difference.
func (d Drift) String() string {
	text := d.Kind + " " + d.Reference.String()
	for _, place := range d.Places {
		text += fmt.Sprintf("\n\t%s %s", place.Place(), place.Name)
	}
	if d.Kind == "changed" || d.Kind == "gone" && d.Since != "" {
		text += fmt.Sprintf("\n\tgo run -C test/mirror . diff %s %s", d.Since, d.Reference)
	}
	return text
}

// hash returns the hash of the tokens of a text that [Release.Text] returned. A line break does not count, and neither does a comma
// or a semicolon that only a line break needs. Text keeps no comment, and adds some that count.
func hash(text string) string {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), []byte(text), nil, scanner.ScanComments)
	sum := sha256.New()
	separator := token.ILLEGAL // not yet part of the sum
	for {
		_, tok, literal := s.Scan()
		if separator != token.ILLEGAL && tok != token.RPAREN && tok != token.RBRACK && tok != token.RBRACE {
			fmt.Fprintln(sum, separator)
		}
		separator = token.ILLEGAL
		switch tok {
		case token.EOF:
			return base64.RawStdEncoding.EncodeToString(sum.Sum(nil)[:12])
		case token.COMMA, token.SEMICOLON:
			separator = tok
		default:
			fmt.Fprintln(sum, tok, literal)
		}
	}
}
