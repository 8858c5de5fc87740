package rules

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// Adoption reports lists without a selector if the operator adopts or deletes all their items, and
// deletions of all objects of a namespace.
var Adoption = rule("adoption", "objects that no selector narrows are all adopted or deleted", func(p adoptionPass) {
	for _, f := range p.Functions {
		if !p.Reconciles(f) {
			continue
		}
		for _, call := range f.Calls {
			list := p.Object(call.Object)
			if call.Verb == "List" && list != nil && !p.Scope(call).Selector {
				p.taken(f, call, list)
			}
			if call.Verb == "DeleteAllOf" && !p.Scope(call).Selector && p.isShared(call) {
				p.reportf(call, "every %s there is deleted, for no selector narrows it: select by labels of the owner's own",
					p.KindOf(call.Object).Obj().Name())
			}
		}
	}
})

// adoptionPass is a pass of the rule Adoption.
type adoptionPass struct{ *pass }

// taken reports a loop over the items of a list that adopts or deletes every one of them.
func (p adoptionPass) taken(f *operator.Function, list *operator.Call, variable *types.Var) {
	ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
		loop, ok := n.(*ast.RangeStmt)
		if !ok || loop.Pos() < list.End() || p.Root(loop.X) != variable || p.isChanged(f, list, variable, loop) {
			return true
		}
		for _, s := range loop.Body.List {
			if p.filters(s) {
				return true
			}
			if verb := p.takes(s); verb == "adopted" && (p.writesItems(loop, variable) || !p.isUsedAfter(f, loop, variable)) || verb == "deleted" && p.isShared(list) {
				p.reportf(list, "every object of this list, which no selector narrows, is %s in line %d: select by labels of the owner's own, or check the owner",
					verb, p.analysis.Fset.Position(s.Pos()).Line)
				return true
			}
		}
		return true
	})
}

// writesItems reports whether a loop over a list may write its items: it writes something, or
// passes an item to a function.
func (p adoptionPass) writesItems(loop *ast.RangeStmt, list *types.Var) bool {
	var item *types.Var
	if loop.Value != nil {
		item = p.Object(loop.Value)
	}
	return operator.ContainsCall(loop.Body, func(call *ast.CallExpr) bool {
		if p.CallsRuntime(call, "controller/controllerutil", "SetControllerReference", "SetOwnerReference") || operator.IsLog(call) {
			return false
		}
		if c := p.ClientCall(call); c != nil {
			return c.Writes()
		}
		return slices.ContainsFunc(call.Args, func(argument ast.Expr) bool {
			root := p.Root(argument)
			return root != nil && (root == list || root == item)
		})
	})
}

// isUsedAfter reports whether a function uses a list after a loop over it: the owners that the loop
// sets may be for that use, and never written.
func (p adoptionPass) isUsedAfter(f *operator.Function, loop *ast.RangeStmt, list *types.Var) bool {
	return operator.Contains(f.Decl.Body, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		return ok && name.Pos() > loop.End() && p.Info.Uses[name] == list
	})
}

// isChanged reports whether something between a list and a loop over it may leave items out: it
// assigns them, or the list is passed to a function.
func (p adoptionPass) isChanged(f *operator.Function, list *operator.Call, variable *types.Var, loop *ast.RangeStmt) bool {
	return operator.Contains(f.Decl.Body, func(n ast.Node) bool {
		if n.Pos() < list.End() || n.End() > loop.Pos() {
			return false
		}
		switch n := n.(type) {
		case *ast.AssignStmt:
			return slices.ContainsFunc(n.Lhs, func(left ast.Expr) bool { return p.Root(left) == variable })
		case *ast.CallExpr:
			return !operator.IsLog(n) && slices.ContainsFunc(n.Args, func(argument ast.Expr) bool { return p.Object(argument) == variable })
		}
		return false
	})
}

// filters reports whether a statement leaves some of the items out: it takes some of them, or none
// and may end the iteration.
func (p adoptionPass) filters(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.IfStmt:
		return p.takes(s) == "" || (s.Init == nil || p.takes(s.Init) == "") && p.takes(&ast.ExprStmt{X: s.Cond}) == ""
	case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.ForStmt, *ast.RangeStmt:
		return p.takes(s) != ""
	}
	return false
}

// takes returns what a statement does with an object that makes it its own. To delete is to do that
// if others have objects there: objects of a usual kind, in no namespace of the operator's own making.
func (p adoptionPass) takes(s ast.Stmt) string {
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
func (p adoptionPass) isShared(list *operator.Call) bool {
	kind := p.KindOf(list.Object)
	if kind == nil || !operator.Numerous[operator.ElementOf(kind)] {
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
