package rules

import (
	"go/ast"
	"go/token"
	"go/types"

	"flyball.dev/vet/internal/operator"
)

// WallClock reports decisions of a reconcile that read the time of the process, which a test cannot
// set.
var WallClock = rule("wallclock", "a decision of a reconcile by time.Now", func(p *pass) {
	for _, f := range p.Functions {
		if !p.Reconciles(f) {
			continue
		}
		measured := p.startTimes(f.Decl.Body)
		ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
			if decision := p.decision(n); decision != nil && !p.mentions(decision, measured) {
				p.report(n, "a decision by the wall clock, which no test can set: read the time of a clock that the reconciler is given, such as k8s.io/utils/clock")
				return false
			}
			return true
		})
	}
})

// decision returns the comparison with the present time that a node is, or nil.
func (p *pass) decision(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		switch n.Op {
		case token.LSS, token.GTR, token.LEQ, token.GEQ:
			if p.readsClock(n.X) || p.readsClock(n.Y) {
				return n
			}
		}
	case *ast.CallExpr:
		selector, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) != 1 {
			return nil
		}
		switch selector.Sel.Name {
		case "After", "Before":
			if isTime(p.Info.TypeOf(selector.X)) && (p.readsClock(selector.X) || p.readsClock(n.Args[0])) {
				return n
			}
		}
	}
	return nil
}

func isTime(t types.Type) bool {
	return operator.IsNamed(t, "time", "Time") || operator.IsNamed(t, "k8s.io/apimachinery/pkg/apis/meta/v1", "Time")
}

// readsClock reports whether an expression calls for the present time.
func (p *pass) readsClock(e ast.Expr) bool {
	return containsCall(e, func(call *ast.CallExpr) bool {
		return p.CallsFunction(call, "time", "Now", "Since", "Until") ||
			p.CallsFunction(call, "k8s.io/apimachinery/pkg/apis/meta/v1", "Now")
	})
}

// startTimes returns the local variables that are computed from the present time: what is compared
// with them is how long something took, or a deadline of the process itself.
func (p *pass) startTimes(body ast.Node) map[*types.Var]bool {
	all := map[*types.Var]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		if statement, ok := n.(*ast.AssignStmt); ok && len(statement.Lhs) == len(statement.Rhs) {
			for i, right := range statement.Rhs {
				if v := p.Object(statement.Lhs[i]); v != nil && p.readsClock(right) {
					all[v] = true
				}
			}
		}
		return true
	})
	return all
}

func (p *pass) mentions(e ast.Expr, variables map[*types.Var]bool) bool {
	return contains(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && p.Object(id) != nil && variables[p.Object(id)]
	})
}
