package rules

import (
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Ignore returns the rule that the directives that silence rules name one of them, and say why.
func Ignore(names ...string) *analysis.Analyzer {
	names = append(names, "ignore")
	return &analysis.Analyzer{
		Name: "ignore",
		Doc:  "a directive //flyball:ignore that names no rule or gives no reason\n\nThe page docs/vet/ignore.md has examples.",
		Run: func(a *analysis.Pass) (any, error) {
			for _, d := range directives(a) {
				switch {
				case !slices.Contains(names, d.rule):
					a.Reportf(d.pos, "there is no rule %q: write //flyball:ignore RULE REASON", d.rule)
				case d.reason == "":
					a.Reportf(d.pos, "the directive has no effect without a reason: write //flyball:ignore %s REASON", d.rule)
				}
			}
			return nil, nil
		},
	}
}
