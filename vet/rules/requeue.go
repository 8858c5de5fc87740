package rules

import (
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"flyball.dev/vet/internal/operator"
)

// Requeue reports results with Requeue: true, which make hot loops, and those that an error
// overrides.
var Requeue = rule("requeue", "a Result with Requeue: true, which is deprecated and makes hot loops, or one that an error overrides", func(p requeuePass) {
	p.walk(func(n ast.Node, within []ast.Node) {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if !operator.IsType(p.Info.TypeOf(n), "reconcile", "Result") {
				return
			}
			if kv := operator.Field(n, "Requeue"); kv != nil && operator.IsTrue(p.Info, kv.Value) {
				p.requeue(n, kv, within)
			} else if kv := operator.Field(n, "RequeueAfter"); kv != nil && !p.isZero(kv.Value) && p.isBesideError(within) {
				p.report(kv, "RequeueAfter has no effect beside an error, after which the rate limiter decides when the next reconcile is: return the one or the other")
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				selector, ok := left.(*ast.SelectorExpr)
				if !ok || selector.Sel.Name != "Requeue" || len(n.Rhs) != len(n.Lhs) || !operator.IsTrue(p.Info, n.Rhs[i]) ||
					!operator.IsType(p.Info.TypeOf(selector.X), "reconcile", "Result") || p.mayRequeue(within) {
					continue
				}
				if after := p.requeueAfter(p.Root(selector.X), within); after != nil {
					p.besideAfter(n, after)
				} else {
					p.report(n, requeueMessage)
				}
			}
		}
	})
})

const requeueMessage = "Requeue: true is deprecated, and leaves the time of the next reconcile to the rate limiter, milliseconds at first and minutes in the end: " +
	"return the error that there is, or set RequeueAfter to the time of the next look, or wait for the event of what has to change"

// requeuePass is a pass of the rule Requeue.
type requeuePass struct{ *pass }

// requeue reports a literal with Requeue: true. It is without effect beside RequeueAfter and beside
// an error, so there it can be removed.
func (p requeuePass) requeue(literal *ast.CompositeLit, requeue *ast.KeyValueExpr, within []ast.Node) {
	if p.isBesideError(within) {
		p.report(requeue, "Requeue: true has no effect beside an error", remove(literal, requeue))
		return
	}
	if after := operator.Field(literal, "RequeueAfter"); after != nil {
		p.besideAfter(requeue, after.Value, remove(literal, requeue))
		return
	}
	if !p.mayRequeue(within) {
		p.report(requeue, requeueMessage)
	}
}

// mayRequeue reports whether Requeue: true is right in some nodes: for another reconciler, or where an
// error would only be logged, and the rate limiter is to choose the time as after that error.
func (p requeuePass) mayRequeue(within []ast.Node) bool {
	return p.passesOnRequeue(within) || afterConflict(within) || p.isInStatus(within)
}

// afterConflict reports whether a node is in an if statement about a conflict, after which the rate
// limiter is right to choose the time: people write Requeue: true there to keep the error from the log.
func afterConflict(within []ast.Node) bool {
	return slices.ContainsFunc(within, func(n ast.Node) bool {
		statement, ok := n.(*ast.IfStmt)
		return ok && operator.ContainsCall(statement.Cond, func(call *ast.CallExpr) bool { return operator.CalleeName(call) == "IsConflict" })
	})
}

// isInStatus reports whether a node is in an if statement about an error that has been written to a
// condition or a status, so that the object says what has failed.
func (p requeuePass) isInStatus(within []ast.Node) bool {
	for i, n := range within[:len(within)-2] {
		around, ok := n.(*ast.IfStmt)
		if !ok || within[i+1] != around.Body {
			continue
		}
		says := func(n ast.Node) bool {
			return operator.Contains(n, func(n ast.Node) bool {
				e, _ := n.(ast.Expr)
				v := p.Object(e)
				return v != nil && operator.IsError(v.Type()) && p.IsKnownBy(around.Cond, v)
			})
		}
		for _, s := range around.Body.List {
			if writesStatus(s, says) {
				return true
			}
			if s == within[i+2] {
				break
			}
		}
	}
	return false
}

// writesStatus reports whether a statement sets a condition or a field of a status to what a function
// is true for.
func writesStatus(statement ast.Stmt, is func(ast.Node) bool) bool {
	isStatus := func(e ast.Expr) bool { return strings.Contains(strings.ToLower(types.ExprString(e)), "status") }
	return operator.Contains(statement, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := strings.ToLower(operator.CalleeName(n))
			method, ok := n.Fun.(*ast.SelectorExpr)
			return (strings.Contains(name, "condition") || strings.HasPrefix(name, "mark") || ok && isStatus(method.X)) &&
				slices.ContainsFunc(n.Args, func(argument ast.Expr) bool { return is(argument) })
		case *ast.AssignStmt:
			return isStatus(n.Lhs[0]) && is(n.Rhs[0])
		}
		return false
	})
}

// isBesideError reports whether some nodes are in a return statement with an error.
func (p requeuePass) isBesideError(within []ast.Node) bool {
	statement, ok := within[len(within)-1].(*ast.ReturnStmt)
	return ok && len(statement.Results) == 2 && p.IsKnownError(statement.Results[1], within)
}

func (p requeuePass) isZero(e ast.Expr) bool {
	value := p.Info.Types[e].Value
	return value != nil && constant.Sign(value) == 0
}

// besideAfter reports a Requeue: true beside RequeueAfter. If that may be 0, which is no time, then
// Requeue has an effect there, and nothing can be removed.
func (p requeuePass) besideAfter(at ast.Node, after ast.Expr, fixes ...analysis.SuggestedFix) {
	if value := p.Info.Types[after].Value; value != nil && constant.Sign(value) > 0 {
		p.report(at, "Requeue: true has no effect beside RequeueAfter", fixes...)
		return
	}
	p.reportf(at, "Requeue: true has an effect here only if %s is 0, and then a deprecated one: see to it that it is not, and remove Requeue",
		types.ExprString(after))
}

// requeueAfter returns what the RequeueAfter of a result is assigned in the innermost block, or nil.
func (p requeuePass) requeueAfter(result *types.Var, within []ast.Node) ast.Expr {
	block, ok := within[len(within)-1].(*ast.BlockStmt)
	if !ok || result == nil {
		return nil
	}
	for _, statement := range block.List {
		assignment, ok := statement.(*ast.AssignStmt)
		if !ok || len(assignment.Lhs) != 1 || len(assignment.Rhs) != 1 {
			continue
		}
		selector, ok := assignment.Lhs[0].(*ast.SelectorExpr)
		if ok && selector.Sel.Name == "RequeueAfter" && p.Root(selector.X) == result {
			return assignment.Rhs[0]
		}
	}
	return nil
}

// passesOnRequeue reports whether an if statement around a node asks for the Requeue of a result, to
// pass on the result of another reconciler.
func (p requeuePass) passesOnRequeue(within []ast.Node) bool {
	return slices.ContainsFunc(within, func(n ast.Node) bool {
		statement, ok := n.(*ast.IfStmt)
		return ok && operator.Contains(statement.Cond, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			return ok && selector.Sel.Name == "Requeue" && operator.IsType(p.Info.TypeOf(selector.X), "reconcile", "Result")
		})
	})
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
