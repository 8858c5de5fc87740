package rules

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// OwnerReference reports children that are created without an owner.
var OwnerReference = rule("ownerreference", "a child that is created without an owner", func(p *pass) {
	if p.setsOwners() {
		// Which of the children get one is told from the kinds that SetControllerReference is given.
		for _, f := range p.Functions {
			for _, create := range p.creations(f) {
				kind := p.KindOf(create)
				if kind != nil && p.owns(kind) && p.isBuilt(kind) && !p.setsOwnerOf(kind) {
					p.reportf(create, "this %s gets no owner, so Owns does not see it and nothing collects it: call SetControllerReference", kind.Obj().Name())
				}
			}
		}
		return
	}
	for _, f := range p.Functions {
		for _, create := range p.creations(f) {
			kind := p.KindOf(create)
			switch {
			case kind != nil && p.owns(kind) && p.isBuilt(kind):
				p.reportf(create, "this %s gets no owner, so Owns does not see it and nothing collects it: call SetControllerReference", kind.Obj().Name())
			case kind == nil && slices.ContainsFunc(p.Owned, p.isBuilt):
				p.report(create, "what is created here gets no owner, so Owns does not see it and nothing collects it: call SetControllerReference")
			case kind != nil && len(p.Owned) == 0 && p.isBuilt(kind) && isWorkload(kind) && p.isNamedAfter(kind) && !p.deletes():
				p.reportf(create, "this %s gets no owner, and nothing deletes it: call SetControllerReference", kind.Obj().Name())
			}
		}
	}
})

// creations returns the objects that a function of a reconcile creates.
func (p *pass) creations(f *operator.Function) []ast.Expr {
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
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 2 &&
			p.CallsRuntime(call, "controller/controllerutil", "CreateOrUpdate", "CreateOrPatch") {
			all = append(all, call.Args[2])
		}
		return true
	})
	return all
}

func (p *pass) owns(kind *types.Named) bool {
	return slices.ContainsFunc(p.Owned, func(owned *types.Named) bool { return owned.Obj() == kind.Obj() })
}

// isBuilt reports whether the package has a literal of a kind, so that what is set in it is seen.
func (p *pass) isBuilt(kind *types.Named) bool {
	if p.anywhere(func(call *ast.CallExpr) bool { return p.passesOn(call, kind) }) {
		return false
	}
	for _, f := range p.Functions {
		if contains(f.Decl.Body, func(n ast.Node) bool {
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
func (p *pass) isNamedAfter(kind *types.Named) bool {
	isPrimary := func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || p.Object(id) == nil {
			return false
		}
		named := operator.Named(p.Object(id).Type())
		return named != nil && p.isForKind(named) && !strings.HasPrefix(named.Obj().Pkg().Path(), "k8s.io/")
	}
	return slices.ContainsFunc(p.Functions, func(f *operator.Function) bool {
		return contains(f.Decl.Body, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok || operator.Named(p.Info.TypeOf(literal)) == nil || operator.Named(p.Info.TypeOf(literal)).Obj() != kind.Obj() {
				return false
			}
			meta := field(literal, "ObjectMeta")
			if meta == nil || literalOf(meta.Value) == nil {
				return false
			}
			name := field(literalOf(meta.Value), "Name")
			return name != nil && contains(name.Value, isPrimary)
		})
	})
}

// setsOwners reports whether the package has anything to do with owner references.
func (p *pass) setsOwners() bool {
	for _, f := range p.Functions {
		if contains(f.Decl.Body, mentionsOwner) {
			return true
		}
	}
	return false
}

// setsOwnerOf reports whether the package may set the owner of objects of a kind.
func (p *pass) setsOwnerOf(kind *types.Named) bool {
	for _, f := range p.Functions {
		if contains(f.Decl.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && setsOwner(operator.CalleeName(call)) && len(call.Args) > 1 {
				found := p.KindOf(call.Args[1])
				return found == nil || found.Obj() == kind.Obj() || isMetadata(found)
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
func (p *pass) deletes() bool {
	return slices.ContainsFunc(p.Calls(), func(c *operator.Call) bool { return strings.HasPrefix(c.Verb, "Delete") }) ||
		p.anywhere(func(call *ast.CallExpr) bool {
			return strings.Contains(operator.CalleeName(call), "Finalizer")
		})
}

// isWorkload reports whether a kind is one that lives in a namespace and is of no use without its
// owner.
func isWorkload(kind *types.Named) bool {
	return kind.Obj().Pkg() != nil && many[kind.Obj().Pkg().Path()+"."+kind.Obj().Name()] &&
		kind.Obj().Name() != "Event" && kind.Obj().Name() != "Lease"
}
