package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"flyball.dev/vet/internal/operator"
)

const apierrors = "k8s.io/apimachinery/pkg/api/errors"

// Conflict reports retries that cannot succeed, and conflicts that count as success although no event
// of the other write will come.
var Conflict = rule("conflict", "a conflict that is retried with the same stale object, or forgotten", func(p conflictPass) {
	for _, r := range p.Reconcilers {
		filter := p.filterOf(r)
		for _, f := range r.Reachable {
			p.ignoredConflicts(f, func(statement ast.Stmt, write *operator.Call) {
				if p.drops(filter, write) {
					p.report(statement, "a conflict counts as success, and a predicate of this controller filters the event of the write that it was with: nothing tries again, so return the error")
				}
			})
		}
	}
	p.walk(func(n ast.Node, _ []ast.Node) {
		if n, ok := n.(*ast.CallExpr); ok && p.CallsFunction(n, "k8s.io/client-go/util/retry", "RetryOnConflict", "OnError") {
			p.staleRetry(n)
		}
	})
})

// IgnoredConflict reports conflicts that count as success. It is off by default: the watch delivers
// the newer object, and its event brings another reconcile.
var IgnoredConflict = rule("ignoredconflict", "a conflict that counts as success (off by default)", func(p conflictPass) {
	for _, f := range p.Functions {
		if !p.Reconciles(f) {
			continue
		}
		p.ignoredConflicts(f, func(statement ast.Stmt, _ *operator.Call) {
			p.report(statement, "a conflict counts as success: the write has not happened, so return the error, which tries again with the newer object")
		})
	}
})

// conflictPass is a pass of the rule Conflict.
type conflictPass struct{ *pass }

// ignoredConflicts calls a function with each statement that ends a function with success after a
// conflict, and with the write that conflicted, or nil.
func (p conflictPass) ignoredConflicts(f *operator.Function, found func(ast.Stmt, *operator.Call)) {
	ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
		statement, ok := n.(*ast.IfStmt)
		if !ok {
			return true
		}
		condition := ast.Unparen(statement.Cond)
		if both, ok := condition.(*ast.BinaryExpr); ok && both.Op == token.LAND && p.IsErrorTest(both.X) {
			condition = ast.Unparen(both.Y)
		}
		call, ok := condition.(*ast.CallExpr)
		if !ok || !p.CallsFunction(call, apierrors, "IsConflict") || len(call.Args) != 1 {
			return true
		}
		if end := p.Success(statement.Body); end != nil {
			found(end, p.writeBefore(f, p.Object(call.Args[0]), call.Pos()))
		}
		return true
	})
}

// writeBefore returns the call of the client that has set an error variable before a position, or nil.
func (p conflictPass) writeBefore(f *operator.Function, err *types.Var, at token.Pos) *operator.Call {
	var write *operator.Call
	ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || assign.Pos() > at || p.Object(assign.Lhs[len(assign.Lhs)-1]) != err {
			return true
		}
		write = nil
		if call, ok := ast.Unparen(assign.Rhs[len(assign.Rhs)-1]).(*ast.CallExpr); ok {
			write = p.ClientCall(call)
		}
		return true
	})
	return write
}

// filter says which events a controller gets only if they change the generation. Writes of a status or of
// metadata do not change it.
type filter int

const (
	nothing filter = iota
	itsKind        // of the kind that it is for
	everything
)

// filterOf returns the filter that the methods of a reconciler give to the builder.
func (p conflictPass) filterOf(r *operator.Reconciler) filter {
	is := nothing
	for _, f := range p.Functions {
		receiver := f.Object.Signature().Recv()
		if receiver == nil || operator.Named(receiver.Type()) == nil || operator.Named(receiver.Type()).Obj() != r.Type {
			continue
		}
		ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !slices.ContainsFunc(call.Args, p.comparesGenerations) {
				return true
			}
			if p.CallsRuntime(call, "builder", "For") {
				is = max(is, itsKind)
			} else if p.CallsRuntime(call, "builder", "WithEventFilter") {
				is = everything
			}
			return true
		})
	}
	return is
}

// comparesGenerations reports whether an argument of a builder is the predicate that compares
// generations, with no other beside it.
func (p conflictPass) comparesGenerations(argument ast.Expr) bool {
	is := func(e ast.Expr) bool {
		t := p.Info.TypeOf(e)
		return operator.IsType(t, "predicate", "GenerationChangedPredicate") || operator.IsType(t, "predicate", "TypedGenerationChangedPredicate")
	}
	call, ok := ast.Unparen(argument).(*ast.CallExpr)
	return is(argument) || ok && p.CallsRuntime(call, "builder", "WithPredicates") && slices.ContainsFunc(call.Args, is)
}

// drops reports whether a filter leaves out the event of the write that another one was in conflict
// with.
func (p conflictPass) drops(by filter, write *operator.Call) bool {
	if by != itsKind || write == nil {
		return by == everything
	}
	kind := p.KindOf(write.Object)
	return kind != nil && slices.ContainsFunc(p.For, func(of *types.Named) bool { return of.Obj() == kind.Obj() })
}

// staleRetry reports a write in a function that is retried on conflicts, of an object that nothing
// in that function reads anew.
func (p conflictPass) staleRetry(retry *ast.CallExpr) {
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
		before := p.upToFailure(literal.Body.List, call.CallExpr)
		if !slices.ContainsFunc(before, func(s ast.Stmt) bool { return p.MayRefresh(s, call.CallExpr, object) }) {
			p.reportf(call, "the retry writes the same stale %s again, which conflicts again: read it in the function that is retried", object.Name())
		}
	}
}

// upToFailure returns the statements of a function that run when a call in one of them fails: all up to
// the return of its error.
func (p conflictPass) upToFailure(statements []ast.Stmt, failing *ast.CallExpr) []ast.Stmt {
	for i, statement := range statements {
		test, ok := statement.(*ast.IfStmt)
		if !ok || !p.IsErrorTest(test.Cond) || len(test.Body.List) == 0 {
			continue
		}
		_, returns := test.Body.List[len(test.Body.List)-1].(*ast.ReturnStmt)
		fails := test.Init
		if fails == nil && i > 0 {
			fails = statements[i-1]
		}
		if assign, ok := fails.(*ast.AssignStmt); ok && returns && ast.Unparen(assign.Rhs[0]) == failing {
			return statements[:i+1]
		}
	}
	return statements
}
