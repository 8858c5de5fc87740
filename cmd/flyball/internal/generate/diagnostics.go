package generate

import (
	"cmp"
	"errors"
	"fmt"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// Diagnostic is an error in the source.
type Diagnostic struct {
	// File is a path relative to the current folder if the file is below it, and empty if the place is unknown. Line
	// and Column are 0 if unknown.
	File         string
	Line, Column int
	// Message is one line.
	Message string

	marker, arguments string // the text before and after the message, for the error of a marker
}

// String returns the diagnostic in the format of compilers.
func (d Diagnostic) String() string {
	var b strings.Builder
	if d.File != "" {
		b.WriteString(d.File + ":")
		for _, n := range []int{d.Line, d.Column} {
			if n > 0 {
				b.WriteString(strconv.Itoa(n) + ":")
			}
		}
		b.WriteString(" ")
	}
	return b.String() + d.Message
}

// Diagnostics are errors in the source, sorted and without duplicates.
type Diagnostics []Diagnostic

// Error returns the diagnostics, one per line.
func (d Diagnostics) Error() string {
	lines := make([]string, len(d))
	for i := range d {
		lines[i] = d[i].String()
	}
	return strings.Join(lines, "\n")
}

// sourceErrors returns the errors in the packages, except type checking errors. Generators load only the types that
// they need, so there are always some, and a generator reports types that it misses.
func sourceErrors(p *project) error {
	return diagnose(p, nil)
}

// diagnose returns errors of generators and errors in the packages as Diagnostics, or nil.
func diagnose(p *project, errs []error) error {
	var all Diagnostics
	for _, err := range errs {
		all = appendError(all, err, p.positions)
	}
	raw := make([]*packages.Package, len(p.Roots))
	for i, root := range p.Roots {
		raw[i] = root.Package
	}
	packages.Visit(raw, nil, func(pkg *packages.Package) {
		for _, err := range pkg.Errors {
			if err.Kind != packages.TypeError {
				all = append(all, fromPackage(err))
			}
		}
	})
	if len(all) == 0 {
		return nil
	}
	for i := range all {
		all[i].explain(p)
		all[i].File = relative(all[i].File)
	}
	slices.SortFunc(all, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Message, b.Message))
	})
	return all.merge()
}

// appendError appends the components of an error.
func appendError(all Diagnostics, err error, files *token.FileSet) Diagnostics {
	var list loader.ErrList
	var positioned loader.PositionedError
	switch {
	case errors.As(err, &list):
		for _, e := range list {
			all = appendError(all, e, files)
		}
		return all
	case errors.As(err, &positioned):
		at := files.Position(positioned.Pos)
		return append(all, Diagnostic{File: at.Filename, Line: at.Line, Column: at.Column, Message: oneLine(err.Error())})
	default:
		return append(all, Diagnostic{Message: oneLine(err.Error())})
	}
}

// fromPackage returns the diagnostic of an error in a package.
func fromPackage(err packages.Error) Diagnostic {
	d := Diagnostic{Message: oneLine(err.Msg)}
	parts := strings.Split(err.Pos, ":")
	var numbers []int
	for len(parts) > 1 && len(numbers) < 2 {
		n, e := strconv.Atoi(parts[len(parts)-1])
		if e != nil {
			break
		}
		numbers = append([]int{n}, numbers...)
		parts = parts[:len(parts)-1]
	}
	d.File = strings.TrimSuffix(strings.Join(parts, ":"), ":-")
	if d.File == "-" {
		d.File = ""
	}
	if len(numbers) > 0 {
		d.Line = numbers[0]
	}
	if len(numbers) > 1 {
		d.Column = numbers[1]
	}
	return d
}

// oneLine joins the lines of a message.
func oneLine(message string) string {
	lines := strings.FieldsFunc(message, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " ")
}

// hints maps parts of error messages to remedies.
var hints = []struct{ contains, hint string }{
	{"requires go >=", "install that version of Go, or lower the go line of go.mod"},
	{"go.mod file not found", "run it in the folder of a project; flyball init makes one"},
	{"does not contain main module", "run it in the folder of a project; flyball init makes one"},
	{"cannot find main module", "run it in the folder of a project; flyball init makes one"},
	{"modules listed in go.work", "add this module to the workspace with go work use ., or set GOWORK=off"},
	{"matched no packages", "run it in the folder of a project, or name packages, such as ./..."},
	{"not one of the workspace modules", "add this module to the workspace with go work use ., or set GOWORK=off"},
	{"executable file not found", "install Go from https://go.dev/dl"},
	{"no Go files in", "name the folders with Go files, such as paths=./api/..."},
	{"without JSON tag", `give it one, such as json:"name", or json:"-" to leave the field out`},
	{"unsupported AST kind *ast.FuncType", `functions cannot be in the types of an API`},
	{"unsupported AST kind *ast.ChanType", `channels cannot be in the types of an API`},
}

// WithHint appends a remedy to a message of the go command or of a generator.
func WithHint(message string) string {
	for _, h := range hints {
		if strings.Contains(message, h.contains) {
			return message + ": " + h.hint
		}
	}
	return message
}

