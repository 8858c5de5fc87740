package rules

import (
	"bytes"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// CrossNamespace reports owners that are in another namespace than what they own.
var CrossNamespace = rule("crossnamespace", "an owner in another namespace than what it owns", func(p crossNamespacePass) {
	for _, f := range p.Functions {
		if operator.Contains(f.Decl.Body, comparesNamespaces) {
			continue
		}
		ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 ||
				!p.CallsRuntime(call, "controller/controllerutil", "SetControllerReference", "SetOwnerReference") {
				return true
			}
			owner, child := p.Object(call.Args[0]), p.Object(call.Args[1])
			if owner == nil || child == nil || !p.isNamespaced(owner) {
				return true
			}
			if namespace := p.namespaceOf(f, child, call.Pos()); namespace != nil && p.isOther(namespace, owner) {
				p.reportf(call, "%s is in the namespace %s and its owner in its own: owners cannot be in other namespaces, so this fails; label it and delete it by a finalizer",
					child.Name(), types.ExprString(namespace))
			}
			return true
		})
	}
})

// comparesNamespaces reports whether a node compares a namespace with another.
func comparesNamespaces(n ast.Node) bool {
	binary, ok := n.(*ast.BinaryExpr)
	return ok && (binary.Op == token.EQL || binary.Op == token.NEQ) && isNamespace(binary.X) && isNamespace(binary.Y)
}

func isNamespace(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.SelectorExpr:
		return strings.HasSuffix(e.Sel.Name, "Namespace")
	case *ast.CallExpr:
		return operator.CalleeName(e) == "GetNamespace"
	}
	return false
}

// crossNamespacePass is a pass of the rule CrossNamespace.
type crossNamespacePass struct{ *pass }

// isNamespaced reports whether the package reads the namespace of objects of a variable's kind, and
// no marker says that there is none.
func (p crossNamespacePass) isNamespaced(v *types.Var) bool {
	kind := operator.Named(v.Type())
	if kind == nil || types.IsInterface(kind) || p.isMarkedClusterScoped(kind) {
		return false
	}
	for _, f := range p.Functions {
		if operator.Contains(f.Decl.Body, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "Namespace" && selector.Sel.Name != "GetNamespace" {
				return false
			}
			named := operator.Named(p.Info.TypeOf(selector.X))
			return named != nil && named.Obj() == kind.Obj()
		}) {
			return true
		}
	}
	return false
}

// namespaceOf returns the expression for the namespace that a variable has at a position, if it is
// one of a literal or is assigned or set, or nil.
func (p crossNamespacePass) namespaceOf(f *operator.Function, v *types.Var, at token.Pos) ast.Expr {
	var namespace ast.Expr
	ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			selector, ok := n.Fun.(*ast.SelectorExpr)
			if ok && n.Pos() < at && selector.Sel.Name == "SetNamespace" && len(n.Args) == 1 && p.Object(selector.X) == v {
				namespace = n.Args[0]
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				selector, ok := ast.Unparen(left).(*ast.SelectorExpr)
				switch {
				case n.Pos() > at:
				case p.Object(left) == v:
					namespace = nil
					if literal := operator.LiteralOf(n.Rhs[min(i, len(n.Rhs)-1)]); literal != nil {
						namespace = namespaceIn(literal)
					}
				case ok && p.Root(left) == v && selector.Sel.Name == "Namespace" && len(n.Lhs) == len(n.Rhs) &&
					strings.Count(types.ExprString(left), ".") <= 2:
					namespace = n.Rhs[i]
				}
			}
		}
		return true
	})
	return namespace
}

// namespaceIn returns the namespace in the metadata of a literal, or nil.
func namespaceIn(literal *ast.CompositeLit) ast.Expr {
	if meta := operator.Field(literal, "ObjectMeta"); meta != nil {
		if inner := operator.LiteralOf(meta.Value); inner != nil {
			if namespace := operator.Field(inner, "Namespace"); namespace != nil {
				return namespace.Value
			}
		}
	}
	return nil
}

// isOther reports whether an expression for a namespace is a literal, a namespace that each cluster
// has, or a part of the owner's spec. A constant with a name may be the namespace of the operator,
// where the owner may be as well, and so may a literal that says so.
func (p crossNamespacePass) isOther(namespace ast.Expr, owner *types.Var) bool {
	if value := p.Info.Types[namespace].Value; value != nil && value.Kind() == constant.String {
		name := constant.StringVal(value)
		_, literal := ast.Unparen(namespace).(*ast.BasicLit)
		return strings.HasPrefix(name, "kube-") || name == "default" || literal && name != "" &&
			!strings.Contains(name, "operator") && !strings.Contains(name, "system")
	}
	if star, ok := ast.Unparen(namespace).(*ast.StarExpr); ok {
		namespace = star.X
	}
	selector, ok := ast.Unparen(namespace).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if p.Root(selector) == owner {
		return strings.Contains(types.ExprString(selector), ".Spec.")
	}
	return false
}

// isMarkedClusterScoped reports whether the markers of a kind in its source say that it has no namespace.
func (p crossNamespacePass) isMarkedClusterScoped(kind *types.Named) bool {
	content, err := os.ReadFile(p.analysis.Fset.Position(kind.Obj().Pos()).Filename)
	if err != nil {
		return false
	}
	before, _, found := bytes.Cut(content, []byte("\ntype "+kind.Obj().Name()+" "))
	if !found {
		return false
	}
	markers := before[max(bytes.LastIndex(before, []byte("\n}\n")), 0):]
	return bytes.Contains(markers, []byte("scope=Cluster")) || bytes.Contains(markers, []byte(`scope="Cluster"`)) ||
		bytes.Contains(markers, []byte("+genclient:nonNamespaced"))
}
