package operator

import (
	"go/ast"
	"go/types"
)

// IsNewName reports whether a create names its object anew each time: the name is generated, random or
// the time.
func (p *Package) IsNewName(f *Function, create *Call) bool {
	kind := p.KindOf(create.Object)
	if literal := LiteralOf(create.Object); literal != nil {
		return p.newNameIn(literal)
	}
	if call, ok := ast.Unparen(create.Object).(*ast.CallExpr); ok {
		return p.makesNewName(call, kind)
	}
	object := p.Object(create.Object)
	if object == nil || p.isNamed(f, object) {
		return false
	}
	return Contains(f.Decl.Body, func(n ast.Node) bool {
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
			switch literal := LiteralOf(statement.Rhs[i]); {
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
func (p *Package) makesNewName(call *ast.CallExpr, kind *types.Named) bool {
	f := p.Declared(call)
	return f != nil && Contains(f.Decl.Body, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok || !p.newNameIn(literal) {
			return false
		}
		made := Named(p.Info.TypeOf(literal))
		return made != nil && made.Obj() == kind.Obj()
	})
}

// isNamed reports whether a function gives an object a name that is not new each time.
func (ti TypeInfo) isNamed(f *Function, object *types.Var) bool {
	return Contains(f.Decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				selector, ok := left.(*ast.SelectorExpr)
				if ok && selector.Sel.Name == "Name" && ti.Root(left) == object && len(n.Lhs) == len(n.Rhs) && !ti.isRandom(n.Rhs[i]) {
					return true
				}
			}
		case *ast.CallExpr:
			selector, ok := n.Fun.(*ast.SelectorExpr)
			return ok && selector.Sel.Name == "SetName" && ti.Root(selector.X) == object && len(n.Args) == 1 && !ti.isRandom(n.Args[0])
		}
		return false
	})
}

// newNameIn reports whether the metadata in a literal has a name that is new each time.
func (ti TypeInfo) newNameIn(literal *ast.CompositeLit) bool {
	meta := Field(literal, "ObjectMeta")
	if meta == nil || LiteralOf(meta.Value) == nil {
		return false
	}
	if name := Field(LiteralOf(meta.Value), "Name"); name != nil {
		return ti.isRandom(name.Value)
	}
	return Field(LiteralOf(meta.Value), "GenerateName") != nil
}

// isRandom reports whether an expression calls for a random value or the time.
func (ti TypeInfo) isRandom(e ast.Expr) bool {
	return ContainsCall(e, func(call *ast.CallExpr) bool {
		return ti.ReadsClock(call) || ti.CallsFunction(call, "github.com/google/uuid", "New", "NewString") ||
			ti.CallsFunction(call, "k8s.io/apimachinery/pkg/util/uuid", "NewUUID") ||
			ti.CallsFunction(call, "k8s.io/apimachinery/pkg/util/rand", "String") ||
			ti.CallsFunction(call, "math/rand", "Int", "Intn", "Int63") || ti.CallsFunction(call, "math/rand/v2", "Int", "IntN", "Uint32")
	})
}