// explain adds the name and the arguments of a marker to the marker's error, and a remedy to other errors.
func (d *Diagnostic) explain(p *project) {
	text, ok := markerAt(d.File, d.Line, d.Column)
	definition := (*markers.Definition)(nil)
	if ok {
		definition = lookup(p.Collector.Registry, text)
	}
	if definition == nil {
		d.Message = WithHint(d.Message)
		return
	}
	// Errors of parsing a marker end with a position in the marker.
	d.Message, _, _ = strings.Cut(d.Message, " (at <input>")
	d.marker = fmt.Sprintf("marker +%s: ", definition.Name)
	d.arguments = "; its arguments: " + arguments(definition)
}

// merge joins the errors about the same marker, because one unknown argument causes several.
func (d Diagnostics) merge() Diagnostics {
	var merged Diagnostics
	for _, next := range d {
		if n := len(merged); n > 0 && next.marker != "" {
			last := &merged[n-1]
			if last.File == next.File && last.Line == next.Line && last.marker == next.marker {
				switch {
				case strings.Contains(last.Message, next.Message), follows(next.Message) && !follows(last.Message):
				case follows(last.Message) && !follows(next.Message):
					last.Message = next.Message
				default:
					last.Message += ", " + next.Message
				}
				continue
			}
		}
		merged = append(merged, next)
	}
	for i := range merged {
		merged[i].Message = merged[i].marker + merged[i].Message + merged[i].arguments
		merged[i].marker, merged[i].arguments = "", ""
	}
	return slices.Compact(merged)
}

// follows reports whether an error of a marker may be a consequence of another error: the parser skips the rest of the
// marker.
func follows(message string) bool {
	return strings.HasPrefix(message, "extra arguments provided") || strings.HasPrefix(message, "missing argument")
}

// markerAt returns the marker at a position in a file.
func markerAt(file string, line, column int) (text string, ok bool) {
	content, err := os.ReadFile(file)
	lines := strings.Split(string(content), "\n")
	if err != nil || line < 1 || line > len(lines) || column < 1 || column > len(lines[line-1]) {
		return "", false
	}
	return markerOf(lines[line-1][column-1:])
}

// markerOf returns the marker in a comment.
func markerOf(comment string) (text string, ok bool) {
	text, ok = strings.CutPrefix(comment, "//")
	text = strings.TrimSpace(text)
	return text, ok && strings.HasPrefix(text, "+")
}

// lookup returns the definition of a marker for any target.
func lookup(registry *markers.Registry, text string) *markers.Definition {
	for _, target := range []markers.TargetType{markers.DescribesField, markers.DescribesType, markers.DescribesPackage} {
		if definition := registry.Lookup(text, target); definition != nil {
			return definition
		}
	}
	return nil
}

// arguments describes the arguments of a marker.
func arguments(definition *markers.Definition) string {
	if definition.AnonymousField() {
		return "=" + argumentType(definition.Fields[""])
	}
	var list []string
	for _, name := range sortedKeys(definition.Fields) {
		field := definition.Fields[name]
		text := name + "=" + argumentType(field)
		if field.Optional {
			text = "[" + text + "]"
		}
		list = append(list, text)
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// argumentType describes the type of an argument in the syntax of markers.
func argumentType(argument markers.Argument) string {
	if argument.Type == markers.SliceType {
		return argumentType(*argument.ItemType) + ";..."
	}
	return strings.TrimPrefix(argument.TypeString(), "*")
}

// unknownMarkers returns a warning for each Kubebuilder marker that no generator defines. Such a marker is probably
// misspelled and has no effect.
func unknownMarkers(p *project) []Diagnostic {
	known := &markers.Registry{}
	for _, generator := range generators {
		if err := generator.RegisterMarkers(known); err != nil {
			return nil
		}
	}
	var warnings []Diagnostic
	for _, root := range p.Roots {
		for _, file := range root.Syntax {
			for _, group := range file.Comments {
				for _, comment := range group.List {
					text, ok := markerOf(comment.Text)
					if !ok || !strings.HasPrefix(text, "+kubebuilder:") || strings.HasPrefix(text, "+kubebuilder:scaffold:") ||
						lookup(known, text) != nil {
						continue
					}
					at := p.positions.Position(comment.Pos())
					warnings = append(warnings, Diagnostic{File: relative(at.Filename), Line: at.Line, Column: at.Column,
						Message: unknownMarker(known, text)})
				}
			}
		}
	}
	return warnings
}

// unknownMarker returns the warning for an unknown marker.
func unknownMarker(known *markers.Registry, text string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(text, "+"), "=")
	// The last part is an argument name if the marker has several arguments.
	withoutArgument := name[:strings.LastIndex(name, ":")]
	best, distance := "", len(name)/4+1
	for _, definition := range known.AllDefinitions() {
		n := min(editDistance(name, definition.Name), editDistance(withoutArgument, definition.Name))
		if n < distance || n == distance && definition.Name < best {
			best, distance = definition.Name, n
		}
	}
	message := "no generator knows the marker +" + name + ", so it has no effect"
	if best != "" {
		message += "; did you mean +" + best + "?"
	}
	return message
}

// editDistance returns the Levenshtein distance of two strings.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
