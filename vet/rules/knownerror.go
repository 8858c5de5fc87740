package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"flyball.dev/vet/internal/operator"
)

// isKnownError reports whether an error cannot be nil: it is made in place or before, or tested by
// an if statement around it, or wraps one that was.
func (p *pass) isKnownError(e ast.Expr, within []ast.Node) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return p.makesError(e) || wraps(e) && slices.ContainsFunc(e.Args, func(argument ast.Expr) bool {
			return operator.IsError(p.Info.TypeOf(argument)) && p.isKnownError(argument, within)
		})
	case *ast.Ident:
		v := p.Object(e)
		for i := len(within) - 1; i >= 0 && v != nil; i-- {
			if p.isMadeIn(statements(within[i]), v, e.Pos()) {
				return true
			}
			statement, ok := within[i].(*ast.IfStmt)
			if ok && within[i+1] == statement.Body && p.isKnownBy(statement.Cond, v) {
				return !p.assignedBefore(statement.Body, v, e.Pos())
			}
		}
	}
	return false
}

// makesError reports whether a call is of a function such as errors.New and fmt.Errorf.
func (p *pass) makesError(call *ast.CallExpr) bool {
	callee := typeutil.Callee(p.Info, call)
	if callee == nil || callee.Pkg() == nil || callee.Name() != "New" && callee.Name() != "Errorf" {
		return false
	}
	return callee.Pkg().Path() == "fmt" || callee.Pkg().Name() == "errors"
}

// isMadeIn reports whether the last of some statements that assigns a variable before a position
// makes an error.
func (p *pass) isMadeIn(list []ast.Stmt, v *types.Var, before token.Pos) bool {
	made := false
	for _, statement := range list {
		if statement.End() > before {
			break
		}
		assignment, ok := statement.(*ast.AssignStmt)
		if ok && len(assignment.Lhs) == 1 && p.Object(assignment.Lhs[0]) == v {
			call, ok := assignment.Rhs[0].(*ast.CallExpr)
			made = ok && p.makesError(call)
		} else if p.reassigned(statement, v) {
			made = false
		}
	}
	return made
}

// isKnownBy reports whether a condition is false if an error is nil: it compares the error with nil,
// or what is left of the error after some are ignored, perhaps among other conditions.
func (p *pass) isKnownBy(condition ast.Expr, v *types.Var) bool {
	binary, ok := ast.Unparen(condition).(*ast.BinaryExpr)
	switch {
	case !ok:
		return false
	case binary.Op == token.LAND:
		return p.isKnownBy(binary.X, v) || p.isKnownBy(binary.Y, v)
	case binary.Op != token.NEQ || !isNil(binary.Y):
		return false
	}
	if call, ok := binary.X.(*ast.CallExpr); ok && len(call.Args) == 1 {
		return operator.IsError(p.Info.TypeOf(call)) && p.Object(call.Args[0]) == v
	}
	return p.Object(binary.X) == v
}

// wraps reports whether a call that is given an error returns one, unlike one that ignores some.
func wraps(call *ast.CallExpr) bool {
	name := strings.ToLower(operator.CalleeName(call))
	return !strings.Contains(name, "ignore") && !strings.Contains(name, "filter") && !strings.Contains(name, "notfound")
}

// assignedBefore reports whether a statement of a body that stands before a position assigns a
// variable something else than an error that wraps its own.
func (p *pass) assignedBefore(body *ast.BlockStmt, v *types.Var, before token.Pos) bool {
	return contains(body, func(n ast.Node) bool {
		statement, ok := n.(*ast.AssignStmt)
		isIt := func(e ast.Expr) bool { return p.Object(e) == v }
		if !ok || statement.Pos() >= before || !slices.ContainsFunc(statement.Lhs, isIt) {
			return false
		}
		call, ok := statement.Rhs[0].(*ast.CallExpr)
		return !ok || len(statement.Lhs) != 1 || !wraps(call) || !slices.ContainsFunc(call.Args, isIt)
	})
}
