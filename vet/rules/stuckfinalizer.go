package rules

import (
	"go/ast"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// StuckFinalizer reports cleanups if their errors end the reconcile as a success, so that nothing tries
// again to remove the finalizer.
var StuckFinalizer = rule("stuckfinalizer", "an error of a cleanup after which nothing removes the finalizer", func(p stuckFinalizerPass) {
	for _, f := range p.Functions {
		if !p.Reconciles(f) || !operator.ContainsCall(f.Decl.Body, p.RemovesFinalizer) {
			continue
		}
		name := strings.ToLower(f.Object.Name())
		deletes := strings.Contains(name, "delet") || strings.Contains(name, "finaliz") || strings.Contains(name, "cleanup")
		operator.Walk(f.Decl.Body, func(n ast.Node, within []ast.Node) {
			statement, ok := n.(*ast.IfStmt)
			if !ok || !p.IsErrorTest(statement.Cond) || !deletes && !p.InDeletion(within) || !p.beforeRemoval(f, statement) ||
				operator.Contains(statement.Body, p.RemovesOrAsks) {
				return
			}
			if success := p.Success(statement.Body); success != nil {
				p.report(success, "the cleanup failed and the reconcile ends without an error: nothing tries again, and the finalizer stays; return the error")
			}
		})
	}
})

// stuckFinalizerPass is a pass of the rule StuckFinalizer.
type stuckFinalizerPass struct{ *pass }

// beforeRemoval reports whether a statement stands before a removal of a finalizer in a function.
func (p stuckFinalizerPass) beforeRemoval(f *operator.Function, statement ast.Stmt) bool {
	return operator.ContainsCall(f.Decl.Body, func(call *ast.CallExpr) bool {
		return p.RemovesFinalizer(call) && call.Pos() > statement.End()
	})
}
