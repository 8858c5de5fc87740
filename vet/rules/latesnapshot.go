package rules

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// LateSnapshot reports copies of a status that are taken after a change of the status, and decide whether it is written.
var LateSnapshot = rule("latesnapshot", "a status that is compared with a copy which has some of its changes", func(p lateSnapshotPass) {
	for _, f := range p.Functions {
		for _, body := range f.Bodies() {
			for _, s := range p.snapshots(body) {
				set := p.statusSetBefore(body, s.object, s.statement)
				if set == nil {
					set = p.statusSetByCallers(f, body, s.object)
				}
				if set == nil {
					continue
				}
				line := p.analysis.Fset.Position(set.Pos()).Line
				if s.patch {
					p.reportf(s.statement, "the patch of the status is the difference from this copy, which has what line %d sets: that is never written, so take the copy before it", line)
				} else {
					p.reportf(s.statement, "the status is written if it differs from this copy, which has what line %d sets: if nothing else changes that is not written, so take the copy before it", line)
				}
			}
		}
	}
})

// snapshot is a copy of an object's status that decides whether the status is written, or what a patch has.
type snapshot struct {
	statement *ast.AssignStmt
	object    *types.Var
	patch     bool
}

// lateSnapshotPass is a pass of the rule LateSnapshot.
type lateSnapshotPass struct{ *pass }

// snapshots returns those in a body.
func (p lateSnapshotPass) snapshots(body *ast.BlockStmt) (all []snapshot) {
	operator.InspectOwn(body, func(n ast.Node) bool {
		statement, ok := n.(*ast.AssignStmt)
		if !ok || len(statement.Lhs) != 1 || len(statement.Rhs) != 1 || p.Object(statement.Lhs[0]) == nil {
			return true
		}
		object := p.copiedObject(statement.Rhs[0])
		if object == nil || object.IsField() || !operator.IsObject(object.Type()) {
			return true
		}
		s := snapshot{statement: statement, object: object}
		before := map[*types.Var]bool{p.Object(statement.Lhs[0]): true}
		if s.patch = p.isPatched(body, object, before); s.patch || p.isCompared(body, object, before) && p.writesStatusOf(body, object) {
			all = append(all, s)
		}
		return true
	})
	return all
}

// copiedObject returns the object that an expression copies, whole or its status, or nil.
func (p lateSnapshotPass) copiedObject(e ast.Expr) *types.Var {
	switch e := ast.Unparen(e).(type) {
	case *ast.StarExpr:
		return p.copiedObject(e.X)
	case *ast.SelectorExpr:
		if e.Sel.Name == "Status" {
			return p.Object(e.X)
		}
	case *ast.CallExpr:
		method, ok := e.Fun.(*ast.SelectorExpr)
		if ok && method.Sel.Name == "DeepCopy" {
			return p.Root(method.X)
		}
		if strings.HasPrefix(operator.CalleeName(e), "MergeFrom") && len(e.Args) > 0 {
			return p.copiedObject(e.Args[0])
		}
	}
	return nil
}

// isPatched reports whether the status of an object is patched by its difference from a copy.
func (p lateSnapshotPass) isPatched(body *ast.BlockStmt, object *types.Var, before map[*types.Var]bool) bool {
	operator.InspectOwn(body, func(n ast.Node) bool { // patches that are made of the copy
		if s, ok := n.(*ast.AssignStmt); ok && len(s.Lhs) == 1 && len(s.Rhs) == 1 && p.Object(s.Lhs[0]) != nil {
			if call, ok := ast.Unparen(s.Rhs[0]).(*ast.CallExpr); ok && strings.HasPrefix(operator.CalleeName(call), "MergeFrom") && p.Mentions(call, before) {
				before[p.Object(s.Lhs[0])] = true
			}
		}
		return true
	})
	return p.hasCall(body, func(call *ast.CallExpr) bool {
		c := p.ClientCall(call)
		return c != nil && c.Verb == "Patch" && c.Subresource == "status" && p.Object(c.Object) == object && p.Mentions(call, before)
	})
}

// isCompared reports whether the status of an object is compared with a copy.
func (p lateSnapshotPass) isCompared(body *ast.BlockStmt, object *types.Var, before map[*types.Var]bool) bool {
	return p.hasCall(body, func(call *ast.CallExpr) bool {
		return strings.Contains(operator.CalleeName(call), "Equal") && p.Mentions(call, before) &&
			slices.ContainsFunc(call.Args, func(argument ast.Expr) bool {
				return p.Root(argument) == object && strings.Contains(types.ExprString(argument), ".Status")
			})
	})
}

