package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"

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

// isKnownError reports whether an error cannot be nil: it is made in place, or tested by an if
// statement or a case around it, or it wraps one that was. The nodes around it end with its statement.
func (p *pass) isKnownError(e ast.Expr, within []ast.Node) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return p.makesError(e) || !strings.HasPrefix(operator.CalleeName(e), "Ignore") && slices.ContainsFunc(e.Args, func(argument ast.Expr) bool {
			return operator.IsError(p.Info.TypeOf(argument)) && p.isKnownError(argument, within)
		})
	case *ast.Ident:
		v := p.Object(e)
		for i := len(within) - 2; i >= 0 && v != nil; i-- {
			switch around := within[i].(type) {
			case *ast.BlockStmt:
				if last := p.lastAssigned(around.List, within[i+1], v); last != nil {
					return p.isMade(last, within[:i+1])
				}
			case *ast.CaseClause:
				if last := p.lastAssigned(around.Body, within[i+1], v); last != nil {
					return p.isMade(last, within[:i+1])
				}
				if len(around.List) == 1 && p.meansError(around.List[0], v) {
					return true
				}
			case *ast.IfStmt:
				if within[i+1] == around.Body && p.meansError(around.Cond, v) {
					return true
				}
			case *ast.FuncLit:
				return false
			}
		}
	}
	return false
}

// lastAssigned returns the last statement before another of a list that assigns a variable anything
// but what wraps its own value, or nil.
func (p *pass) lastAssigned(list []ast.Stmt, before ast.Node, v *types.Var) ast.Stmt {
	for _, s := range slices.Backward(list) {
		if s.Pos() < before.Pos() && contains(s, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			return ok && slices.ContainsFunc(assign.Lhs, func(left ast.Expr) bool { return p.Object(left) == v }) && !p.wraps(assign, v)
		}) {
			return s
		}
	}
	return nil
}

// wraps reports whether an assignment of a variable wraps its value.
func (p *pass) wraps(assign *ast.AssignStmt, v *types.Var) bool {
	call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
	return ok && len(assign.Lhs) == 1 && slices.ContainsFunc(call.Args, func(argument ast.Expr) bool { return p.Object(argument) == v })
}

// isMade reports whether a statement assigns an error that cannot be nil.
func (p *pass) isMade(s ast.Stmt, within []ast.Node) bool {
	assign, ok := s.(*ast.AssignStmt)
	return ok && len(assign.Lhs) == 1 && p.isKnownError(assign.Rhs[0], append(slices.Clone(within), s))
}

// makesError reports whether a call returns a new error: of fmt or of a package called errors.
func (p *pass) makesError(call *ast.CallExpr) bool {
	callee := typeutil.Callee(p.Info, call)
	if callee == nil || callee.Pkg() == nil {
		return false
	}
	return callee.Name() == "Errorf" && (callee.Pkg().Path() == "fmt" || callee.Pkg().Name() == "errors") ||
		strings.HasPrefix(callee.Name(), "New") && callee.Pkg().Name() == "errors"
}

// meansError reports whether a condition holds only if a variable is an error.
func (p *pass) meansError(condition ast.Expr, v *types.Var) bool {
	if v == nil {
		return false
	}
	switch c := ast.Unparen(condition).(type) {
	case *ast.BinaryExpr:
		x := c.X
		if call, ok := ast.Unparen(x).(*ast.CallExpr); ok && len(call.Args) > 0 && operator.IsError(p.Info.TypeOf(call)) {
			x = call.Args[len(call.Args)-1] // as of IgnoreNotFound, which is nil for nil
		}
		return c.Op == token.NEQ && isNil(c.Y) && p.Object(x) == v && operator.IsError(v.Type()) ||
			c.Op == token.LAND && (p.meansError(c.X, v) || p.meansError(c.Y, v))
	case *ast.CallExpr:
		return (p.CallsFunction(c, "errors", "Is", "As") || strings.HasPrefix(operator.CalleeName(c), "Is")) &&
			len(c.Args) > 0 && p.Object(c.Args[0]) == v && operator.IsError(v.Type())
	}
	return false
}

func isTrue(info *types.Info, e ast.Expr) bool {
	tv := info.Types[e]
	return tv.Value != nil && tv.Value.String() == "true"
}
