package operator

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// runtimes has the path above the packages of each runtime, and the package with aliases of their
// declarations.
var runtimes = []struct{ below, alias string }{
	{"flyball.dev/ctrl/", "flyball.dev/ctrl"},
	{"sigs.k8s.io/controller-runtime/pkg/", "sigs.k8s.io/controller-runtime"},
}

// inRuntime reports whether a path is the path of a runtime's package or of its package of aliases.
func inRuntime(path, pkg string) bool {
	for _, r := range runtimes {
		if path == r.below+pkg || path == r.alias {
			return true
		}
	}
	return false
}

// Named returns the named type of a type or of what it points to, or nil.
func Named(t types.Type) *types.Named {
	t = types.Unalias(t)
	if pointer, ok := t.(*types.Pointer); ok {
		t = types.Unalias(pointer.Elem())
	}
	named, _ := t.(*types.Named)
	return named
}

// IsType reports whether a type, or what it points to, is the type of that name in a runtime's
// package.
func IsType(t types.Type, pkg, name string) bool {
	named := Named(t)
	return named != nil && named.Obj().Name() == name && named.Obj().Pkg() != nil &&
		inRuntime(named.Obj().Pkg().Path(), pkg)
}

// IsNamed reports whether a type, or what it points to, is the type of that name in a package.
func IsNamed(t types.Type, path, name string) bool {
	named := Named(t)
	return named != nil && named.Obj().Name() == name && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path
}

// CallsRuntime reports whether a call calls one of the functions of a runtime's package.
func (ti TypeInfo) CallsRuntime(call *ast.CallExpr, pkg string, names ...string) bool {
	callee := typeutil.Callee(ti.Info, call)
	return callee != nil && callee.Pkg() != nil && inRuntime(callee.Pkg().Path(), pkg) && slices.Contains(names, callee.Name())
}

// CallsFunction reports whether a call calls one of the functions or methods of a package.
func (ti TypeInfo) CallsFunction(call *ast.CallExpr, path string, names ...string) bool {
	callee := typeutil.Callee(ti.Info, call)
	return callee != nil && callee.Pkg() != nil && callee.Pkg().Path() == path && slices.Contains(names, callee.Name())
}

// InLibrary reports whether a call calls a function or method of a runtime or of k8s.io.
func (ti TypeInfo) InLibrary(call *ast.CallExpr) bool {
	callee := typeutil.Callee(ti.Info, call)
	if callee == nil || callee.Pkg() == nil {
		return false
	}
	if strings.HasPrefix(callee.Pkg().Path(), "k8s.io/") {
		return true
	}
	for _, r := range runtimes {
		if callee.Pkg().Path() == r.alias || strings.HasPrefix(callee.Pkg().Path(), r.below) {
			return true
		}
	}
	return false
}

// CalleeName returns the name of the function or method that is called, without its package.
func CalleeName(call *ast.CallExpr) string {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.IndexExpr:
		if s, ok := f.X.(*ast.SelectorExpr); ok {
			return s.Sel.Name
		}
	}
	return ""
}

// KindOf returns the named type of an object, or nil if its type is an interface.
func (ti TypeInfo) KindOf(object ast.Expr) *types.Named {
	named := Named(ti.Info.TypeOf(object))
	if named == nil || types.IsInterface(named) {
		return nil
	}
	return named
}

// Object returns the variable that an expression names or takes the address of, or nil.
func (ti TypeInfo) Object(e ast.Expr) *types.Var {
	e = ast.Unparen(e)
	if unary, ok := e.(*ast.UnaryExpr); ok {
		e = ast.Unparen(unary.X)
	}
	id, ok := e.(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := ti.Info.ObjectOf(id).(*types.Var)
	return v
}

// Root returns the variable that a chain of selectors, indexes and dereferences begins with, or
// nil. The root of a.b[i].c is a.
func (ti TypeInfo) Root(e ast.Expr) *types.Var {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			v, _ := ti.Info.ObjectOf(x).(*types.Var)
			return v
		case *ast.SelectorExpr:
			if v, ok := ti.Info.Uses[x.Sel].(*types.Var); ok && !v.IsField() {
				return v // of another package
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.UnaryExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// Receiver returns the variable of a method's receiver, or nil.
func (f *Function) Receiver() *types.Var {
	if recv := f.Object.Signature().Recv(); recv != nil && recv.Name() != "" && recv.Name() != "_" {
		return recv
	}
	return nil
}
