package rules

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"flyball.dev/vet/internal/operator"
)

// ListScope reports Lists of all objects of such a kind, where they run for every event and a loop
// then looks for some of the objects by their metadata.
var ListScope = listScope()

func listScope() *analysis.Analyzer {
	all := false
	a := rule("listscope", "a List of all objects of the cluster for each event, to find some of them", func(p listScopePass) {
		for _, f := range p.Functions {
			if !p.Hot(f) {
				continue
			}
			for _, call := range f.Calls {
				kind := p.KindOf(call.Object)
				if call.Verb == "List" && kind != nil && operator.Numerous[operator.ElementOf(kind)] && p.Scope(call) == (operator.Scope{}) && (all || p.searches(f, call)) {
					p.reportf(call, "every event lists every %s of the cluster: give a namespace, a selector or an index",
						strings.TrimSuffix(kind.Obj().Name(), "List"))
				}
			}
		}
	})
	a.Flags.BoolVar(&all, "all", false, "report also lists of all objects that are used as a whole")
	return a
}

// listScopePass is a pass of the rule ListScope.
type listScopePass struct{ *pass }

// searches reports whether a loop over a list that follows it picks objects by their metadata.
func (p listScopePass) searches(f *operator.Function, list *operator.Call) bool {
	variable := p.Object(list.Object)
	if variable == nil || p.isAlternative(f, list, variable) {
		return false
	}
	return operator.Contains(f.Decl.Body, func(n ast.Node) bool {
		loop, ok := n.(*ast.RangeStmt)
		return ok && loop.Pos() > list.End() && p.Root(loop.X) == variable && p.picks(loop, variable)
	})
}

// isAlternative reports whether a function lists into the same variable with a scope as well. Then the
// list of all objects is a choice, or the last resort.
func (p listScopePass) isAlternative(f *operator.Function, list *operator.Call, variable *types.Var) bool {
	return slices.ContainsFunc(f.Calls, func(other *operator.Call) bool {
		return other != list && other.Verb == "List" && p.Object(other.Object) == variable && p.Scope(other) != (operator.Scope{})
	})
}

// picks reports whether a loop acts only on objects with some value in their metadata. If the value is a
// constant, the loop may treat a few objects specially, so it picks only if it leaves the others out.
func (p listScopePass) picks(loop *ast.RangeStmt, list *types.Var) bool {
	elements := p.elements(loop, list)
	found := false
	operator.Walk(loop.Body, func(n ast.Node, within []ast.Node) {
		binary, ok := n.(*ast.BinaryExpr)
		if !ok || binary.Op != token.EQL && binary.Op != token.NEQ {
			return
		}
		value := binary.Y
		if !operator.Contains(binary.X, func(n ast.Node) bool { return p.isMetadataOf(n, elements) }) {
			value = binary.X
			if !operator.Contains(binary.Y, func(n ast.Node) bool { return p.isMetadataOf(n, elements) }) {
				return
			}
		}
		statement := conditionOf(binary, within)
		skips := statement != nil && len(statement.Body.List) == 1 && isContinue(statement.Body.List[0])
		if skips == (binary.Op == token.EQL) {
			return // all but those
		}
		known := p.Info.Types[value].Value
		found = found || known == nil || known.Kind() == constant.String && constant.StringVal(known) != "" &&
			(skips || len(loop.Body.List) == 1)
	})
	return found
}

// elements returns the variables for the objects of a list in a loop.
func (p listScopePass) elements(loop *ast.RangeStmt, list *types.Var) []*types.Var {
	elements := []*types.Var{list}
	if loop.Value != nil {
		elements = append(elements, p.Object(loop.Value))
	}
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok && assign.Tok == token.DEFINE && len(assign.Lhs) == len(assign.Rhs) {
			for i, right := range assign.Rhs {
				if root := p.Root(right); root != nil && slices.Contains(elements, root) {
					elements = append(elements, p.Object(assign.Lhs[i]))
				}
			}
		}
		return true
	})
	return elements
}

// conditionOf returns the innermost if statement with an expression in its condition, or nil.
func conditionOf(e ast.Expr, within []ast.Node) *ast.IfStmt {
	for _, n := range slices.Backward(within) {
		if statement, ok := n.(*ast.IfStmt); ok && statement.Cond.Pos() <= e.Pos() && e.End() <= statement.Cond.End() {
			return statement
		}
	}
	return nil
}

func isContinue(s ast.Stmt) bool {
	branch, ok := s.(*ast.BranchStmt)
	return ok && branch.Tok == token.CONTINUE
}

// isMetadataOf reports whether a node is the name, the namespace, a label or the node of one of the
// objects.
func (p listScopePass) isMetadataOf(n ast.Node, objects []*types.Var) bool {
	selector, ok := n.(*ast.SelectorExpr)
	return ok && isMetadataField(selector) && slices.Contains(objects, p.Root(selector.X))
}

func isMetadataField(selector *ast.SelectorExpr) bool {
	switch selector.Sel.Name {
	case "Name", "GetName", "Namespace", "GetNamespace", "Labels", "GetLabels", "NodeName":
		return true
	}
	return false
}
