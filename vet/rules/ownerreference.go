package rules

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"flyball.dev/vet/internal/operator"
)

// OwnerReference reports children that are created without an owner.
var OwnerReference = rule("ownerreference", "a child that is created without an owner", func(p ownerReferencePass) {
	setsOwners := p.setsOwners()
	for _, f := range p.Functions {
		for _, create := range p.creations(f) {
			kind := p.KindOf(create)
			owned := kind != nil && p.owns(kind) && p.isBuilt(kind)
			switch {
			case setsOwners:
				// Which of the children get one is told from the kinds that SetControllerReference is given,
				// and from all that is done with a child.
				if owned && (!p.setsOwnerOf(kind) || p.isOwnerless(f, create)) {
					p.ownerless(create, kind)
				}
			case owned:
				p.ownerless(create, kind)
			case kind == nil && slices.ContainsFunc(p.Owned, p.isBuilt):
				p.report(create, "the object gets no owner, so Owns does not see it and nothing collects it: call SetControllerReference")
			case kind != nil && len(p.Owned) == 0 && p.isBuilt(kind) && isWorkload(kind) && p.isNamedAfter(kind) && !p.deletes():
				p.reportf(create, "this %s gets no owner, and nothing deletes it: call SetControllerReference", kind.Obj().Name())
			}
		}
	}
})

// ownerReferencePass is a pass of the rule OwnerReference.
type ownerReferencePass struct{ *pass }

// ownerless reports a child of a kind that the package owns.
func (p ownerReferencePass) ownerless(create ast.Expr, kind *types.Named) {
	if operator.IsClusterScoped(kind) {
		p.reportf(create, "this %s gets no owner, so Owns does not see it: call SetControllerReference, or if its owner is in a namespace, "+
			"which cannot own it, replace Owns by Watches and delete it before the finalizer is removed", kind.Obj().Name())
		return
	}
	p.reportf(create, "this %s gets no owner, so Owns does not see it and nothing collects it: call SetControllerReference", kind.Obj().Name())
}

// creations returns the objects that a function of a reconcile creates.
func (p ownerReferencePass) creations(f *operator.Function) []ast.Expr {
	if !p.Reconciles(f) {
		return nil
	}
	var all []ast.Expr
	for _, call := range f.Calls {
		if call.Verb == "Create" && call.Subresource == "" {
			all = append(all, call.Object)
		}
	}
	ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && p.createsOrUpdates(call) {
			all = append(all, call.Args[2])
		}
		return true
	})
	return all
}

// createsOrUpdates reports whether a call is of the runtime's CreateOrUpdate, or of a function of
// another package with its name and its parameters, which knows no owner.
func (p ownerReferencePass) createsOrUpdates(call *ast.CallExpr) bool {
	if p.CallsRuntime(call, "controller/controllerutil", "CreateOrUpdate", "CreateOrPatch") {
		return len(call.Args) > 2
	}
	name := operator.CalleeName(call)
	if !strings.HasPrefix(name, "CreateOrUpdate") && !strings.HasPrefix(name, "CreateOrPatch") || len(call.Args) != 4 {
		return false
	}
	callee, ok := typeutil.Callee(p.Info, call).(*types.Func)
	if !ok || callee.Signature().Recv() != nil || p.Declared(call) != nil ||
		!operator.IsType(p.Info.TypeOf(call.Args[1]), "client", "Client") {
		return false
	}
	mutate, ok := p.Info.TypeOf(call.Args[3]).Underlying().(*types.Signature)
	return ok && mutate.Params().Len() == 0
}

// isOwnerless reports whether a function builds an object in the namespace of the request and creates it,
// and does nothing else that can set an owner.
func (p ownerReferencePass) isOwnerless(f *operator.Function, create ast.Expr) bool {
	v := p.Object(create)
	if v == nil || !p.isBuiltBeside(f, v) {
		return false
	}
	ownerless := true
	operator.Walk(f.Decl.Body, func(n ast.Node, within []ast.Node) {
		id, ok := n.(*ast.Ident)
		if !ok || p.Object(id) != v || len(within) == 0 {
			return
		}
		for _, outer := range slices.Backward(within) {
			if call, ok := outer.(*ast.CallExpr); ok && mentionsOwnerOf(call) {
				ownerless = false
			}
		}
		outer := within[len(within)-1]
		if _, ok := outer.(*ast.UnaryExpr); ok && len(within) > 1 {
			outer = within[len(within)-2]
		}
		switch outer := outer.(type) {
		case *ast.SelectorExpr:
			ownerless = ownerless && !mentionsOwner(outer.Sel)
		case *ast.CallExpr:
			ownerless = ownerless &&
				(p.ClientCall(outer) != nil || p.createsOrUpdates(outer) || p.InLibrary(outer) || operator.IsLog(outer))
		case *ast.AssignStmt:
			ownerless = ownerless && slices.Contains(outer.Lhs, ast.Expr(id))
		default:
			ownerless = false
		}
	})
	return ownerless
}

