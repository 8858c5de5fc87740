package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// CreateExists reports reconciles that create what may exist already.
var CreateExists = rule("createexists", "a Create in a reconcile of what may exist already", func(p createExistsPass) {
	p.walk(func(n ast.Node, within []ast.Node) {
		if block, ok := n.(*ast.BlockStmt); ok {
			for i, s := range block.List {
				if statement, ok := s.(*ast.IfStmt); ok {
					p.createOnAnyError(block.List[:i], statement)
				}
			}
		}
	})
	for _, r := range p.Reconcilers {
		if !r.Queued {
			continue
		}
		for _, f := range r.Reachable {
			for _, call := range f.Calls {
				p.createAlways(r, call)
			}
		}
	}
})

// createExistsPass is a pass of the rule CreateExists.
type createExistsPass struct{ *pass }

// createOnAnyError reports a Create in a branch that every error of a Get leads to.
func (p createExistsPass) createOnAnyError(before []ast.Stmt, statement *ast.IfStmt) {
	condition, ok := statement.Cond.(*ast.BinaryExpr)
	if !ok || condition.Op != token.NEQ || !operator.IsNil(condition.Y) || !operator.IsError(p.Info.TypeOf(condition.X)) {
		return
	}
	source := statement.Init
	if source == nil && len(before) > 0 {
		source = before[len(before)-1]
	}
	assign, ok := source.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 || p.Object(assign.Lhs[0]) != p.Object(condition.X) {
		return
	}
	get, _ := assign.Rhs[0].(*ast.CallExpr)
	if get == nil || p.ClientCall(get) == nil || p.ClientCall(get).Verb != "Get" {
		return
	}
	var create *operator.Call
	ast.Inspect(statement.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && p.ClientCall(call) != nil && p.ClientCall(call).Verb == "Create" {
			create = p.ClientCall(call)
		}
		return true
	})
	asks := func(call *ast.CallExpr) bool {
		if create != nil && call.Pos() > create.Pos() && !operator.MentionsAlreadyExists(call.Fun) {
			return false // the condition asks for another error
		}
		for _, argument := range call.Args {
			if p.Object(argument) != nil && p.Object(argument) == p.Object(condition.X) && !operator.IsLog(call) {
				return true
			}
		}
		return false
	}
	if create != nil && create.Subresource == "" && !operator.ContainsCall(statement.Body, asks) {
		p.report(create, "every error of Get leads to this Create, not only NotFound: return the others")
	}
}

// createAlways reports a Create if the reconciler never reads the kind and does not compare the error with
// AlreadyExists: the second reconcile fails.
func (p createExistsPass) createAlways(r *operator.Reconciler, create *operator.Call) {
	kind := p.KindOf(create.Object)
	if create.Verb != "Create" || create.Subresource != "" || kind == nil || operator.IsReview(kind) || p.IsNewName(create.Function, create) {
		return
	}
	for _, f := range r.Reachable {
		if p.looksFor(f, kind) || f != r.Reconcile && p.isConditional(r, f) {
			return
		}
	}
	if p.underCondition(create.Function.Decl.Body, create.CallExpr) {
		return
	}
	p.reportf(create, "%s is created in every reconcile: the second fails because it exists; read it first, or ignore AlreadyExists", kind.Obj().Name())
}

// isConditional reports whether a function of a reconcile is mentioned under a condition.
func (p createExistsPass) isConditional(r *operator.Reconciler, f *operator.Function) bool {
	for _, caller := range r.Reachable {
		conditional := false
		ast.Inspect(caller.Decl.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if ok && p.Info.Uses[id] == f.Object && p.underCondition(caller.Decl.Body, id) {
				conditional = true
			}
			return !conditional
		})
		if conditional {
			return true
		}
	}
	return false
}

// underCondition reports whether a node of a body is reached only under a condition. Two conditions do not
// count: there was no error, and the object is not being deleted.
func (p createExistsPass) underCondition(body *ast.BlockStmt, node ast.Node) bool {
	return p.IsConditional(body, node, func(ast.Expr) bool { return true })
}

// looksFor reports whether a function may find out if an object of a kind exists: it reads one or a
// list, or an object of an unknown kind, or it passes one to another package, or makes names that
// are new.
func (p createExistsPass) looksFor(f *operator.Function, kind *types.Named) bool {
	for _, call := range f.Calls {
		if call.Verb != "Get" && call.Verb != "List" {
			continue
		}
		found := p.KindOf(call.Object)
		if found == nil || found.Obj() == kind.Obj() || found.Obj().Name() == kind.Obj().Name()+"List" || operator.IsGeneric(found) {
			return true
		}
	}
	return operator.Contains(f.Decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return p.PassesOn(n, kind)
		case *ast.KeyValueExpr:
			key := operator.Ident(n.Key)
			return key != nil && key.Name == "GenerateName"
		case *ast.SelectorExpr:
			return n.Sel.Name == "GenerateName" || strings.Contains(strings.ToLower(n.Sel.Name), "exist")
		}
		return false
	})
}
