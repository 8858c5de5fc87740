package rules

import (
	"go/ast"
	"go/types"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// Adoption reports lists without a selector whose items are adopted or deleted.
var Adoption = rule("adoption", "a List without a selector whose objects are adopted or deleted", func(p *pass) {
	for _, f := range p.Functions {
		if !p.Reconciles(f) {
			continue
		}
		for _, call := range f.Calls {
			list := p.Object(call.Object)
			if call.Verb == "List" && list != nil && !p.scope(call).selector {
				p.taken(f, call, list)
			}
		}
	}
})

// isEmptySelector reports whether an option is a selector of everything.
func (p *pass) isEmptySelector(option ast.Expr) bool {
	literal := literalOf(option)
	if literal == nil {
		return false
	}
	t := p.Info.TypeOf(literal)
	switch {
	case operator.IsType(t, "client", "MatchingLabels"), operator.IsType(t, "client", "MatchingFields"):
		return len(literal.Elts) == 0
	case operator.IsType(t, "client", "MatchingLabelsSelector"):
		return containsCall(literal, func(call *ast.CallExpr) bool {
			return p.CallsFunction(call, "k8s.io/apimachinery/pkg/labels", "Everything")
		})
	}
	return false
}

// taken reports a loop over the items of a list that adopts or deletes every one of them.
func (p *pass) taken(f *operator.Function, list *operator.Call, variable *types.Var) {
	ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
		loop, ok := n.(*ast.RangeStmt)
		if !ok || loop.Pos() < list.End() || p.Root(loop.X) != variable {
			return true
		}
		for _, s := range loop.Body.List {
			if _, ok := s.(*ast.IfStmt); ok && p.filters(s) {
				return true
			}
			if verb := p.takes(s); verb == "adopted" || verb == "deleted" && p.isShared(list) {
				p.reportf(list, "every object of this list, which no selector narrows, is %s in line %d: select by labels of the owner's own, or check the owner",
					verb, p.analysis.Fset.Position(s.Pos()).Line)
				return true
			}
		}
		return true
	})
}

// filters reports whether an if statement leaves some of the items out.
func (p *pass) filters(s ast.Stmt) bool {
	statement := s.(*ast.IfStmt)
	return p.takes(statement) == "" || statement.Init == nil
}

// takes returns what a statement does with an object that makes it its own. To delete is to do that
// if others have objects there: objects of a usual kind, in no namespace of the operator's own making.
func (p *pass) takes(s ast.Stmt) string {
	verb := ""
	ast.Inspect(s, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if p.CallsRuntime(call, "controller/controllerutil", "SetControllerReference", "SetOwnerReference") {
			verb = "adopted"
		}
		if c := p.ClientCall(call); c != nil && c.Verb == "Delete" {
			verb = "deleted"
		}
		return true
	})
	return verb
}

// isShared reports whether a List is of a usual kind in all namespaces, or in one that is read from
// an object's metadata or a request.
func (p *pass) isShared(list *operator.Call) bool {
	kind := p.KindOf(list.Object)
	if kind == nil || !many[element(kind)] {
		return false
	}
	for _, option := range list.Options {
		conversion, ok := option.(*ast.CallExpr)
		if !ok || !operator.IsType(p.Info.TypeOf(option), "client", "InNamespace") || len(conversion.Args) != 1 {
			continue
		}
		text := types.ExprString(conversion.Args[0])
		return strings.HasSuffix(text, ".Namespace") && !strings.Contains(text, ".Spec.") && !strings.Contains(text, ".Status.") ||
			strings.HasSuffix(text, ".GetNamespace()")
	}
	return true
}
