package rules

import (
	"go/ast"
	"go/token"
	"go/types"

	"flyball.dev/vet/internal/operator"
)

// MemoryState reports writes of a reconciler's fields and of package variables in a reconcile.
var MemoryState = rule("memorystate", "state of a reconcile that is kept in memory", func(p *pass) {
	for _, f := range p.Functions {
		if !p.Reconciles(f) || locks(f.Decl.Body) {
			continue
		}
		walk(f.Decl.Body, func(n ast.Node, within []ast.Node) {
			for _, target := range append(written(p.Info, n), p.readInto(n)...) {
				if p.initializes(target, within) {
					continue
				}
				switch root := p.Root(target); {
				case root == nil || root.Name() == "_":
				case p.isReconciler(f, root) && ast.Unparen(target) != ast.Expr(ident(target)):
					p.reportf(target, "a reconcile writes %s of its reconciler: memory is lost at a restart and shared by all workers, so compute it anew or write it to the object",
						types.ExprString(target))
				case root.Parent() == p.Types.Scope():
					p.reportf(target, "a reconcile writes the package variable %s: memory is lost at a restart and shared by all workers, so compute it anew or write it to the object",
						root.Name())
				}
			}
		})
	}
})

// isReconciler reports whether a variable is the receiver of a method of a reconciler, by pointer.
func (p *pass) isReconciler(f *operator.Function, v *types.Var) bool {
	if v != f.Receiver() {
		return false
	}
	if _, ok := types.Unalias(v.Type()).(*types.Pointer); !ok {
		return false
	}
	for _, r := range p.Reconcilers {
		if named := operator.Named(v.Type()); named != nil && named.Obj() == r.Type {
			return true
		}
	}
	return false
}

// written returns what a statement writes.
func written(info *types.Info, n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "delete" && len(n.Args) == 2 {
			if _, ok := info.Uses[id].(*types.Builtin); ok {
				return n.Args[:1]
			}
		}
	}
	return nil
}

// readInto returns what a call of the client reads an object into, if that is a field.
func (p *pass) readInto(n ast.Node) []ast.Expr {
	call, ok := n.(*ast.CallExpr)
	if !ok || p.ClientCall(call) == nil || p.ClientCall(call).Writes() {
		return nil
	}
	target := ast.Unparen(p.ClientCall(call).Object)
	if unary, ok := target.(*ast.UnaryExpr); ok {
		target = unary.X
	}
	if _, ok := target.(*ast.SelectorExpr); ok {
		return []ast.Expr{target}
	}
	return nil
}

// initializes reports whether a write is of something that an if statement around it has found to
// be nil.
func (p *pass) initializes(target ast.Expr, within []ast.Node) bool {
	for _, n := range within {
		statement, ok := n.(*ast.IfStmt)
		if !ok {
			continue
		}
		if contains(statement.Cond, func(n ast.Node) bool {
			b, ok := n.(*ast.BinaryExpr)
			return ok && b.Op == token.EQL && isNil(b.Y) && types.ExprString(b.X) == types.ExprString(target)
		}) {
			return true
		}
	}
	return false
}

func ident(e ast.Expr) *ast.Ident {
	id, _ := ast.Unparen(e).(*ast.Ident)
	return id
}
