package operator

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// IsEmptySelector reports whether an option is a selector of everything.
func (ti TypeInfo) IsEmptySelector(option ast.Expr) bool {
	literal := LiteralOf(option)
	if literal == nil {
		return false
	}
	t := ti.Info.TypeOf(literal)
	switch {
	case IsType(t, "client", "MatchingLabels"), IsType(t, "client", "MatchingFields"):
		return len(literal.Elts) == 0
	case IsType(t, "client", "MatchingLabelsSelector"):
		return ContainsCall(literal, func(call *ast.CallExpr) bool {
			return ti.CallsFunction(call, "k8s.io/apimachinery/pkg/labels", "Everything")
		})
	}
	return false
}

// Success returns the last statement of a block if it returns no error and asks for no other
// reconcile, or nil.
func (ti TypeInfo) Success(block *ast.BlockStmt) *ast.ReturnStmt {
	if len(block.List) == 0 {
		return nil
	}
	statement, ok := block.List[len(block.List)-1].(*ast.ReturnStmt)
	if !ok || len(statement.Results) == 0 || !IsNil(statement.Results[len(statement.Results)-1]) {
		return nil
	}
	if len(statement.Results) == 2 && !ti.IsNoResult(statement.Results[0]) {
		return nil
	}
	return statement
}

// IsLog reports whether a call logs or records an event, which changes no object.
func IsLog(call *ast.CallExpr) bool {
	switch CalleeName(call) {
	case "Info", "Error", "V", "WithValues", "Event", "Eventf", "AnnotatedEventf", "Infof", "Errorf", "KObj",
		"ObjectKeyFromObject", "DeepCopy", "MergeFrom", "MergeFromWithOptions", "StrategicMergeFrom":
		return true
	}
	return false
}

// IsConditional reports whether a node is reached only under a condition. An earlier return counts only if its condition
// does.
func (ti TypeInfo) IsConditional(body *ast.BlockStmt, node ast.Node, counts func(ast.Expr) bool) bool {
	conditional := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			around := n.Body.Pos() <= node.Pos() && node.End() <= n.End()
			leaves := n.End() <= node.Pos() && counts(n.Cond) && Contains(n.Body, func(n ast.Node) bool {
				_, ok := n.(*ast.ReturnStmt)
				return ok
			})
			if (around || leaves) && !ti.IsErrorTest(n.Cond) && !ti.InDeletion([]ast.Node{n}) {
				conditional = true
			}
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.ForStmt, *ast.SelectStmt:
			if n.Pos() <= node.Pos() && node.End() <= n.End() {
				conditional = true
			}
		}
		return !conditional
	})
	return conditional
}

// PassesOn reports whether a call that is not one of the client's, nor of a function of the package,
// is given an object or list of a kind, or returns one or several.
func (p *Package) PassesOn(call *ast.CallExpr, kind *types.Named) bool {
	if p.Declared(call) != nil || IsLog(call) || p.ClientCall(call) != nil || p.Info.Types[call.Fun].IsBuiltin() {
		return false
	}
	callee := typeutil.Callee(p.Info, call)
	reads := callee != nil && callee.Pkg() != nil && strings.HasPrefix(callee.Pkg().Path(), "k8s.io/client-go/") &&
		!strings.HasPrefix(callee.Pkg().Path(), "k8s.io/client-go/tools/") // such as an event recorder
	if p.InLibrary(call) && !reads {
		return false
	}
	is := func(t types.Type) bool {
		if slice, ok := types.Unalias(t).(*types.Slice); ok {
			t = slice.Elem()
		}
		named := Named(t)
		return named != nil && (named.Obj() == kind.Obj() || named.Obj().Name() == kind.Obj().Name()+"List")
	}
	for _, argument := range call.Args {
		if named := Named(p.Info.TypeOf(argument)); named != nil && is(named) {
			return true
		}
	}
	switch t := p.Info.TypeOf(call).(type) {
	case *types.Tuple:
		for v := range t.Variables() {
			if is(v.Type()) {
				return true
			}
		}
	case nil:
	default:
		if tv, ok := p.Info.Types[call.Fun]; ok && tv.IsType() {
			return false
		}
		return is(t)
	}
	return false
}

// IsNoResult reports whether an expression is an empty result of a reconcile.
func (ti TypeInfo) IsNoResult(e ast.Expr) bool {
	literal := LiteralOf(e)
	return literal != nil && len(literal.Elts) == 0 && IsType(ti.Info.TypeOf(literal), "reconcile", "Result")
}

// Scope says how the options of a List narrow it.
type Scope struct{ Namespace, Selector bool }

// Scope returns how the options of a List narrow it. An option that the rules do not know narrows by a selector.
func (ti TypeInfo) Scope(call *Call) Scope {
	var s Scope
	if call.Spread() {
		return Scope{true, true}
	}
	for _, option := range call.Options {
		t, literal := ti.Info.TypeOf(option), LiteralOf(option)
		switch {
		case IsType(t, "client", "Limit"), IsType(t, "client", "GracePeriodSeconds"),
			IsType(t, "client", "PropagationPolicy"):
		case IsType(t, "client", "InNamespace"):
			s.Namespace = true
		case literal != nil && IsType(t, "client", "ListOptions"):
			s.Namespace = s.Namespace || Field(literal, "Namespace") != nil
			s.Selector = s.Selector || Field(literal, "LabelSelector") != nil || Field(literal, "FieldSelector") != nil ||
				Field(literal, "Raw") != nil
		default:
			s.Selector = s.Selector || !ti.IsEmptySelector(option)
		}
	}
	return s
}

// ReadsClock reports whether an expression calls for the present time.
func (ti TypeInfo) ReadsClock(e ast.Expr) bool {
	return ContainsCall(e, func(call *ast.CallExpr) bool {
		return ti.CallsFunction(call, "time", "Now", "Since", "Until") || ti.CallsFunction(call, Meta, "Now")
	})
}
