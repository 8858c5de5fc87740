package operator

import (
	"go/ast"
	"strings"
)

// AddsFinalizer reports whether a call adds a finalizer.
func (src Source) AddsFinalizer(call *ast.CallExpr) bool {
	return src.CallsRuntime(call, "controller/controllerutil", "AddFinalizer")
}

// RemovesFinalizer reports whether a call removes a finalizer.
func (src Source) RemovesFinalizer(call *ast.CallExpr) bool {
	return src.CallsRuntime(call, "controller/controllerutil", "RemoveFinalizer")
}

// RemovesOrAsks reports whether a node removes a finalizer or asks which error there was.
func (src Source) RemovesOrAsks(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && (src.RemovesFinalizer(call) || src.ErrorArgument(call) && !IsLog(call) && !strings.HasPrefix(CalleeName(call), "Err"))
}

// InDeletion reports whether one of the if statements around a node is about the deletion timestamp.
func (src Source) InDeletion(within []ast.Node) bool {
	for _, n := range within {
		if statement, ok := n.(*ast.IfStmt); ok && Contains(statement.Cond, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			return ok && strings.Contains(id.Name, "DeletionTimestamp")
		}) {
			return true
		}
	}
	return false
}
