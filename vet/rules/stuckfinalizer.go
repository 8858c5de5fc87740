package rules

import (
	"go/ast"
	"go/token"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// StuckFinalizer reports cleanups whose errors end the reconcile as a success, so that nothing tries
// again to remove the finalizer.
var StuckFinalizer = rule("stuckfinalizer", "an error of a cleanup after which nothing removes the finalizer", func(p *pass) {
	for _, f := range p.Functions {
		if !p.Reconciles(f) || !containsCall(f.Decl.Body, p.removesFinalizer) {
			continue
		}
		name := strings.ToLower(f.Object.Name())
		deletes := strings.Contains(name, "delet") || strings.Contains(name, "finaliz") || strings.Contains(name, "cleanup")
		walk(f.Decl.Body, func(n ast.Node, within []ast.Node) {
			statement, ok := n.(*ast.IfStmt)
			if !ok || !p.isErrorTest(statement.Cond) || !deletes && !p.inDeletion(within) || !p.beforeRemoval(f, statement) ||
				contains(statement.Body, p.removesOrAsks) {
				return
			}
			if success := p.success(statement.Body); success != nil {
				p.report(success, "the cleanup failed and the reconcile ends without an error: nothing tries again, and the finalizer stays; return the error")
			}
		})
	}
})

func (p *pass) removesFinalizer(call *ast.CallExpr) bool {
	return p.CallsRuntime(call, "controller/controllerutil", "RemoveFinalizer")
}

// removesOrAsks reports whether a node removes a finalizer or asks which error there was.
func (p *pass) removesOrAsks(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && (p.removesFinalizer(call) || p.errorArgument(call) && !isLog(call) && !strings.HasPrefix(operator.CalleeName(call), "Err"))
}

func (p *pass) errorArgument(call *ast.CallExpr) bool {
	for _, argument := range call.Args {
		if operator.IsError(p.Info.TypeOf(argument)) {
			return true
		}
	}
	return false
}

// isErrorTest reports whether a condition is that there was an error, of whatever kind.
func (p *pass) isErrorTest(condition ast.Expr) bool {
	binary, ok := ast.Unparen(condition).(*ast.BinaryExpr)
	return ok && binary.Op == token.NEQ && isNil(binary.Y) && operator.IsError(p.Info.TypeOf(binary.X))
}

// inDeletion reports whether one of the if statements around a node is about the deletion timestamp.
func (p *pass) inDeletion(within []ast.Node) bool {
	for _, n := range within {
		if statement, ok := n.(*ast.IfStmt); ok && contains(statement.Cond, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			return ok && strings.Contains(id.Name, "DeletionTimestamp")
		}) {
			return true
		}
	}
	return false
}

// beforeRemoval reports whether a statement stands before a removal of a finalizer in a function.
func (p *pass) beforeRemoval(f *operator.Function, statement ast.Stmt) bool {
	return containsCall(f.Decl.Body, func(call *ast.CallExpr) bool {
		return p.removesFinalizer(call) && call.Pos() > statement.End()
	})
}