func (p lateSnapshotPass) writesStatusOf(body *ast.BlockStmt, object *types.Var) bool {
	return p.hasCall(body, func(call *ast.CallExpr) bool { return p.isStatusWrite(call, object) })
}

func (p lateSnapshotPass) isStatusWrite(call *ast.CallExpr, object *types.Var) bool {
	c := p.ClientCall(call)
	return c != nil && c.Writes() && c.Subresource == "status" && p.Object(c.Object) == object
}

// hasCall reports whether a body itself has a call that satisfies a condition.
func (p lateSnapshotPass) hasCall(body *ast.BlockStmt, is func(*ast.CallExpr) bool) bool {
	found := false
	operator.InspectOwn(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		found = found || ok && is(call)
		return !found
	})
	return found
}

// statusSetBefore returns a statement of a body that sets the status of an object, and that a node may follow while
// the status has not been written.
func (p lateSnapshotPass) statusSetBefore(body *ast.BlockStmt, object *types.Var, node ast.Node) (set ast.Stmt) {
	flow := p.Flow(body)
	operator.InspectOwn(body, func(n ast.Node) bool {
		statement, ok := n.(ast.Stmt)
		if _, block := n.(*ast.BlockStmt); !ok || block || set != nil || statement.End() > node.Pos() || p.setsNothing(statement) ||
			!p.AssignsStatus(statement, object) && !p.AssignsStatusInside(statement, object, nil) {
			return true
		}
		flow.After(statement, func(n ast.Node) bool {
			if n.Pos() <= node.Pos() && node.End() <= n.End() {
				set = statement
				return false
			}
			return set == nil && !p.Rereads(n, object) && !p.mayWriteStatus(n, object)
		})
		return true
	})
	return set
}

// setsNothing reports whether a statement only assigns an empty value, such as an empty map instead of nil.
func (p lateSnapshotPass) setsNothing(statement ast.Stmt) bool {
	assignment, ok := statement.(*ast.AssignStmt)
	return ok && !slices.ContainsFunc(assignment.Rhs, func(right ast.Expr) bool {
		literal := operator.LiteralOf(right)
		call, isCall := ast.Unparen(right).(*ast.CallExpr)
		return (literal == nil || len(literal.Elts) > 0) && (!isCall || operator.CalleeName(call) != "make") && !operator.IsNil(right)
	})
}

// mayWriteStatus reports whether a node has a call that writes the status of an object, or may, as it is given the object
// and the package does not say what it does.
func (p lateSnapshotPass) mayWriteStatus(n ast.Node, object *types.Var) bool {
	return operator.ContainsCall(n, func(call *ast.CallExpr) bool {
		if p.isStatusWrite(call, object) {
			return true
		}
		i := slices.IndexFunc(call.Args, func(argument ast.Expr) bool { return p.Object(argument) == object })
		if i < 0 || p.ClientCall(call) != nil {
			return false
		}
		g := p.Declared(call)
		if g == nil || i >= g.Object.Signature().Params().Len() {
			return g != nil || !p.InLibrary(call)
		}
		return p.anyStatusWrite(g, nil)
	})
}

// anyStatusWrite reports whether a function, or one that it reaches, writes a status.
func (p lateSnapshotPass) anyStatusWrite(f *operator.Function, seen []*operator.Function) bool {
	if slices.Contains(seen, f) {
		return false
	}
	return slices.ContainsFunc(f.Calls, func(c *operator.Call) bool { return c.Writes() && c.Subresource != "" }) ||
		slices.ContainsFunc(f.References, func(g *operator.Function) bool { return p.anyStatusWrite(g, append(seen, f)) })
}

// statusSetByCallers returns a statement of a caller that sets the status of an object which the caller passes to a
// function, in the function's own body.
func (p lateSnapshotPass) statusSetByCallers(f *operator.Function, body *ast.BlockStmt, object *types.Var) (set ast.Stmt) {
	parameters := f.Object.Signature().Params()
	at := -1
	for i := range parameters.Len() {
		if parameters.At(i) == object {
			at = i
		}
	}
	if at < 0 || body != f.Decl.Body {
		return nil
	}
	for _, caller := range p.Functions {
		if !slices.Contains(caller.References, f) {
			continue
		}
		for _, outer := range caller.Bodies() {
			operator.InspectOwn(outer, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if ok && set == nil && p.Declared(call) == f && at < len(call.Args) {
					if passed := p.Object(call.Args[at]); passed != nil {
						set = p.statusSetBefore(outer, passed, call)
					}
				}
				return set == nil
			})
		}
	}
	return set
}