// isBuiltBeside reports whether a function assigns a variable one literal only: an object without owners in
// the namespace of the request.
func (p ownerReferencePass) isBuiltBeside(f *operator.Function, v *types.Var) bool {
	literal := p.SoleLiteral(f, v)
	if literal == nil {
		return false
	}
	metadata := operator.Field(literal, "ObjectMeta")
	if metadata == nil || operator.LiteralOf(metadata.Value) == nil || operator.Field(operator.LiteralOf(metadata.Value), "OwnerReferences") != nil {
		return false
	}
	namespace := operator.Field(operator.LiteralOf(metadata.Value), "Namespace")
	if namespace == nil {
		return false
	}
	selector, ok := namespace.Value.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Namespace" {
		return false
	}
	root := p.Object(selector.X)
	return root != nil && operator.Named(root.Type()) != nil &&
		(p.IsForKind(operator.Named(root.Type())) || operator.IsType(root.Type(), "reconcile", "Request"))
}

// mentionsOwnerOf reports whether a call may set an owner, by its name.
func mentionsOwnerOf(call *ast.CallExpr) bool {
	name := operator.CalleeName(call)
	return strings.Contains(name, "Owner") || strings.Contains(name, "Controller")
}

func (p ownerReferencePass) owns(kind *types.Named) bool {
	return slices.ContainsFunc(p.Owned, func(owned *types.Named) bool { return owned.Obj() == kind.Obj() })
}

// isBuilt reports whether the package has a literal of a kind, so that the rule sees its fields.
func (p ownerReferencePass) isBuilt(kind *types.Named) bool {
	if p.Anywhere(func(call *ast.CallExpr) bool { return p.PassesOn(call, kind) && !p.createsOrUpdates(call) }) {
		return false
	}
	for _, f := range p.Functions {
		if operator.Contains(f.Decl.Body, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			return ok && len(literal.Elts) > 0 && operator.Named(p.Info.TypeOf(literal)) != nil &&
				operator.Named(p.Info.TypeOf(literal)).Obj() == kind.Obj()
		}) {
			return true
		}
	}
	return false
}

// isNamedAfter reports whether a literal of a kind has a name that follows from an object of a kind
// that the package's builders are for and that is not one of Kubernetes' own.
func (p ownerReferencePass) isNamedAfter(kind *types.Named) bool {
	isPrimary := func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || p.Object(id) == nil {
			return false
		}
		named := operator.Named(p.Object(id).Type())
		return named != nil && p.IsForKind(named) && !strings.HasPrefix(named.Obj().Pkg().Path(), "k8s.io/")
	}
	return slices.ContainsFunc(p.Functions, func(f *operator.Function) bool {
		return operator.Contains(f.Decl.Body, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok || operator.Named(p.Info.TypeOf(literal)) == nil || operator.Named(p.Info.TypeOf(literal)).Obj() != kind.Obj() {
				return false
			}
			meta := operator.Field(literal, "ObjectMeta")
			if meta == nil || operator.LiteralOf(meta.Value) == nil {
				return false
			}
			name := operator.Field(operator.LiteralOf(meta.Value), "Name")
			return name != nil && operator.Contains(name.Value, isPrimary)
		})
	})
}

// setsOwners reports whether the package has anything to do with owner references.
func (p ownerReferencePass) setsOwners() bool {
	for _, f := range p.Functions {
		if operator.Contains(f.Decl.Body, mentionsOwner) {
			return true
		}
	}
	return false
}

// setsOwnerOf reports whether the package may set the owner of objects of a kind.
func (p ownerReferencePass) setsOwnerOf(kind *types.Named) bool {
	for _, f := range p.Functions {
		if operator.Contains(f.Decl.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && setsOwner(operator.CalleeName(call)) && len(call.Args) > 1 {
				found := p.KindOf(call.Args[1])
				return found == nil || found.Obj() == kind.Obj() || operator.IsGeneric(found)
			}
			id, ok := n.(*ast.Ident)
			return ok && strings.Contains(id.Name, "OwnerRef") && !setsOwner(id.Name)
		}) {
			return true
		}
	}
	return false
}

func setsOwner(name string) bool {
	return name == "SetControllerReference" || name == "SetOwnerReference"
}

func mentionsOwner(n ast.Node) bool {
	id, ok := n.(*ast.Ident)
	return ok && (strings.Contains(id.Name, "OwnerRef") || strings.Contains(id.Name, "ControllerRef") || setsOwner(id.Name))
}

// deletes reports whether the package deletes anything or has finalizers.
func (p ownerReferencePass) deletes() bool {
	return slices.ContainsFunc(p.Calls(), func(c *operator.Call) bool { return strings.HasPrefix(c.Verb, "Delete") }) ||
		p.Anywhere(func(call *ast.CallExpr) bool {
			return strings.Contains(operator.CalleeName(call), "Finalizer")
		})
}

// isWorkload reports whether a kind is one that lives in a namespace and is of no use without its
// owner.
func isWorkload(kind *types.Named) bool {
	return kind.Obj().Pkg() != nil && operator.Numerous[kind.Obj().Pkg().Path()+"."+kind.Obj().Name()] &&
		kind.Obj().Name() != "Event" && kind.Obj().Name() != "Lease"
}
