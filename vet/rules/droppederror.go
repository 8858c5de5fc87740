package rules

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"

	"flyball.dev/vet/internal/operator"
)

// DroppedError reports writes whose errors nobody reads.
var DroppedError = rule("droppederror", "an error of a write to the API that is dropped", func(p *pass) {
	p.walk(func(n ast.Node, within []ast.Node) {
		call := droppedCall(n)
		if call == nil || p.retries(n, within) {
			return
		}
		verb := ""
		if c := p.ClientCall(call); c != nil && c.Writes() {
			verb = c.Verb
			if c.Subresource != "" && c.Subresource != "?" {
				verb += " of the " + c.Subresource
			}
		} else if p.CallsRuntime(call, "controller/controllerutil", "CreateOrUpdate", "CreateOrPatch") || p.typedWrite(call) {
			verb = operator.CalleeName(call)
		}
		if verb != "" {
			p.reportf(call, "the error of %s is dropped: a conflict or a refusal goes unseen and nothing tries again", verb)
		}
	})
})

// droppedCall returns the call whose results a statement drops, or nil.
func droppedCall(n ast.Node) *ast.CallExpr {
	switch n := n.(type) {
	case *ast.ExprStmt:
		call, _ := n.X.(*ast.CallExpr)
		return call
	case *ast.GoStmt:
		return n.Call
	case *ast.DeferStmt:
		return n.Call
	case *ast.AssignStmt:
		last := ident(n.Lhs[len(n.Lhs)-1])
		if len(n.Rhs) == 1 && last != nil && last.Name == "_" {
			call, _ := n.Rhs[0].(*ast.CallExpr)
			return call
		}
	}
	return nil
}

// retries reports whether the block of a statement ends with the return of another error, or of the
// time of the next reconcile, so that the reconcile runs again whatever this write did.
func (p *pass) retries(n ast.Node, within []ast.Node) bool {
	block := statements(within[len(within)-1])
	if len(block) == 0 {
		return false
	}
	statement, ok := block[len(block)-1].(*ast.ReturnStmt)
	if !ok || statement.Pos() < n.Pos() || len(statement.Results) == 0 {
		return false
	}
	result := literalOf(statement.Results[0])
	return result != nil && field(result, "RequeueAfter") != nil ||
		p.isKnownError(statement.Results[len(statement.Results)-1], within)
}

// typedWrite reports whether a call is of a method of a generated clientset that writes.
func (p *pass) typedWrite(call *ast.CallExpr) bool {
	callee, ok := typeutil.Callee(p.Info, call).(*types.Func)
	if !ok || !slices.Contains([]string{"Create", "Update", "UpdateStatus", "Patch", "Apply", "Delete"}, callee.Name()) {
		return false
	}
	parameters := callee.Signature().Params()
	for i := range parameters.Len() {
		for _, option := range []string{"CreateOptions", "UpdateOptions", "PatchOptions", "ApplyOptions", "DeleteOptions"} {
			if operator.IsNamed(parameters.At(i).Type(), "k8s.io/apimachinery/pkg/apis/meta/v1", option) {
				return true
			}
		}
	}
	return false
}
