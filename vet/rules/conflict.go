package rules

import (
	"go/ast"
	"go/types"

	"flyball.dev/vet/internal/operator"
)

const apierrors = "k8s.io/apimachinery/pkg/api/errors"

// Conflict reports retries that cannot succeed, and conflicts that count as success although no event
// of the other write will come.
var Conflict = rule("conflict", "a conflict that is retried with the same stale object, or forgotten", func(p *pass) {
	forgotten := p.filtersEvents()
	p.walk(func(n ast.Node, _ []ast.Node) {
		switch n := n.(type) {
		case *ast.IfStmt:
			if statement := p.ignoresConflict(n); statement != nil && forgotten {
				p.report(statement, "a conflict counts as success, and a predicate of this package filters the event of the write that it was with: nothing tries again, so return the error")
			}
		case *ast.CallExpr:
			if p.CallsFunction(n, "k8s.io/client-go/util/retry", "RetryOnConflict", "OnError") {
				p.staleRetry(n)
			}
		}
	})
})

// IgnoredConflict reports conflicts that count as success. It is off by default: the watch delivers
// the newer object, and its event brings another reconcile.
var IgnoredConflict = rule("ignoredconflict", "a conflict that counts as success (off by default)", func(p *pass) {
	p.walk(func(n ast.Node, _ []ast.Node) {
		if n, ok := n.(*ast.IfStmt); ok {
			if statement := p.ignoresConflict(n); statement != nil {
				p.report(statement, "a conflict counts as success: the write has not happened, so return the error, which tries again with the newer object")
			}
		}
	})
})

// ignoresConflict returns the statement that ends a function with success after a conflict, or nil.
func (p *pass) ignoresConflict(n *ast.IfStmt) ast.Stmt {
	if call, ok := ast.Unparen(n.Cond).(*ast.CallExpr); ok && p.CallsFunction(call, apierrors, "IsConflict") {
		return p.success(n.Body)
	}
	return nil
}

// filtersEvents reports whether the package filters events by the generation, which the writes of a
// status or of metadata do not change.
func (p *pass) filtersEvents() bool {
	for _, f := range p.Functions {
		if contains(f.Decl.Body, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			return ok && (operator.IsType(p.Info.TypeOf(literal), "predicate", "GenerationChangedPredicate") ||
				operator.IsType(p.Info.TypeOf(literal), "predicate", "TypedGenerationChangedPredicate"))
		}) {
			return true
		}
	}
	return false
}

// success returns the last statement of a block if it returns no error and asks for no other
// reconcile, or nil.
func (p *pass) success(block *ast.BlockStmt) ast.Stmt {
	if len(block.List) == 0 {
		return nil
	}
	statement, ok := block.List[len(block.List)-1].(*ast.ReturnStmt)
	if !ok || len(statement.Results) == 0 || !isNil(statement.Results[len(statement.Results)-1]) {
		return nil
	}
	if len(statement.Results) == 2 {
		literal := literalOf(statement.Results[0])
		if literal == nil || len(literal.Elts) > 0 || !operator.IsType(p.Info.TypeOf(literal), "reconcile", "Result") {
			return nil
		}
	}
	return statement
}

// staleRetry reports a write in a function that is retried on conflicts, of an object that nothing
// in that function reads anew.
func (p *pass) staleRetry(retry *ast.CallExpr) {
	literal, ok := ast.Unparen(retry.Args[len(retry.Args)-1]).(*ast.FuncLit)
	if !ok {
		return
	}
	for _, call := range p.Calls() {
		if call.Verb != "Update" || call.Pos() < literal.Pos() || call.End() > literal.End() {
			continue
		}
		object := p.Object(call.Object)
		if object == nil || literal.Pos() <= object.Pos() && object.Pos() < literal.End() {
			continue
		}
		if !p.mayRefresh(literal, call.CallExpr, object) {
			p.reportf(call, "the retry writes the same stale %s again, which conflicts again: read it in the function that is retried", object.Name())
		}
	}
}

// mayRefresh reports whether something in a function, other than one call, may read an object anew:
// the object or its resource version is assigned, or it is passed to another function.
func (p *pass) mayRefresh(in ast.Node, except *ast.CallExpr, object *types.Var) bool {
	return contains(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if p.Object(left) == object || (isDereference(left) || isVersion(left)) && p.Root(left) == object {
					return true
				}
			}
		case *ast.CallExpr:
			if n == except || isLog(n) {
				return false
			}
			if selector, ok := n.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "SetResourceVersion" && p.Object(selector.X) == object {
				return true
			}
			for _, argument := range n.Args {
				if p.Object(argument) == object {
					return true
				}
			}
		}
		return false
	})
}

func isDereference(e ast.Expr) bool {
	_, ok := ast.Unparen(e).(*ast.StarExpr)
	return ok
}

// isLog reports whether a call logs or records an event, which changes no object.
func isLog(call *ast.CallExpr) bool {
	switch operator.CalleeName(call) {
	case "Info", "Error", "V", "WithValues", "Event", "Eventf", "AnnotatedEventf", "Infof", "Errorf", "KObj",
		"ObjectKeyFromObject", "DeepCopy", "MergeFrom", "MergeFromWithOptions", "StrategicMergeFrom":
		return true
	}
	return false
}
