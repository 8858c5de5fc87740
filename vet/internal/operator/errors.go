package operator

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// MentionsAlreadyExists reports whether a node mentions a function for AlreadyExists errors.
func MentionsAlreadyExists(n ast.Node) bool {
	return Contains(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && (id.Name == "IsAlreadyExists" || id.Name == "IgnoreAlreadyExists")
	})
}

// IsKnownError reports whether an error cannot be nil: it is made in place or before, or tested by
// an if statement or a case around it, or wraps one that was.
func (ti TypeInfo) IsKnownError(e ast.Expr, within []ast.Node) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return ti.makesError(e) || wraps(e) && slices.ContainsFunc(e.Args, func(argument ast.Expr) bool {
			return IsError(ti.Info.TypeOf(argument)) && ti.IsKnownError(argument, within)
		})
	case *ast.Ident:
		v := ti.Object(e)
		for i := len(within) - 1; i >= 0 && v != nil; i-- {
			if ti.isMadeIn(Statements(within[i]), v, e.Pos()) {
				return true
			}
			switch around := within[i].(type) {
			case *ast.IfStmt:
				if within[i+1] == around.Body && ti.IsKnownBy(around.Cond, v) {
					return !ti.assignedBefore(around.Body, v, e.Pos())
				}
			case *ast.CaseClause:
				if len(around.List) == 1 && ti.IsKnownBy(around.List[0], v) {
					return !ti.assignedBefore(around, v, e.Pos())
				}
			}
		}
	}
	return false
}

// makesError reports whether a call is of a function such as fmt.Errorf, errors.New and the
// constructors of API errors.
func (ti TypeInfo) makesError(call *ast.CallExpr) bool {
	callee := typeutil.Callee(ti.Info, call)
	if callee == nil || callee.Pkg() == nil {
		return false
	}
	return callee.Name() == "Errorf" && (callee.Pkg().Path() == "fmt" || callee.Pkg().Name() == "errors") ||
		strings.HasPrefix(callee.Name(), "New") && callee.Pkg().Name() == "errors"
}

// isMadeIn reports whether the last of some statements that assigns a variable before a position
// makes an error.
func (ti TypeInfo) isMadeIn(list []ast.Stmt, v *types.Var, before token.Pos) bool {
	made := false
	for _, statement := range list {
		if statement.End() > before {
			break
		}
		assignment, ok := statement.(*ast.AssignStmt)
		if ok && len(assignment.Lhs) == 1 && ti.Object(assignment.Lhs[0]) == v {
			call, ok := assignment.Rhs[0].(*ast.CallExpr)
			made = ok && ti.makesError(call)
		} else if ti.Reassigns(statement, v) {
			made = false
		}
	}
	return made
}

// IsKnownBy reports whether a condition is false if an error is nil. The condition compares the error with
// nil, perhaps after a function has ignored some errors, or asks for the kind of the error, perhaps among
// other conditions.
func (ti TypeInfo) IsKnownBy(condition ast.Expr, v *types.Var) bool {
	switch c := ast.Unparen(condition).(type) {
	case *ast.BinaryExpr:
		if c.Op == token.LAND {
			return ti.IsKnownBy(c.X, v) || ti.IsKnownBy(c.Y, v)
		}
		return c.Op == token.NEQ && IsNil(c.Y) && ti.Object(ti.Unfiltered(c.X)) == v
	case *ast.CallExpr:
		return (ti.CallsFunction(c, "errors", "Is", "As") || strings.HasPrefix(CalleeName(c), "Is")) &&
			len(c.Args) > 0 && ti.Object(c.Args[0]) == v && IsError(v.Type())
	}
	return false
}

// Unfiltered returns the error that is passed to a call which ignores some errors, such as
// client.IgnoreNotFound. It returns other expressions as they are.
func (ti TypeInfo) Unfiltered(e ast.Expr) ast.Expr {
	e = ast.Unparen(e)
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) > 0 && IsError(ti.Info.TypeOf(call)) {
		return call.Args[len(call.Args)-1]
	}
	return e
}

// wraps reports whether a call returns an error whenever it gets one, by the name of the function. A function that
// ignores some errors does not, and a function that writes the error to a status returns the error of the write.
func wraps(call *ast.CallExpr) bool {
	name := strings.ToLower(CalleeName(call))
	return strings.HasPrefix(name, "new") || slices.ContainsFunc(
		[]string{"wrap", "errorf", "terminalerror", "join", "withmessage", "withstack", "annotate", "aggregate"},
		func(part string) bool { return strings.Contains(name, part) })
}

// assignedBefore reports whether a statement of a block or case that stands before a position assigns a
// variable something else than an error that wraps its own.
func (ti TypeInfo) assignedBefore(body ast.Node, v *types.Var, before token.Pos) bool {
	return Contains(body, func(n ast.Node) bool {
		statement, ok := n.(*ast.AssignStmt)
		isIt := func(e ast.Expr) bool { return ti.Object(e) == v }
		if !ok || statement.Pos() >= before || !slices.ContainsFunc(statement.Lhs, isIt) {
			return false
		}
		call, ok := statement.Rhs[0].(*ast.CallExpr)
		return !ok || len(statement.Lhs) != 1 || !wraps(call) || !slices.ContainsFunc(call.Args, isIt)
	})
}

// ErrorArgument reports whether an argument of a call is an error.
func (ti TypeInfo) ErrorArgument(call *ast.CallExpr) bool {
	for _, argument := range call.Args {
		if IsError(ti.Info.TypeOf(argument)) {
			return true
		}
	}
	return false
}

// IsErrorTest reports whether a condition is that there was an error, of whatever kind.
func (ti TypeInfo) IsErrorTest(condition ast.Expr) bool {
	binary, ok := ast.Unparen(condition).(*ast.BinaryExpr)
	return ok && binary.Op == token.NEQ && IsNil(binary.Y) && IsError(ti.Info.TypeOf(binary.X))
}
