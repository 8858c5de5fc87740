package rules

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"flyball.dev/vet/internal/operator"
)

// ObservedGeneration reports statuses that do not say which generation they are about.
var ObservedGeneration = rule("observedgeneration", "a status that does not say which generation it is about", func(p observedGenerationPass) {
	for _, f := range p.Functions {
		ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 2 &&
				p.CallsFunction(call, "k8s.io/apimachinery/pkg/api/meta", "SetStatusCondition") {
				p.condition(f, call)
			}
			return true
		})
	}
	if len(p.Reconcilers) == 0 || p.setsObservedGeneration() {
		return
	}
	for _, call := range p.Calls() {
		kind := p.KindOf(call.Object)
		if call.Writes() && call.Subresource == "status" && kind != nil && p.IsForKind(kind) && hasObservedGeneration(kind) &&
			!p.Anywhere(func(call *ast.CallExpr) bool { return p.PassesOn(call, kind) }) {
			p.reportf(call, "%s has status.observedGeneration and nothing here sets it: a client cannot tell whether this status is about its spec", kind.Obj().Name())
			return
		}
	}
})

// observedGenerationPass is a pass of the rule ObservedGeneration.
type observedGenerationPass struct{ *pass }

// setsObservedGeneration reports whether a statement of the package writes a field of that name, or
// mentions something that may.
func (p observedGenerationPass) setsObservedGeneration() bool {
	sets := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			return slices.ContainsFunc(n.Lhs, operator.IsObservedGeneration)
		case *ast.KeyValueExpr:
			key := operator.Ident(n.Key)
			return key != nil && key.Name == "ObservedGeneration"
		case *ast.Ident:
			return n.Name != "ObservedGeneration" && strings.Contains(n.Name, "ObservedGeneration")
		}
		return false
	}
	return slices.ContainsFunc(p.Functions, func(f *operator.Function) bool { return operator.Contains(f.Decl.Body, sets) })
}

// condition reports a call that sets a condition of an object which has no observed generation.
func (p observedGenerationPass) condition(f *operator.Function, call *ast.CallExpr) {
	object := p.Root(call.Args[0])
	if object == nil || !operator.IsObject(object.Type()) || p.leavesStatusGeneration(operator.Named(object.Type())) {
		return
	}
	literal := operator.LiteralOf(call.Args[1])
	if v := p.Object(call.Args[1]); literal == nil && v != nil {
		literal = p.SoleLiteral(f, v)
	}
	if maker, ok := ast.Unparen(call.Args[1]).(*ast.CallExpr); ok && literal == nil && p.makesNoGeneration(maker) {
		p.reportf(call.Args[1], "the condition that %s returns does not say which generation it is about: give it %s.Generation for its ObservedGeneration",
			operator.CalleeName(maker), object.Name())
		return
	}
	if v := p.Object(call.Args[1]); literal == nil && v != nil && p.isPassedNoGeneration(f, v) {
		p.reportf(call.Args[1], "the condition does not say which generation it is about: set %s.ObservedGeneration = %s.Generation before",
			v.Name(), object.Name())
		return
	}
	if literal == nil || !operator.IsNamed(p.Info.TypeOf(literal), operator.Meta, "Condition") ||
		operator.Field(literal, "Type") == nil || operator.Field(literal, "ObservedGeneration") != nil {
		return
	}
	generation := object.Name() + ".Generation"
	last := literal.Elts[len(literal.Elts)-1]
	fix := replace("Set ObservedGeneration", last.End(), last.End(), ", ObservedGeneration: "+generation)
	if fset := p.analysis.Fset; fset.Position(last.End()).Line != fset.Position(literal.Rbrace).Line {
		fix = replace("Set ObservedGeneration", last.End(), last.End(), ",\nObservedGeneration: "+generation)
	}
	p.report(literal, "the condition does not say which generation it is about: set ObservedGeneration: "+generation, []analysis.SuggestedFix{fix}...)
}

