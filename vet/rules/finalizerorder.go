package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"flyball.dev/vet/internal/operator"
)

// FinalizerOrder reports finalizers that are added after what they are to clean up was created.
var FinalizerOrder = rule("finalizerorder", "a finalizer that is added after the external thing is created", func(p finalizerOrderPass) {
	for _, f := range p.Functions {
		if !p.Reconciles(f) {
			continue
		}
		flow := p.Flow(f.Decl.Body)
		operator.InspectOwn(f.Decl.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !p.createsExternally(call, map[*operator.Function]bool{}) || p.touchesFinalizer(f.Decl.Body, call) {
				return true
			}
			flow.After(call, func(n ast.Node) bool {
				proceed := true
				operator.InspectOwn(n, func(n ast.Node) bool {
					if add, ok := n.(*ast.CallExpr); ok && p.ensuresFinalizer(add) {
						p.reportf(add, "the finalizer is added after %s of line %d: nothing cleans up after an object that is deleted between them; add it and write it first",
							types.ExprString(call.Fun), p.analysis.Fset.Position(call.Pos()).Line)
						proceed = false
					}
					return proceed
				})
				return proceed
			})
			return true
		})
	}
})

// finalizerOrderPass is a pass of the rule FinalizerOrder.
type finalizerOrderPass struct{ *pass }

// ensuresFinalizer reports whether a call adds a finalizer to the object that the controller is for,
// directly or in a function of the package that is named after that.
func (p finalizerOrderPass) ensuresFinalizer(call *ast.CallExpr) bool {
	if p.AddsFinalizer(call) {
		return p.IsPrimary(call.Args[0])
	}
	f := p.Declared(call)
	return f != nil && strings.Contains(strings.ToLower(f.Object.Name()), "finalizer") &&
		operator.ContainsCall(f.Decl.Body, func(call *ast.CallExpr) bool { return p.AddsFinalizer(call) && p.IsPrimary(call.Args[0]) })
}

// touchesFinalizer reports whether a call before another adds a finalizer or looks for one, directly
// or in a function of the package. Code for an object that is being deleted does not count.
func (p finalizerOrderPass) touchesFinalizer(body *ast.BlockStmt, before *ast.CallExpr) bool {
	touches := func(call *ast.CallExpr) bool {
		return p.AddsFinalizer(call) || p.CallsRuntime(call, "controller/controllerutil", "ContainsFinalizer")
	}
	found := false
	operator.Walk(body, func(n ast.Node, within []ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || call.Pos() >= before.Pos() || slices.ContainsFunc(within, func(n ast.Node) bool { return isOfDeleted(n, call) }) {
			return
		}
		f := p.Declared(call)
		found = found || touches(call) || f != nil && operator.ContainsCall(f.Decl.Body, touches)
	})
	return found
}

// isOfDeleted reports whether a node is an if statement that does something only to an object that is
// being deleted, and another one is of that.
func isOfDeleted(n, inner ast.Node) bool {
	statement, ok := n.(*ast.IfStmt)
	return ok && inner.Pos() < statement.Body.End() && operator.Contains(statement.Cond, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.UnaryExpr:
			call, ok := n.X.(*ast.CallExpr)
			return ok && n.Op == token.NOT && operator.CalleeName(call) == "IsZero" && strings.Contains(types.ExprString(call), "DeletionTimestamp")
		case *ast.BinaryExpr:
			return n.Op == token.NEQ && operator.IsNil(n.Y) && strings.Contains(types.ExprString(n.X), "DeletionTimestamp")
		}
		return false
	})
}

var (
	creates = regexp.MustCompile(`^(Create|Ensure|Provision|Register|Allocate|Put|Upsert|Insert|Grant)`)
	// A thing in the process or in the cluster needs no finalizer.
	inProcess = regexp.MustCompile(`Watch|Informer|Cache|Index|Metric|Session|Token|CRD|CustomResource|Namespace|RBAC|Owner`)
)

// inCluster matches the names of variables and types for what creates objects of the cluster.
var inCluster = regexp.MustCompile(`(?i)kube|k8s|cluster|helper|build|cache|scope|manager`)

// createsExternally reports whether a call creates something by a client that is a field of the
// method's receiver or a local variable and not one of Kubernetes, directly or in a method of the
// package.
func (p finalizerOrderPass) createsExternally(call *ast.CallExpr, seen map[*operator.Function]bool) bool {
	if f := p.Declared(call); f != nil {
		if seen[f] || !p.Reconciles(f) {
			return false
		}
		seen[f] = true
		return operator.ContainsCall(f.Decl.Body, func(call *ast.CallExpr) bool { return p.createsExternally(call, seen) })
	}
	callee, ok := typeutil.Callee(p.Info, call).(*types.Func)
	if !ok || !creates.MatchString(callee.Name()) || inProcess.MatchString(callee.Name()) || callee.Signature().Recv() == nil || callee.Pkg() == nil {
		return false
	}
	results := callee.Signature().Results()
	selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || results.Len() == 0 || !operator.IsError(results.At(results.Len()-1).Type()) || !p.hasContext(callee) {
		return false
	}
	if p.kubernetes(callee) || !p.isClient(selector.X) {
		return false
	}
	for v := range callee.Signature().Params().Variables() {
		if types.NewMethodSet(v.Type()).Lookup(nil, "GetNamespace") != nil {
			return false // the created object may have this one as its owner
		}
	}
	return true
}

// isClient reports whether an expression is a field of a reconciler, or a local variable that does not
// look like one for the cluster.
func (p finalizerOrderPass) isClient(e ast.Expr) bool {
	root := p.Root(e)
	if root == nil {
		return false
	}
	named := operator.Named(root.Type())
	if _, ok := ast.Unparen(e).(*ast.Ident); ok {
		return named != nil && !root.IsField() && root.Parent() != p.Types.Scope() &&
			!inCluster.MatchString(root.Name()+" "+named.Obj().Name())
	}
	return slices.ContainsFunc(p.Reconcilers, func(r *operator.Reconciler) bool {
		return named != nil && named.Obj() == r.Type
	})
}

func (p finalizerOrderPass) hasContext(callee *types.Func) bool {
	parameters := callee.Signature().Params()
	return parameters.Len() > 0 && operator.IsNamed(parameters.At(0).Type(), "context", "Context")
}

// kubernetes reports whether a method is one of a client of Kubernetes: it is declared in such a
// package.
func (p finalizerOrderPass) kubernetes(callee *types.Func) bool {
	for _, host := range []string{"k8s.io/", "sigs.k8s.io/", "flyball.dev/ctrl"} {
		if strings.HasPrefix(callee.Pkg().Path(), host) {
			return true
		}
	}
	return false
}
