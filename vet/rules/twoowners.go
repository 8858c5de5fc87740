package rules

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// TwoOwners reports objects that are given two controllers.
var TwoOwners = rule("twoowners", "an object that is given two controllers", func(p twoOwnersPass) {
	isSet := func(call *ast.CallExpr) bool {
		return len(call.Args) >= 3 && p.CallsRuntime(call, "controller/controllerutil", "SetControllerReference")
	}
	for _, f := range p.Functions {
		for _, body := range f.Bodies() {
			if !operator.ContainsCall(body, isSet) {
				continue
			}
			flow, aliases := p.Flow(body), p.aliases(body)
			original := func(owner ast.Expr) string {
				if text, ok := aliases[p.Object(owner)]; ok && p.Object(owner) != nil {
					return text
				}
				return types.ExprString(owner)
			}
			operator.InspectOwn(body, func(n ast.Node) bool {
				first, ok := n.(*ast.CallExpr)
				if !ok || !isSet(first) || p.Object(first.Args[1]) == nil {
					return true
				}
				object := p.Object(first.Args[1])
				flow.After(first, func(n ast.Node) bool {
					operator.InspectOwn(n, func(n ast.Node) bool {
						second, ok := n.(*ast.CallExpr)
						if ok && isSet(second) && p.Object(second.Args[1]) == object &&
							original(second.Args[0]) != original(first.Args[0]) {
							p.reportf(second, "%s has %s as its controller since line %d, and there can be but one: this call fails; use SetOwnerReference",
								object.Name(), types.ExprString(first.Args[0]), p.analysis.Fset.Position(first.Pos()).Line)
						}
						return true
					})
					return !p.Reassigns(n, object) && !p.releases(n, object)
				})
				return true
			})
		}
	}
})

// twoOwnersPass is a pass of the rule TwoOwners.
type twoOwnersPass struct{ *pass }

// aliases returns the variables of a body that are assigned another one, with its text.
func (p twoOwnersPass) aliases(body *ast.BlockStmt) map[*types.Var]string {
	all := map[*types.Var]string{}
	operator.InspectOwn(body, func(n ast.Node) bool {
		statement, ok := n.(*ast.AssignStmt)
		if ok && len(statement.Lhs) == 1 && p.Object(statement.Lhs[0]) != nil && p.Object(statement.Rhs[0]) != nil {
			all[p.Object(statement.Lhs[0])] = types.ExprString(statement.Rhs[0])
		}
		return true
	})
	return all
}

// releases reports whether a statement removes an owner of an object, or overwrites its owners.
func (p twoOwnersPass) releases(n ast.Node, object *types.Var) bool {
	return operator.Contains(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			return slices.ContainsFunc(n.Lhs, func(left ast.Expr) bool {
				selector, ok := left.(*ast.SelectorExpr)
				return p.Root(left) == object && (operator.IsDereference(left) || ok && selector.Sel.Name == "OwnerReferences")
			})
		case *ast.CallExpr:
			name := operator.CalleeName(n)
			return strings.Contains(name, "Owner") && strings.HasPrefix(name, "Set") && len(n.Args) == 1 ||
				strings.HasPrefix(name, "Remove") && slices.ContainsFunc(n.Args, func(argument ast.Expr) bool {
					return p.Object(argument) == object
				})
		}
		return false
	})
}
