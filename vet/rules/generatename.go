package rules

import (
	"go/ast"
	"go/types"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// GenerateName reports reconciles that create an object with a new name each time.
var GenerateName = rule("generatename", "a reconcile that creates another object each time", func(p *pass) {
	for _, r := range p.Reconcilers {
		if !r.Queued {
			continue
		}
		for _, f := range r.Reachable {
			for _, create := range f.Calls {
				kind := p.KindOf(create.Object)
				if create.Verb != "Create" || create.Subresource != "" || kind == nil || isReview(kind) || !p.isNewName(f, create) {
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

// isChosen reports whether a create, or the call of a function of the reconcile, is under a condition,
// or after one about the status or the annotations, which may name what there is.
func (p *pass) isChosen(r *operator.Reconciler, create *operator.Call) bool {
	recorded := func(condition ast.Expr) bool {
		return contains(condition, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			return ok && (strings.Contains(id.Name, "Status") || strings.Contains(id.Name, "Annotation"))
		})
	}
	if p.conditional(create.Function.Decl.Body, create.CallExpr, recorded) {
		return true
	}
	for _, caller := range r.Reachable {
		if contains(caller.Decl.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			return ok && p.Info.Uses[id] == create.Function.Object && p.conditional(caller.Decl.Body, id, recorded)
		}) {
			return true
		}
	}
	return false
}

// findsNothing returns the Get before a create that looks for what is to be created by the new name
// that this has, or nil.
func (p *pass) findsNothing(f *operator.Function, create *operator.Call) *operator.Call {
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
func (p *pass) isKeyOf(key ast.Expr, object *types.Var) bool {
	if literal := literalOf(key); literal != nil && field(literal, "Name") != nil {
		selector, ok := ast.Unparen(field(literal, "Name").Value).(*ast.SelectorExpr)
		return ok && selector.Sel.Name == "Name" && p.Root(selector) == object
	}
	call, ok := ast.Unparen(key).(*ast.CallExpr)
	return ok && len(call.Args) == 1 && operator.CalleeName(call) == "ObjectKeyFromObject" && p.Object(call.Args[0]) == object
}

// assignments returns how often a function assigns a variable.
func (p *pass) assignments(f *operator.Function, v *types.Var) int {
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
func (p *pass) reads(r *operator.Reconciler, kind *types.Named) bool {
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
			case strings.TrimSuffix(found.Obj().Name(), "List") == kind.Obj().Name(), isMetadata(found):
				return true
			}
		}
		if containsCall(f.Decl.Body, func(call *ast.CallExpr) bool { return p.passesOn(call, kind) }) {
			return true
		}
	}
	return false
}

// isNewName reports whether the name of what is created is new each time: it is generated, random or
// the time.
func (p *pass) isNewName(f *operator.Function, create *operator.Call) bool {
	kind := p.KindOf(create.Object)
	if literal := literalOf(create.Object); literal != nil {
		return p.newNameIn(literal)
	}
	if call, ok := ast.Unparen(create.Object).(*ast.CallExpr); ok {
		return p.makesNewName(call, kind)
	}
	object := p.Object(create.Object)
	if object == nil || p.isNamed(f, object) {
		return false
	}
	return contains(f.Decl.Body, func(n ast.Node) bool {
		statement, ok := n.(*ast.AssignStmt)
		if !ok {
			return false
		}
		if call, ok := ast.Unparen(statement.Rhs[0]).(*ast.CallExpr); ok && p.Object(statement.Lhs[0]) == object && p.makesNewName(call, kind) {
			return true
		}
		if len(statement.Lhs) != len(statement.Rhs) {
			return false
		}
		for i, left := range statement.Lhs {
			selector, isField := left.(*ast.SelectorExpr)
			switch literal := literalOf(statement.Rhs[i]); {
			case p.Object(left) == object && literal != nil && p.newNameIn(literal):
				return true
			case isField && p.Root(left) == object && selector.Sel.Name == "GenerateName":
				return true
			case isField && p.Root(left) == object && selector.Sel.Name == "Name" && p.isRandom(statement.Rhs[i]):
				return true
			}
		}
		return false
	})
}

// makesNewName reports whether a call calls a function of the package that makes an object of a kind
// with a name that is new each time.
func (p *pass) makesNewName(call *ast.CallExpr, kind *types.Named) bool {
	f := p.Declared(call)
	return f != nil && contains(f.Decl.Body, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok || !p.newNameIn(literal) {
			return false
		}
		made := operator.Named(p.Info.TypeOf(literal))
		return made != nil && made.Obj() == kind.Obj()
	})
}

// isNamed reports whether a function gives an object a name that is not new each time.
func (p *pass) isNamed(f *operator.Function, object *types.Var) bool {
	return contains(f.Decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				selector, ok := left.(*ast.SelectorExpr)
				if ok && selector.Sel.Name == "Name" && p.Root(left) == object && len(n.Lhs) == len(n.Rhs) && !p.isRandom(n.Rhs[i]) {
					return true
				}
			}
		case *ast.CallExpr:
			selector, ok := n.Fun.(*ast.SelectorExpr)
			return ok && selector.Sel.Name == "SetName" && p.Root(selector.X) == object && len(n.Args) == 1 && !p.isRandom(n.Args[0])
		}
		return false
	})
}

// newNameIn reports whether the metadata in a literal has a name that is new each time.
func (p *pass) newNameIn(literal *ast.CompositeLit) bool {
	meta := field(literal, "ObjectMeta")
	if meta == nil || literalOf(meta.Value) == nil {
		return false
	}
	if name := field(literalOf(meta.Value), "Name"); name != nil {
		return p.isRandom(name.Value)
	}
	return field(literalOf(meta.Value), "GenerateName") != nil
}

// isRandom reports whether an expression calls for a random value or the time.
func (p *pass) isRandom(e ast.Expr) bool {
	return containsCall(e, func(call *ast.CallExpr) bool {
		return p.readsClock(call) || p.CallsFunction(call, "github.com/google/uuid", "New", "NewString") ||
			p.CallsFunction(call, "k8s.io/apimachinery/pkg/util/uuid", "NewUUID") ||
			p.CallsFunction(call, "k8s.io/apimachinery/pkg/util/rand", "String") ||
			p.CallsFunction(call, "math/rand", "Int", "Intn", "Int63") || p.CallsFunction(call, "math/rand/v2", "Int", "IntN", "Uint32")
	})
}
