package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"

	"flyball.dev/vet/internal/operator"
)

// IgnoreNotFound reports reconciles that fail when what they are for has been deleted, and those that
// end as a success whatever the error is.
var IgnoreNotFound = rule("ignorenotfound", "a reconcile that fails if its object has been deleted, or hides every other error", func(p ignoreNotFoundPass) {
	for _, r := range p.Reconcilers {
		if r.Request == nil {
			continue
		}
		ast.Inspect(r.Reconcile.Decl.Body, func(n ast.Node) bool {
			if block, ok := n.(*ast.BlockStmt); ok {
				for i, s := range block.List {
					if statement, ok := s.(*ast.IfStmt); ok {
						p.primary(r, block.List[:i], statement)
					}
				}
			}
			return true
		})
	}
})

// ignoreNotFoundPass is a pass of the rule IgnoreNotFound.
type ignoreNotFoundPass struct{ *pass }

// primary reports an if statement that returns the error of the Get of the request as it is, or
// drops it.
func (p ignoreNotFoundPass) primary(r *operator.Reconciler, before []ast.Stmt, statement *ast.IfStmt) {
	condition, ok := statement.Cond.(*ast.BinaryExpr)
	if !ok || condition.Op != token.NEQ || !operator.IsNil(condition.Y) || statement.Else != nil {
		return
	}
	source, hides := statement.Init, p.succeeds(r, statement.Body)
	for _, s := range slices.Backward(before) {
		if source != nil {
			break
		}
		if _, ok := s.(*ast.IfStmt); !ok || !hides { // such as one that handles NotFound
			source = s
		}
	}
	assign, ok := source.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 || p.Object(condition.X) == nil || p.Object(assign.Lhs[0]) != p.Object(condition.X) {
		return
	}
	call, _ := assign.Rhs[0].(*ast.CallExpr)
	if call == nil {
		return
	}
	get := p.ClientCall(call)
	if get == nil || get.Key == nil || !p.isRequestKey(r, get.Key) || !p.isFor(get) || !p.isFirst(r, get) || len(statement.Body.List) == 0 {
		return
	}
	result, ok := statement.Body.List[len(statement.Body.List)-1].(*ast.ReturnStmt)
	if !ok || len(result.Results) != 2 {
		return
	}
	if hides {
		p.report(result.Results[1], hiddenMessage, p.ignoringNotFound(r, result.Results[1], condition.X)...)
		return
	}
	for _, s := range statement.Body.List[:len(statement.Body.List)-1] {
		if e, ok := s.(*ast.ExprStmt); !ok || !operator.IsLog(callOf(e)) {
			return
		}
	}
	switch returned := ast.Unparen(result.Results[1]).(type) {
	case *ast.Ident:
		if p.Object(returned) == p.Object(condition.X) {
			p.report(returned, notFoundMessage, p.ignoringNotFound(r, returned, condition.X)...)
		}
	case *ast.CallExpr:
		if p.CallsFunction(returned, "fmt", "Errorf") {
			p.report(returned, notFoundMessage)
		}
	}
}

const (
	notFoundMessage = "the object may have been deleted since the event: NotFound is no error here, so ignore it by client.IgnoreNotFound"
	hiddenMessage   = "the reconcile ends as a success whatever the error was, and nothing tries again: ignore only NotFound, by client.IgnoreNotFound"
)

// succeeds reports whether all returns of a block are of no error, and of a result that asks for
// nothing.
func (p ignoreNotFoundPass) succeeds(r *operator.Reconciler, block *ast.BlockStmt) bool {
	return !operator.Contains(block, func(n ast.Node) bool {
		statement, ok := n.(*ast.ReturnStmt)
		if !ok {
			return false
		}
		if len(statement.Results) != 2 || !operator.IsNil(statement.Results[1]) {
			return true
		}
		result := operator.LiteralOf(statement.Results[0])
		if v := p.Object(statement.Results[0]); v != nil {
			result = p.onlyValue(r.Reconcile, v)
		}
		if result == nil || operator.Field(result, "RequeueAfter") != nil {
			return true
		}
		requeue := operator.Field(result, "Requeue")
		return requeue != nil && (p.Info.Types[requeue.Value].Value == nil || operator.IsTrue(p.Info, requeue.Value))
	})
}

