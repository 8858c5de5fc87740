package rules

import (
	"go/ast"
	"go/types"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// GenerateName reports reconciles that create an object with a new name each time.
var GenerateName = rule("generatename", "a reconcile that creates another object each time", func(p generateNamePass) {
	for _, r := range p.Reconcilers {
		if !r.Queued {
			continue
		}
		for _, f := range r.Reachable {
			for _, create := range f.Calls {
				kind := p.KindOf(create.Object)
				if create.Verb != "Create" || create.Subresource != "" || kind == nil || operator.IsReview(kind) || !p.IsNewName(f, create) {
					continue
				}
				if get := p.findsNothing(f, create); get != nil {
					p.reportf(get, "this %s has a new name each time, so what there is from before is not found, and every reconcile creates another: give it a name that follows from its owner's, or list by a label",
						kind.Obj().Name())
				} else if !p.reads(r, kind) && !p.isChosen(r, create) {
					p.reportf(create, "every reconcile creates another %s, with a name of its own: give it a name that follows from its owner's, or look for what there is first",
						kind.Obj().Name())
				}
			}
		}
	}
})

// generateNamePass is a pass of the rule GenerateName.
type generateNamePass struct{ *pass }

// isChosen reports whether a create, or the call of a function of the reconcile, is under a condition,
// or after one about the status or the annotations, which may name what there is.
func (p generateNamePass) isChosen(r *operator.Reconciler, create *operator.Call) bool {
	recorded := func(condition ast.Expr) bool {
		return operator.Contains(condition, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			return ok && (strings.Contains(id.Name, "Status") || strings.Contains(id.Name, "Annotation"))
		})
	}
	if p.IsConditional(create.Function.Decl.Body, create.CallExpr, recorded) {
		return true
	}
	for _, caller := range r.Reachable {
		if operator.Contains(caller.Decl.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			return ok && p.Info.Uses[id] == create.Function.Object && p.IsConditional(caller.Decl.Body, id, recorded)
		}) {
			return true
		}
	}
	return false
}

// findsNothing returns the Get before a create that looks for the object by the new name, which it cannot
// find, or nil.
func (p generateNamePass) findsNothing(f *operator.Function, create *operator.Call) *operator.Call {
	object, kind := p.Object(create.Object), p.KindOf(create.Object)
	if object == nil || p.assignments(f, object) != 1 {
		return nil
	}
	for _, get := range f.Calls {
		found := p.KindOf(get.Object)
		if get.Verb == "Get" && get.Key != nil && get.Pos() < create.Pos() && found != nil && found.Obj() == kind.Obj() && p.isKeyOf(get.Key, object) {
			return get
		}
	}
	return nil
}

// isKeyOf reports whether a key is the name of an object.
func (p generateNamePass) isKeyOf(key ast.Expr, object *types.Var) bool {
	if literal := operator.LiteralOf(key); literal != nil && operator.Field(literal, "Name") != nil {
		selector, ok := ast.Unparen(operator.Field(literal, "Name").Value).(*ast.SelectorExpr)
		return ok && selector.Sel.Name == "Name" && p.Root(selector) == object
	}
	call, ok := ast.Unparen(key).(*ast.CallExpr)
	return ok && len(call.Args) == 1 && operator.CalleeName(call) == "ObjectKeyFromObject" && p.Object(call.Args[0]) == object
}

// assignments returns how often a function assigns a variable.
func (p generateNamePass) assignments(f *operator.Function, v *types.Var) int {
	n := 0
	ast.Inspect(f.Decl.Body, func(node ast.Node) bool {
		if statement, ok := node.(*ast.AssignStmt); ok {
			for _, left := range statement.Lhs {
				if p.Object(left) == v {
					n++
				}
			}
		}
		return true
	})
	return n
}

// reads reports whether a reconciler may read objects of a kind.
func (p generateNamePass) reads(r *operator.Reconciler, kind *types.Named) bool {
	for _, f := range r.Reachable {
		for _, call := range f.Calls {
			found := p.KindOf(call.Object)
			// A Get needs a name, so one of an unknown kind is not of what has a new one.
			switch {
			case call.Writes():
			case found == nil:
				if call.Verb == "List" {
					return true
				}
			case strings.TrimSuffix(found.Obj().Name(), "List") == kind.Obj().Name(), operator.IsGeneric(found):
				return true
			}
		}
		if operator.ContainsCall(f.Decl.Body, func(call *ast.CallExpr) bool { return p.PassesOn(call, kind) }) {
			return true
		}
	}
	return false
}
