package operator

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/cfg"
)

// Flow is the control flow of one function body.
type Flow struct {
	types TypeInfo
	graph *cfg.CFG
}

// Flow returns the control flow of a body.
func (ti TypeInfo) Flow(body *ast.BlockStmt) *Flow {
	return &Flow{ti, cfg.New(body, func(*ast.CallExpr) bool { return true })}
}

// After visits the statements and conditions that may be executed after the one that contains from,
// each once, on the paths on which no test has found an error. Visit returns false to end a path.
func (f *Flow) After(from ast.Node, visit func(ast.Node) bool) {
	seen := map[*cfg.Block]bool{}
	var follow func(block *cfg.Block, index int)
	follow = func(block *cfg.Block, index int) {
		for _, n := range block.Nodes[index:] {
			if !visit(n) {
				return
			}
		}
		for _, next := range f.successors(block) {
			if !seen[next] {
				seen[next] = true
				follow(next, 0)
			}
		}
	}
	for _, block := range f.graph.Blocks {
		for i, n := range block.Nodes {
			if n.Pos() <= from.Pos() && from.End() <= n.End() && block.Live {
				follow(block, i+1)
				return
			}
		}
	}
}

// successors returns the blocks that may follow if there was no error.
func (f *Flow) successors(block *cfg.Block) []*cfg.Block {
	if len(block.Succs) == 2 && len(block.Nodes) > 0 {
		if condition, ok := block.Nodes[len(block.Nodes)-1].(ast.Expr); ok {
			switch f.types.errorIf(condition) {
			case token.EQL:
				return block.Succs[1:]
			case token.NEQ:
				return block.Succs[:1]
			}
		}
	}
	return block.Succs
}

// errorIf returns EQL if there was an error if the condition is true, NEQ if there was one if it is
// false, and otherwise ILLEGAL.
func (ti TypeInfo) errorIf(condition ast.Expr) token.Token {
	switch c := ast.Unparen(condition).(type) {
	case *ast.BinaryExpr:
		switch c.Op {
		case token.NEQ, token.EQL:
			if IsError(ti.Info.TypeOf(c.X)) {
				if c.Op == token.NEQ {
					return token.EQL
				}
				return token.NEQ
			}
		case token.LAND, token.LOR:
			for _, operand := range []ast.Expr{c.X, c.Y} {
				if ti.errorIf(operand) == token.EQL {
					return token.EQL
				}
			}
		}
	case *ast.UnaryExpr:
		if c.Op == token.NOT {
			switch ti.errorIf(c.X) {
			case token.EQL:
				return token.NEQ
			case token.NEQ:
				return token.EQL
			}
		}
	case *ast.CallExpr:
		for _, argument := range c.Args {
			if IsError(ti.Info.TypeOf(argument)) {
				return token.EQL
			}
		}
	}
	return token.ILLEGAL
}

// IsError reports whether a type is error.
func IsError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// Bodies returns the bodies of a function and of the function literals in it.
func (f *Function) Bodies() []*ast.BlockStmt {
	bodies := []*ast.BlockStmt{f.Decl.Body}
	ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
		if literal, ok := n.(*ast.FuncLit); ok {
			bodies = append(bodies, literal.Body)
		}
		return true
	})
	return bodies
}

// InspectOwn is ast.Inspect which does not enter function literals.
func InspectOwn(n ast.Node, visit func(ast.Node) bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		return visit(n)
	})
}