// onlyValue returns the literal that is all that a function assigns to a variable or its fields, or nil.
func (p ignoreNotFoundPass) onlyValue(f *operator.Function, v *types.Var) *ast.CompositeLit {
	var literal *ast.CompositeLit
	n := 0
	ast.Inspect(f.Decl.Body, func(node ast.Node) bool {
		if statement, ok := node.(*ast.AssignStmt); ok {
			for i, left := range statement.Lhs {
				if p.Root(left) == v {
					n++
					if len(statement.Lhs) == len(statement.Rhs) {
						literal = operator.LiteralOf(statement.Rhs[i])
					}
				}
			}
		}
		return true
	})
	if n != 1 {
		return nil
	}
	return literal
}

// ignoringNotFound returns the fix that replaces a returned value by an error without NotFound.
func (p ignoreNotFoundPass) ignoringNotFound(r *operator.Reconciler, returned, err ast.Expr) []analysis.SuggestedFix {
	name := p.clientPackage(r)
	if name == "" {
		return nil
	}
	return []analysis.SuggestedFix{
		replace("Ignore NotFound", returned.Pos(), returned.End(), name+".IgnoreNotFound("+types.ExprString(err)+")"),
	}
}

// isRequestKey reports whether the key of a Get is the request's, or is put together from it.
func (p ignoreNotFoundPass) isRequestKey(r *operator.Reconciler, key ast.Expr) bool {
	name := "NamespacedName"
	if literal := operator.LiteralOf(key); literal != nil && operator.Field(literal, "Name") != nil {
		key, name = operator.Field(literal, "Name").Value, "Name"
	}
	selector, ok := ast.Unparen(key).(*ast.SelectorExpr)
	return ok && selector.Sel.Name == name && p.Object(selector.X) == r.Request
}

// isFor reports whether a Get is of a kind that the package's builders are for, as far as it is
// known which those are.
func (p ignoreNotFoundPass) isFor(get *operator.Call) bool {
	kind := p.KindOf(get.Object)
	for _, k := range p.For {
		if kind != nil && k.Obj() == kind.Obj() {
			return true
		}
	}
	return len(p.For) == 0
}

// isFirst reports whether a Get reads an object of the kind that the reconcile first reads by its
// request. An object of another kind and the same name belongs to that.
func (p ignoreNotFoundPass) isFirst(r *operator.Reconciler, get *operator.Call) bool {
	kind := p.KindOf(get.Object)
	for _, call := range r.Reconcile.Calls {
		if call.Key == nil || !p.isRequestKey(r, call.Key) {
			continue
		}
		first := p.KindOf(call.Object)
		return call == get || kind != nil && first != nil && first.Obj() == kind.Obj()
	}
	return true
}

// clientPackage returns the name by which the file of a reconciler imports the client package, or "".
func (p ignoreNotFoundPass) clientPackage(r *operator.Reconciler) string {
	for _, file := range p.Files {
		if file.FileStart > r.Reconcile.Decl.Pos() || r.Reconcile.Decl.Pos() >= file.FileEnd {
			continue
		}
		for _, spec := range file.Imports {
			if path := spec.Path.Value; path == `"sigs.k8s.io/controller-runtime/pkg/client"` || path == `"flyball.dev/ctrl/client"` {
				if spec.Name != nil {
					return spec.Name.Name
				}
				return "client"
			}
		}
	}
	return ""
}

func callOf(e *ast.ExprStmt) *ast.CallExpr {
	if call, ok := e.X.(*ast.CallExpr); ok {
		return call
	}
	return &ast.CallExpr{Fun: e.X}
}