// makesNoGeneration reports whether a call is of a function of the package that only returns a
// literal of a condition, which has no observed generation.
func (p observedGenerationPass) makesNoGeneration(call *ast.CallExpr) bool {
	maker := p.Declared(call)
	if maker == nil || len(maker.Decl.Body.List) != 1 {
		return false
	}
	statement, ok := maker.Decl.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(statement.Results) != 1 {
		return false
	}
	literal := operator.LiteralOf(statement.Results[0])
	return literal != nil && operator.IsNamed(p.Info.TypeOf(literal), operator.Meta, "Condition") &&
		operator.Field(literal, "Type") != nil && operator.Field(literal, "ObservedGeneration") == nil
}

// isPassedNoGeneration reports whether a variable is a parameter of an unexported function that only
// reads it, and all calls of the function pass it a condition that has no observed generation.
func (p observedGenerationPass) isPassedNoGeneration(f *operator.Function, v *types.Var) bool {
	if f.Object.Exported() {
		return false
	}
	parameters := f.Object.Signature().Params()
	at := -1
	for i := range parameters.Len() {
		if parameters.At(i) == v {
			at = i
		}
	}
	if at < 0 || operator.Contains(f.Decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			return slices.ContainsFunc(n.Lhs, func(left ast.Expr) bool { return p.Root(left) == v })
		case *ast.UnaryExpr:
			return p.Object(n.X) == v
		}
		return false
	}) {
		return false
	}
	calls, without := 0, 0
	for _, g := range p.Functions {
		if !slices.Contains(g.References, f) {
			continue
		}
		ast.Inspect(g.Decl.Body, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && p.Info.Uses[id] == f.Object {
				calls++
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || p.Declared(call) != f || at >= len(call.Args) {
				return true
			}
			literal := operator.LiteralOf(call.Args[at])
			maker, isCall := ast.Unparen(call.Args[at]).(*ast.CallExpr)
			if literal != nil && operator.Field(literal, "Type") != nil && operator.Field(literal, "ObservedGeneration") == nil ||
				isCall && p.makesNoGeneration(maker) {
				without++
			}
			return true
		})
	}
	return calls > 0 && calls == without
}

// leavesStatusGeneration reports whether something sets the observed generation of a kind's status, which holds
// for all its conditions: the package, or perhaps another one that gets its objects, such as a patch helper.
func (p observedGenerationPass) leavesStatusGeneration(kind *types.Named) bool {
	return p.setsStatusGeneration(kind) || hasObservedGeneration(kind) &&
		p.Anywhere(func(call *ast.CallExpr) bool { return p.PassesOn(call, kind) })
}

// setsStatusGeneration reports whether a statement of the package assigns the observed generation of a
// kind's status, which holds for all its conditions.
func (p observedGenerationPass) setsStatusGeneration(kind *types.Named) bool {
	return slices.ContainsFunc(p.Functions, func(f *operator.Function) bool {
		return operator.Contains(f.Decl.Body, func(n ast.Node) bool {
			statement, ok := n.(*ast.AssignStmt)
			return ok && slices.ContainsFunc(statement.Lhs, func(left ast.Expr) bool {
				if !operator.IsObservedGeneration(left) {
					return false
				}
				status, ok := left.(*ast.SelectorExpr).X.(*ast.SelectorExpr)
				named := operator.Named(p.Info.TypeOf(status))
				if !ok || status.Sel.Name != "Status" || named == nil {
					return false
				}
				of := operator.Named(p.Info.TypeOf(status.X))
				return of != nil && of.Obj() == kind.Obj()
			})
		})
	})
}

// hasObservedGeneration reports whether the status of a kind has that field.
func hasObservedGeneration(kind *types.Named) bool {
	object, _, _ := types.LookupFieldOrMethod(kind, true, kind.Obj().Pkg(), "Status")
	status, ok := object.(*types.Var)
	if !ok {
		return false
	}
	field, _, _ := types.LookupFieldOrMethod(status.Type(), true, kind.Obj().Pkg(), "ObservedGeneration")
	return field != nil
}
