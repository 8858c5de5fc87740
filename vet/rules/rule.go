// Package rules has the rules of flyball vet, each in its file. A rule reports one mistake that operators
// make, where the source shows it. A rule uses nothing of another one: questions that several rules ask are
// in package operator. A new rule is a file here, a line in vet.go, a page docs/vet/NAME.md with examples,
// and test data in vet/testdata/src/NAME.
package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"

	"flyball.dev/vet/internal/operator"
)

// pass is one run of a rule on one package.
type pass struct {
	*operator.Package
	analysis *analysis.Pass
	ignored  map[line]bool
	reported map[string]bool
}

// line is a line of a file.
type line struct {
	file   string
	number int
}

// rule returns the analyzer of a rule, with methods of its own on its kind of pass. The summary is one
// line, and the page docs/vet/NAME.md says the rest.
func rule[P ~struct{ *pass }](name, summary string, run func(P)) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name:     name,
		Doc:      fmt.Sprintf("%s\n\nThe page docs/vet/%s.md has examples.", summary, name),
		Requires: []*analysis.Analyzer{operator.Analyzer},
		Run: func(a *analysis.Pass) (any, error) {
			p := &pass{
				Package:  a.ResultOf[operator.Analyzer].(*operator.Package),
				analysis: a,
				ignored:  map[line]bool{},
				reported: map[string]bool{},
			}
			for _, d := range directives(a) {
				if d.rule == name && d.reason != "" {
					p.ignored[d.at] = true
				}
			}
			run(P{p})
			return nil, nil
		},
	}
}

// report reports a mistake, unless a directive on its line or the line above it says not to.
func (p *pass) report(at ast.Node, message string, fixes ...analysis.SuggestedFix) {
	if p.isIgnored(at) {
		return
	}
	position := p.analysis.Fset.Position(at.Pos())
	// A function that several reconcilers reach is looked at for each.
	if key := position.String() + message; p.reported[key] {
		return
	} else {
		p.reported[key] = true
	}
	p.analysis.Report(analysis.Diagnostic{Pos: at.Pos(), End: at.End(), Message: message, SuggestedFixes: fixes})
}

// isIgnored reports whether a directive on the line of a node or the line above it silences the
// rule.
func (p *pass) isIgnored(at ast.Node) bool {
	position := p.analysis.Fset.Position(at.Pos())
	return p.ignored[line{position.Filename, position.Line}] || p.ignored[line{position.Filename, position.Line - 1}]
}

// reportf is report with a format.
func (p *pass) reportf(at ast.Node, format string, args ...any) {
	p.report(at, fmt.Sprintf(format, args...))
}

// commented returns a function that reports whether a comment which matches a pattern is on the line of a position or
// ends on the line above it.
func (p *pass) commented(pattern *regexp.Regexp) func(token.Pos) bool {
	lines := map[line]bool{}
	for _, file := range p.Files {
		for _, group := range file.Comments {
			if pattern.MatchString(group.Text()) {
				at := p.analysis.Fset.Position(group.End())
				lines[line{at.Filename, at.Line}] = true
			}
		}
	}
	return func(pos token.Pos) bool {
		at := p.analysis.Fset.Position(pos)
		return lines[line{at.Filename, at.Line}] || lines[line{at.Filename, at.Line - 1}]
	}
}

// replace returns a fix that replaces the text between two positions.
func replace(message string, from, to token.Pos, text string) analysis.SuggestedFix {
	return analysis.SuggestedFix{
		Message:   message,
		TextEdits: []analysis.TextEdit{{Pos: from, End: to, NewText: []byte(text)}},
	}
}

// directive is a comment "//flyball:ignore RULE REASON".
type directive struct {
	at           line
	pos          token.Pos
	rule, reason string
}

func directives(a *analysis.Pass) []directive {
	var all []directive
	for _, file := range a.Files {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				rest, ok := strings.CutPrefix(comment.Text, "//flyball:ignore")
				if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
					continue
				}
				name, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
				position := a.Fset.Position(comment.Pos())
				all = append(all, directive{line{position.Filename, position.Line}, comment.Pos(), name, strings.TrimSpace(reason)})
			}
		}
	}
	return all
}

// walk visits the nodes of all files with the nodes that they are in, outermost first.
func (p *pass) walk(visit func(n ast.Node, within []ast.Node)) {
	for _, file := range p.Files {
		operator.Walk(file, visit)
	}
}
