package operator

import (
	"go/ast"
	"strings"
)

// AddsFinalizer reports whether a call adds a finalizer.
func (ti TypeInfo) AddsFinalizer(call *ast.CallExpr) bool {
	return ti.CallsRuntime(call, "controller/controllerutil", "AddFinalizer")
}

// RemovesFinalizer reports whether a call removes a finalizer.
func (ti TypeInfo) RemovesFinalizer(call *ast.CallExpr) bool {
	return ti.CallsRuntime(call, "controller/controllerutil", "RemoveFinalizer")
}

// RemovesOrAsks reports whether a node removes a finalizer or asks which error there was.
func (ti TypeInfo) RemovesOrAsks(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && (ti.RemovesFinalizer(call) || ti.ErrorArgument(call) && !IsLog(call) && !strings.HasPrefix(CalleeName(call), "Err"))
}

// InDeletion reports whether one of the if statements around a node is about the deletion timestamp.
func (ti TypeInfo) InDeletion(within []ast.Node) bool {
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
