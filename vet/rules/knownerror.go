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
// an if statement or a case around it, or wraps one that was.
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
			switch around := within[i].(type) {
			case *ast.IfStmt:
				if within[i+1] == around.Body && p.isKnownBy(around.Cond, v) {
					return !p.assignedBefore(around.Body, v, e.Pos())
				}
			case *ast.CaseClause:
				if len(around.List) == 1 && p.isKnownBy(around.List[0], v) {
					return !p.assignedBefore(around, v, e.Pos())
				}
			}
		}
	}
	return false
}

// makesError reports whether a call is of a function such as fmt.Errorf, errors.New and the
// constructors of API errors.
func (p *pass) makesError(call *ast.CallExpr) bool {
	callee := typeutil.Callee(p.Info, call)
	if callee == nil || callee.Pkg() == nil {
		return false
	}
	return callee.Name() == "Errorf" && (callee.Pkg().Path() == "fmt" || callee.Pkg().Name() == "errors") ||
		strings.HasPrefix(callee.Name(), "New") && callee.Pkg().Name() == "errors"
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
// or what is left of the error after some are ignored, or asks for its kind, perhaps among other
// conditions.
func (p *pass) isKnownBy(condition ast.Expr, v *types.Var) bool {
	switch c := ast.Unparen(condition).(type) {
	case *ast.BinaryExpr:
		if c.Op == token.LAND {
			return p.isKnownBy(c.X, v) || p.isKnownBy(c.Y, v)
		}
		return c.Op == token.NEQ && isNil(c.Y) && p.Object(p.unfiltered(c.X)) == v
	case *ast.CallExpr:
		return (p.CallsFunction(c, "errors", "Is", "As") || strings.HasPrefix(operator.CalleeName(c), "Is")) &&
			len(c.Args) > 0 && p.Object(c.Args[0]) == v && operator.IsError(v.Type())
	}
	return false
}

// unfiltered returns the error of which a call, such as client.IgnoreNotFound, returns what is left, and
// other expressions as they are.
func (p *pass) unfiltered(e ast.Expr) ast.Expr {
	e = ast.Unparen(e)
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) > 0 && operator.IsError(p.Info.TypeOf(call)) {
		return call.Args[len(call.Args)-1]
	}
	return e
}

// wraps reports whether a call that is given an error returns one, by its name, unlike one that ignores
// some, or that writes the error to a status and returns that of the write.
func wraps(call *ast.CallExpr) bool {
	name := strings.ToLower(operator.CalleeName(call))
	return strings.HasPrefix(name, "new") || slices.ContainsFunc(
		[]string{"wrap", "errorf", "terminalerror", "join", "withmessage", "withstack", "annotate", "aggregate"},
		func(part string) bool { return strings.Contains(name, part) })
}

// assignedBefore reports whether a statement of a block or case that stands before a position assigns a
// variable something else than an error that wraps its own.
func (p *pass) assignedBefore(body ast.Node, v *types.Var, before token.Pos) bool {
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
