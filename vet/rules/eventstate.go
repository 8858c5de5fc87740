package rules

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// EventState reports predicates and event handlers that remember events or act on them.
var EventState = rule("eventstate", "a predicate or an event handler that acts on events or remembers them", func(p eventStatePass) {
	check := func(function ast.Node, body *ast.BlockStmt) {
		if operator.Locks(body) {
			return
		}
		ast.Inspect(body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				p.writesIn(call)
			}
			for _, target := range operator.Written(p.Info, n) {
				if root := p.Root(target); root != nil && root.Name() != "_" && !p.isOwn(root, function, target) {
					p.reportf(target, "a predicate or event handler keeps %s: events are missed at a restart and delivered again, so Reconcile cannot rely on it",
						types.ExprString(target))
				}
			}
			return true
		})
	}
	p.walk(func(n ast.Node, _ []ast.Node) {
		switch n := n.(type) {
		case *ast.FuncLit:
			if p.takesEvent(n.Type) {
				check(n, n.Body)
			}
		case *ast.FuncDecl:
			if n.Body != nil && p.takesEvent(n.Type) {
				check(n, n.Body)
			}
		}
	})
})

// eventStatePass is a pass of the rule EventState.
type eventStatePass struct{ *pass }

// writesIn reports a call in a predicate or an event handler that writes, itself or in a function
// of the package that it reaches.
func (p eventStatePass) writesIn(call *ast.CallExpr) {
	const why = "events are missed at a restart and delivered again, so write in Reconcile, from the observed state"
	if write := p.ClientCall(call); write != nil && write.Writes() {
		p.reportf(call, "a predicate or event handler writes (%s): %s", write.Verb, why)
		return
	}
	callee := p.Declared(call)
	if callee == nil || p.takesEvent(callee.Decl.Type) {
		return // one that takes events is looked at by itself
	}
	reached := []*operator.Function{callee}
	for i := 0; i < len(reached); i++ {
		for _, write := range reached[i].Calls {
			if write.Writes() {
				p.reportf(call, "a predicate or event handler acts: %s writes (%s): %s", operator.CalleeName(call), write.Verb, why)
				return
			}
		}
		for _, f := range reached[i].References {
			if !slices.Contains(reached, f) {
				reached = append(reached, f)
			}
		}
	}
}

// takesEvent reports whether a function has a parameter that is an event of a watch.
func (p eventStatePass) takesEvent(signature *ast.FuncType) bool {
	for _, parameter := range signature.Params.List {
		named := operator.Named(p.Info.TypeOf(parameter.Type))
		if named == nil || !strings.HasSuffix(named.Obj().Name(), "Event") {
			continue
		}
		if operator.IsType(named, "event", named.Obj().Name()) {
			return true
		}
	}
	return false
}

// isOwn reports whether a write in a function changes only a variable of the function: one that it
// declares, or a parameter that is no pointer.
func (p eventStatePass) isOwn(root *types.Var, function ast.Node, target ast.Expr) bool {
	declaration, isMethod := function.(*ast.FuncDecl)
	if isMethod && declaration.Recv != nil && declaration.Recv.Pos() <= root.Pos() && root.Pos() < declaration.Recv.End() {
		_, pointer := types.Unalias(root.Type()).(*types.Pointer)
		return !pointer
	}
	return function.Pos() <= root.Pos() && root.Pos() < function.End()
}
