package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"flyball.dev/vet/internal/operator"
)

// MemoryState reports writes of a reconciler's fields and of package variables in a reconcile.
var MemoryState = rule("memorystate", "state of a reconcile that is kept in memory", func(p memoryStatePass) {
	transient := p.commented(transience)
	for _, f := range p.Functions {
		if !p.Reconciles(f) || operator.Locks(f.Decl.Body) || p.isCalledLocked(f) {
			continue
		}
		operator.Walk(f.Decl.Body, func(n ast.Node, within []ast.Node) {
			for _, target := range slices.Concat(operator.Written(p.Info, n), p.readInto(n), p.mutated(n)) {
				if p.initializes(target, within) || returnsIfSet(f.Decl.Body, target) {
					continue
				}
				if declared := p.declaration(target); declared != nil && transient(declared.Pos()) {
					continue
				}
				switch root := p.Root(target); {
				case root == nil || root.Name() == "_":
				case p.isReconciler(f, root) && ast.Unparen(target) != ast.Expr(operator.Ident(target)):
					p.reportf(target, "a reconcile writes %s of its reconciler, which all workers share and a restart loses: keep it in a local variable, write what the next reconcile has to know to the object, or guard a cache by a mutex",
						types.ExprString(target))
				case root.Parent() == p.Types.Scope():
					p.reportf(target, "a reconcile writes the package variable %s, which all workers share and a restart loses: keep it in a local variable, write what the next reconcile has to know to the object, or guard a cache by a mutex",
						root.Name())
				}
			}
		})
	}
})

// transience matches a comment on a variable that says that its content may be lost.
var transience = regexp.MustCompile(`(?i)\b(in[- ]memory|(lost|gone|empty|rebuilt|starts over) (after|by|on|when|with) (a|the|every|each)? ?(re)?start)`)

// memoryStatePass is a pass of the rule MemoryState.
type memoryStatePass struct{ *pass }

// declaration returns the field or the variable that an expression names, behind indexes, or nil.
func (p memoryStatePass) declaration(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.SelectorExpr:
		return p.Info.Uses[e.Sel]
	case *ast.IndexExpr:
		return p.declaration(e.X)
	case *ast.Ident:
		return p.Info.Uses[e]
	}
	return nil
}

// isCalledLocked reports whether a function has callers in the package and all of them synchronize.
func (p memoryStatePass) isCalledLocked(f *operator.Function) bool {
	called := false
	for _, caller := range p.Functions {
		if caller == f || !slices.Contains(caller.References, f) {
			continue
		}
		if !operator.Locks(caller.Decl.Body) {
			return false
		}
		called = true
	}
	return called
}

// isReconciler reports whether a variable is the receiver of a method of a reconciler, by pointer,
// that lives longer than one reconcile.
func (p memoryStatePass) isReconciler(f *operator.Function, v *types.Var) bool {
	if v != f.Receiver() {
		return false
	}
	if _, ok := types.Unalias(v.Type()).(*types.Pointer); !ok {
		return false
	}
	for _, r := range p.Reconcilers {
		if named := operator.Named(v.Type()); r.Queued && named != nil && named.Obj() == r.Type {
			return true
		}
	}
	return false
}

// readInto returns what a call of the client reads an object into, if that is a field.
func (p memoryStatePass) readInto(n ast.Node) []ast.Expr {
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

// mutated returns what a method is called on that writes its receiver without a lock, if it is a
// method of the package.
func (p memoryStatePass) mutated(n ast.Node) []ast.Expr {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || p.Declared(call) == nil || !p.mutates(p.Declared(call)) {
		return nil
	}
	return []ast.Expr{selector.X}
}

// mutates reports whether a method writes fields of its receiver, other than once, without a lock.
func (p memoryStatePass) mutates(f *operator.Function) bool {
	receiver := f.Receiver()
	if receiver == nil || operator.Locks(f.Decl.Body) || p.isCalledLocked(f) {
		return false
	}
	if _, ok := types.Unalias(receiver.Type()).(*types.Pointer); !ok {
		return false
	}
	found := false
	operator.Walk(f.Decl.Body, func(n ast.Node, within []ast.Node) {
		for _, target := range operator.Written(p.Info, n) {
			found = found || p.Root(target) == receiver && operator.Ident(target) == nil &&
				!p.initializes(target, within) && !returnsIfSet(f.Decl.Body, target)
		}
	})
	return found
}

// initializes reports whether a write is of something that an if statement around it has found to
// be unset, or that it writes together with what it has found to be so.
func (p memoryStatePass) initializes(target ast.Expr, within []ast.Node) bool {
	for _, n := range within {
		statement, ok := n.(*ast.IfStmt)
		if !ok {
			continue
		}
		if operator.Contains(statement.Cond, func(n ast.Node) bool {
			var unset ast.Expr
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL {
					unset = comparedToUnset(n)
				}
			case *ast.UnaryExpr:
				if n.Op == token.NOT {
					unset = n.X
				}
			}
			return unset != nil && (types.ExprString(unset) == types.ExprString(target) ||
				p.Root(unset) != nil && p.Root(unset) == p.Root(target) && operator.Assigns(statement.Body, unset))
		}) {
			return true
		}
	}
	return false
}

// comparedToUnset returns the expression that a comparison compares to nil or the empty string, or the
// length of it to 0. It returns nil for other comparisons.
func comparedToUnset(n *ast.BinaryExpr) ast.Expr {
	literal, _ := ast.Unparen(n.Y).(*ast.BasicLit)
	switch call, ok := ast.Unparen(n.X).(*ast.CallExpr); {
	case operator.IsNil(n.Y), literal != nil && literal.Value == `""`:
		return n.X
	case ok && literal != nil && literal.Value == "0" && operator.CalleeName(call) == "len" && len(call.Args) == 1:
		return call.Args[0]
	}
	return nil
}

// returnsIfSet reports whether a body returns before a write if what it writes is set.
func returnsIfSet(body *ast.BlockStmt, target ast.Expr) bool {
	return operator.Contains(body, func(n ast.Node) bool {
		statement, ok := n.(*ast.IfStmt)
		if !ok || statement.End() > target.Pos() || len(statement.Body.List) == 0 {
			return false
		}
		condition, ok := ast.Unparen(statement.Cond).(*ast.BinaryExpr)
		_, returns := statement.Body.List[len(statement.Body.List)-1].(*ast.ReturnStmt)
		if !ok || !returns || condition.Op != token.NEQ {
			return false
		}
		set := comparedToUnset(condition)
		return set != nil && types.ExprString(set) == types.ExprString(target)
	})
}
