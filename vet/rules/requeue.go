package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"

	"flyball.dev/vet/internal/operator"
)

// Requeue reports results with Requeue: true, which make hot loops.
var Requeue = rule("requeue", "a Result with Requeue: true, which is deprecated and makes hot loops", func(p *pass) {
	p.walk(func(n ast.Node, within []ast.Node) {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if !operator.IsType(p.Info.TypeOf(n), "reconcile", "Result") {
				return
			}
			if kv := field(n, "Requeue"); kv != nil && isTrue(p.Info, kv.Value) {
				p.requeue(n, kv, within)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				selector, ok := left.(*ast.SelectorExpr)
				if ok && selector.Sel.Name == "Requeue" && len(n.Rhs) == len(n.Lhs) && isTrue(p.Info, n.Rhs[i]) &&
					operator.IsType(p.Info.TypeOf(selector.X), "reconcile", "Result") {
					p.report(n, requeueMessage)
				}
			}
		}
	})
})

const requeueMessage = "Requeue: true is deprecated: return the error that there is, or set RequeueAfter to the time of the next look, or wait for the event of what has to change"

// requeue reports a literal with Requeue: true. It is without effect beside RequeueAfter and beside
// an error, so there it can be removed.
func (p *pass) requeue(literal *ast.CompositeLit, requeue *ast.KeyValueExpr, within []ast.Node) {
	if field(literal, "RequeueAfter") != nil {
		p.report(requeue, "Requeue: true has no effect beside RequeueAfter", remove(literal, requeue))
		return
	}
	if statement, ok := within[len(within)-1].(*ast.ReturnStmt); ok && len(statement.Results) == 2 &&
		p.isKnownError(statement.Results[1], within) {
		p.report(requeue, "Requeue: true has no effect beside an error", remove(literal, requeue))
		return
	}
	p.report(requeue, requeueMessage)
}

// remove returns the fix that removes an element of a literal.
func remove(literal *ast.CompositeLit, element ast.Expr) analysis.SuggestedFix {
	from, to := element.Pos(), element.End()
	for i, e := range literal.Elts {
		if e != element {
			continue
		}
		switch {
		case i+1 < len(literal.Elts):
			to = literal.Elts[i+1].Pos()
		case i > 0:
			from = literal.Elts[i-1].End()
		default:
			from, to = literal.Lbrace+1, literal.Rbrace
		}
	}
	return replace("Remove Requeue: true", from, to, "")
}

// isKnownError reports whether an error cannot be nil: it is made in place, or tested by an
// if statement around it, or wraps one that was.
func (p *pass) isKnownError(e ast.Expr, within []ast.Node) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return p.CallsFunction(e, "fmt", "Errorf") || p.CallsFunction(e, "errors", "New") ||
			slices.ContainsFunc(e.Args, func(argument ast.Expr) bool {
				return operator.IsError(p.Info.TypeOf(argument)) && p.isKnownError(argument, within)
			})
	case *ast.Ident:
		for i := len(within) - 1; i >= 0; i-- {
			statement, ok := within[i].(*ast.IfStmt)
			if !ok || within[i+1] != statement.Body {
				continue
			}
			condition, ok := statement.Cond.(*ast.BinaryExpr)
			if ok && condition.Op == token.NEQ && isNil(condition.Y) && p.Object(condition.X) != nil &&
				p.Object(condition.X) == p.Object(e) {
				return !p.assignedBefore(statement.Body, p.Object(e), e.Pos())
			}
		}
	}
	return false
}

// assignedBefore reports whether a statement of a body that stands before a position assigns a
// variable.
func (p *pass) assignedBefore(body *ast.BlockStmt, v *types.Var, before token.Pos) bool {
	return contains(body, func(n ast.Node) bool {
		statement, ok := n.(*ast.AssignStmt)
		return ok && statement.Pos() < before && slices.ContainsFunc(statement.Lhs, func(left ast.Expr) bool { return p.Object(left) == v })
	})
}

func isTrue(info *types.Info, e ast.Expr) bool {
	tv := info.Types[e]
	return tv.Value != nil && tv.Value.String() == "true"
}
