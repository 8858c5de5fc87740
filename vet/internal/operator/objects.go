package operator

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// MayRefresh reports whether something in a function, other than one call, may read an object anew:
// the object or its resource version is assigned, or it is passed to another function.
func (ti TypeInfo) MayRefresh(in ast.Node, except *ast.CallExpr, object *types.Var) bool {
	return Contains(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if ti.Object(left) == object || (IsDereference(left) || IsResourceVersion(left)) && ti.Root(left) == object {
					return true
				}
			}
		case *ast.CallExpr:
			if n == except || IsLog(n) {
				return false
			}
			if selector, ok := n.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "SetResourceVersion" && ti.Object(selector.X) == object {
				return true
			}
			for _, argument := range n.Args {
				if ti.Object(argument) == object {
					return true
				}
			}
		}
		return false
	})
}

// IsReview reports whether a kind is one that is created to ask a question, and not kept.
func IsReview(kind *types.Named) bool {
	switch kind.Obj().Name() {
	case "SubjectAccessReview", "SelfSubjectAccessReview", "LocalSubjectAccessReview", "TokenReview", "Event",
		"SelfSubjectRulesReview", "TokenRequest", "Eviction", "Binding":
		return true
	}
	return false
}

// IsGeneric reports whether a type may hold objects of any kind.
func IsGeneric(t *types.Named) bool {
	switch t.Obj().Name() {
	case "Unstructured", "UnstructuredList", "PartialObjectMetadata", "PartialObjectMetadataList":
		return true
	}
	return false
}

// IsPrimary reports whether an object is of a kind that the package's builders are for, as far as
// both are known. A finalizer of another object protects that one.
func (p *Package) IsPrimary(object ast.Expr) bool {
	kind := p.KindOf(object)
	return kind == nil || len(p.For) == 0 || p.IsForKind(kind)
}

// Numerous has the kinds with many objects in many namespaces of a cluster.
var Numerous = map[string]bool{
	"k8s.io/api/core/v1.Pod": true, "k8s.io/api/core/v1.Secret": true, "k8s.io/api/core/v1.ConfigMap": true,
	"k8s.io/api/core/v1.Event": true, "k8s.io/api/core/v1.Service": true, "k8s.io/api/core/v1.Endpoints": true,
	"k8s.io/api/core/v1.ServiceAccount": true, "k8s.io/api/core/v1.PersistentVolumeClaim": true,
	"k8s.io/api/apps/v1.Deployment": true, "k8s.io/api/apps/v1.ReplicaSet": true,
	"k8s.io/api/apps/v1.StatefulSet": true, "k8s.io/api/batch/v1.Job": true,
	"k8s.io/api/coordination/v1.Lease": true, "k8s.io/api/discovery/v1.EndpointSlice": true,
	"k8s.io/api/rbac/v1.RoleBinding": true, "k8s.io/api/rbac/v1.Role": true,
}

// ElementOf returns the path and name of the element of a list type.
func ElementOf(list *types.Named) string {
	if list.Obj().Pkg() == nil {
		return ""
	}
	return list.Obj().Pkg().Path() + "." + strings.TrimSuffix(list.Obj().Name(), "List")
}

// Meta is the path of the package of ObjectMeta.
const Meta = "k8s.io/apimachinery/pkg/apis/meta/v1"

// IsObservedGeneration reports whether an expression selects a field ObservedGeneration.
func IsObservedGeneration(e ast.Expr) bool {
	selector, ok := e.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "ObservedGeneration"
}

// IsForKind reports whether the package's builders are for a kind, or it is not known which those
// are for.
func (p *Package) IsForKind(kind *types.Named) bool {
	for _, k := range p.For {
		if k.Obj() == kind.Obj() {
			return true
		}
	}
	return false
}

// IsObject reports whether a type, or what it points to, is a struct with metadata.
func IsObject(t types.Type) bool {
	named := Named(t)
	if named == nil {
		return false
	}
	structure, ok := named.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range structure.Fields() {
		if f.Embedded() && IsNamed(f.Type(), Meta, "ObjectMeta") {
			return true
		}
	}
	return false
}

// IsClusterScoped reports whether a kind is one of Kubernetes' own that is in no namespace.
func IsClusterScoped(kind *types.Named) bool {
	if kind.Obj().Pkg() == nil || !strings.HasPrefix(kind.Obj().Pkg().Path(), "k8s.io/") {
		return false
	}
	switch kind.Obj().Name() {
	case "APIService", "ClusterRole", "ClusterRoleBinding", "CSIDriver", "CustomResourceDefinition", "IngressClass",
		"MutatingWebhookConfiguration", "Namespace", "Node", "PersistentVolume", "PriorityClass", "RuntimeClass", "StorageClass", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration":
		return true
	}
	return false
}

// IsResourceVersion reports whether an expression reads metadata.resourceVersion.
func IsResourceVersion(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name == "ResourceVersion"
	case *ast.CallExpr:
		return CalleeName(e) == "GetResourceVersion"
	}
	return false
}

// Rereads reports whether a statement assigns an object or passes it to a read.
func (ti TypeInfo) Rereads(n ast.Node, object *types.Var) bool {
	return Contains(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if ti.Object(left) == object {
					return true
				}
			}
		case *ast.CallExpr:
			switch CalleeName(n) {
			case "Get", "Update", "Patch":
				for _, argument := range n.Args {
					if ti.Object(argument) == object {
						return true
					}
				}
			}
		}
		return false
	})
}

// AssignsStatus reports whether a statement assigns to the status of an object, or passes the address
// of a part of the status to a call.
func (ti TypeInfo) AssignsStatus(n ast.Node, object *types.Var) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			if ti.Root(left) == object && strings.Contains(types.ExprString(left), ".Status") {
				return true
			}
		}
	case *ast.ExprStmt:
		call, ok := n.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		for _, argument := range call.Args {
			unary, ok := argument.(*ast.UnaryExpr)
			if ok && ti.Root(unary) == object && strings.Contains(types.ExprString(unary), ".Status") {
				return true
			}
		}
	}
	return false
}

// AssignsStatusInside reports whether a statement calls a function of the package that is given an
// object, always assigns to its status and does not write it.
func (p *Package) AssignsStatusInside(statement ast.Stmt, object *types.Var, seen []*Function) bool {
	switch statement.(type) {
	case *ast.AssignStmt, *ast.ExprStmt:
	default:
		return false
	}
	return ContainsCall(statement, func(call *ast.CallExpr) bool {
		g := p.Declared(call)
		i := slices.IndexFunc(call.Args, func(argument ast.Expr) bool { return p.Object(argument) == object })
		if g == nil || i < 0 || i >= g.Object.Signature().Params().Len() || slices.Contains(seen, g) {
			return false
		}
		inside := g.Object.Signature().Params().At(i)
		if slices.ContainsFunc(g.Calls, func(c *Call) bool { return c.Writes() && p.Object(c.Object) == inside }) {
			return false
		}
		return slices.ContainsFunc(g.Decl.Body.List, func(s ast.Stmt) bool {
			return p.AssignsStatus(s, inside) || p.AssignsStatusInside(s, inside, append(seen, g))
		})
	})
}
