package operator

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// IsDereference reports whether an expression dereferences a pointer.
func IsDereference(e ast.Expr) bool {
	_, ok := ast.Unparen(e).(*ast.StarExpr)
	return ok
}

// Around returns the nodes that a node is in, outermost first.
func Around(root, node ast.Node) []ast.Node {
	var found []ast.Node
	Walk(root, func(n ast.Node, within []ast.Node) {
		if n == node {
			found = slices.Clone(within)
		}
	})
	return found
}

// Written returns what a statement writes.
func Written(info *types.Info, n ast.Node) []ast.Expr {
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

// Assigns reports whether a statement of a body assigns an expression.
func Assigns(body *ast.BlockStmt, e ast.Expr) bool {
	return Contains(body, func(n ast.Node) bool {
		statement, ok := n.(*ast.AssignStmt)
		return ok && slices.ContainsFunc(statement.Lhs, func(left ast.Expr) bool {
			return types.ExprString(left) == types.ExprString(e)
		})
	})
}

// Ident returns the identifier in an expression, or nil if the expression is another one.
func Ident(e ast.Expr) *ast.Ident {
	id, _ := ast.Unparen(e).(*ast.Ident)
	return id
}

// SoleLiteral returns the literal that a variable is declared with, if nothing else is done with the
// variable than to read it.
func (ti TypeInfo) SoleLiteral(f *Function, v *types.Var) *ast.CompositeLit {
	var literal *ast.CompositeLit
	changed := false
	ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				switch {
				case ti.Object(left) == v && literal == nil && len(n.Lhs) == len(n.Rhs):
					literal = LiteralOf(n.Rhs[i])
				case ti.Object(left) == v, ti.Root(left) == v && IsObservedGeneration(left):
					changed = true
				}
			}
		case *ast.UnaryExpr:
			changed = changed || ti.Object(n.X) == v
		}
		return true
	})
	if changed {
		return nil
	}
	return literal
}

// IsTrue reports whether an expression is the constant true.
func IsTrue(info *types.Info, e ast.Expr) bool {
	tv := info.Types[e]
	return tv.Value != nil && tv.Value.String() == "true"
}

// Walk visits a node and those in it, each with the nodes that it is in, outermost first.
func Walk(root ast.Node, visit func(n ast.Node, within []ast.Node)) {
	var within []ast.Node
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			within = within[:len(within)-1]
			return true
		}
		visit(n, within)
		within = append(within, n)
		return true
	})
}

// Contains reports whether a node, or one in it, satisfies a condition.
func Contains(root ast.Node, is func(ast.Node) bool) bool {
	found := false
	ast.Inspect(root, func(n ast.Node) bool {
		found = found || n != nil && is(n)
		return !found
	})
	return found
}

// ContainsCall reports whether a node has a call in it that satisfies a condition.
func ContainsCall(root ast.Node, is func(*ast.CallExpr) bool) bool {
	return Contains(root, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && is(call)
	})
}

// Anywhere reports whether a call in the package satisfies a condition.
func (p *Package) Anywhere(is func(*ast.CallExpr) bool) bool {
	for _, f := range p.Functions {
		if ContainsCall(f.Decl.Body, is) {
			return true
		}
	}
	return false
}

// Locks reports whether a function body synchronizes, as a cache that is meant to be one does.
func Locks(body *ast.BlockStmt) bool {
	return ContainsCall(body, func(call *ast.CallExpr) bool {
		switch CalleeName(call) {
		case "Lock", "TryLock", "Do":
			return true
		}
		return false
	})
}

// Statements returns those that are directly in a block or a case.
func Statements(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
}

// IsNil reports whether an expression is nil.
func IsNil(e ast.Expr) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	return ok && id.Name == "nil"
}

// Field returns the value of a field in a composite literal, or nil.
func Field(literal *ast.CompositeLit, name string) *ast.KeyValueExpr {
	for _, element := range literal.Elts {
		if kv, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == name {
				return kv
			}
		}
	}
	return nil
}

// LiteralOf returns the composite literal that an expression is or takes the address of, or nil.
func LiteralOf(e ast.Expr) *ast.CompositeLit {
	e = ast.Unparen(e)
	if unary, ok := e.(*ast.UnaryExpr); ok {
		e = unary.X
	}
	literal, _ := e.(*ast.CompositeLit)
	return literal
}

// Reassigns reports whether a statement assigns a variable, or declares it anew in a loop.
func (ti TypeInfo) Reassigns(n ast.Node, object *types.Var) bool {
	if id, ok := n.(*ast.Ident); ok {
		return ti.Object(id) == object // of a range statement
	}
	return Contains(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if ti.Object(left) == object {
					return true
				}
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				if ti.Object(name) == object {
					return true
				}
			}
		}
		return false
	})
}

// Mentions reports whether a node mentions one of the variables.
func (ti TypeInfo) Mentions(n ast.Node, variables map[*types.Var]bool) bool {
	return Contains(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && ti.Object(id) != nil && variables[ti.Object(id)]
	})
}
