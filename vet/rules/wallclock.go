package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// WallClock reports decisions of a reconcile that read the time of the process, which a test outside a bubble
// of testing/synctest cannot set. A package that has no clock gets one finding, because one clock mends all of its decisions.
var WallClock = rule("wallclock", "a decision of a reconcile by time.Now", func(p wallClockPass) {
	var decisions []ast.Node
	for _, f := range p.Functions {
		if p.Reconciles(f) {
			decisions = append(decisions, p.decisions(f.Decl.Body)...)
		}
	}
	decisions = slices.DeleteFunc(decisions, p.isIgnored)
	if p.Anywhere(p.asksClock) {
		for _, n := range decisions {
			p.report(n, "a decision by the wall clock, which only a test in a bubble of testing/synctest can set: ask the clock that this package has")
		}
		return
	}
	if len(decisions) == 0 {
		return
	}
	more := ""
	if len(decisions) > 1 {
		more = fmt.Sprintf(" (%d more in this package)", len(decisions)-1)
	}
	p.report(decisions[0], "a decision by the wall clock, which only a test in a bubble of testing/synctest can set"+more+
		": read the time of a clock that the reconciler is given, such as k8s.io/utils/clock")
})

// wallClockPass is a pass of the rule WallClock.
type wallClockPass struct{ *pass }

// asksClock reports whether a call asks for the time of a clock that is not the process's own.
func (p wallClockPass) asksClock(call *ast.CallExpr) bool {
	return strings.EqualFold(operator.CalleeName(call), "now") && len(call.Args) == 0 &&
		operator.IsNamed(p.Info.TypeOf(call), "time", "Time") && !p.CallsFunction(call, "time", "Now")
}

// decisions returns the comparisons in a body that decide by the present time.
func (p wallClockPass) decisions(body ast.Node) []ast.Node {
	present, object := p.timeVariables(body)
	paces := operator.ContainsCall(body, p.waits)
	var all []ast.Node
	operator.Walk(body, func(n ast.Node, within []ast.Node) {
		left, right := p.comparison(n)
		if left == nil || setsDurations(p, within, n) {
			return
		}
		// A comparison with a time that the body has read itself measures a duration, or tests a deadline of
		// the process, unless an object's time has gone into it.
		measured := p.Mentions(n, present)
		ofObject := p.hasObjectTime(left, present) || p.hasObjectTime(right, present) || p.Mentions(n, object)
		// What waits, as a rate limiter does, asks for the time to know how long.
		if measured && ofObject || !measured && (ofObject || !paces) && (p.ReadsClock(left) || p.ReadsClock(right)) {
			all = append(all, n)
		}
	})
	return all
}

// waits reports whether a call waits, or makes a timer or channel to wait for.
func (p wallClockPass) waits(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && p.Info.Selections[selector] == nil && p.CallsFunction(call, "time", "Sleep", "After", "NewTimer")
}

// comparison returns the operands if a node compares by order.
func (p wallClockPass) comparison(n ast.Node) (left, right ast.Expr) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		switch n.Op {
		case token.LSS, token.GTR, token.LEQ, token.GEQ:
			return n.X, n.Y
		}
	case *ast.CallExpr:
		selector, ok := n.Fun.(*ast.SelectorExpr)
		if ok && len(n.Args) == 1 && (selector.Sel.Name == "After" || selector.Sel.Name == "Before") &&
			isTime(p.Info.TypeOf(selector.X)) {
			return selector.X, n.Args[0]
		}
	}
	return nil, nil
}

// setsDurations reports whether a node is in the condition of an if statement that does nothing else
// than to compute durations, such as when to reconcile again.
func setsDurations(p wallClockPass, within []ast.Node, n ast.Node) bool {
	for _, outer := range slices.Backward(within) {
		statement, ok := outer.(*ast.IfStmt)
		if !ok {
			continue
		}
		return statement.Cond.Pos() <= n.Pos() && n.End() <= statement.Cond.End() && statement.Else == nil &&
			!slices.ContainsFunc(statement.Body.List, func(s ast.Stmt) bool {
				assignment, ok := s.(*ast.AssignStmt)
				return !ok || slices.ContainsFunc(assignment.Lhs, func(left ast.Expr) bool {
					return !operator.IsNamed(p.Info.TypeOf(left), "time", "Duration")
				})
			})
	}
	return false
}

func isTime(t types.Type) bool {
	return operator.IsNamed(t, "time", "Time") || operator.IsNamed(t, operator.Meta, "Time")
}

// timeVariables returns the local variables that are computed from the present time, and those that
// are computed from a time in an object.
func (p wallClockPass) timeVariables(body ast.Node) (present, object map[*types.Var]bool) {
	present, object = map[*types.Var]bool{}, map[*types.Var]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		statement, ok := n.(*ast.AssignStmt)
		if !ok || len(statement.Lhs) != len(statement.Rhs) {
			return true
		}
		for i, right := range statement.Rhs {
			v := p.Object(statement.Lhs[i])
			if v == nil || !isTime(v.Type()) && !isNumber(v.Type()) {
				continue
			}
			if p.ReadsClock(right) || p.Mentions(right, present) {
				present[v] = true
			}
			if p.hasObjectTime(right, present) || p.Mentions(right, object) {
				object[v] = true
			}
		}
		return true
	})
	return present, object
}

// isNumber reports whether a type is numeric, as a duration is.
func isNumber(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsNumeric != 0
}

// hasObjectTime reports whether an expression reads a time of an API object, which is a field. The
// variables with the present time are no such fields.
func (p wallClockPass) hasObjectTime(e ast.Expr, present map[*types.Var]bool) bool {
	return operator.Contains(e, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		return ok && operator.IsNamed(p.Info.TypeOf(selector), operator.Meta, "Time") && !present[p.Root(selector)]
	})
}
