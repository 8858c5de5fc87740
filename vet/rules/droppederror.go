package rules

import (
	"go/ast"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"

	"flyball.dev/vet/internal/grants"
	"flyball.dev/vet/internal/operator"
)

// DroppedError reports writes if nobody reads their errors, or the reconcile ends as a success in spite of one.
var DroppedError = rule("droppederror", "an error of a write to the API that is dropped", func(p droppedErrorPass) {
	if p.Types.Name() == "main" && len(p.Reconcilers) == 0 || isTestSupport(p.analysis) {
		return // the user of a command or a test sees what failed
	}
	deliberate := p.commented(intent)
	for _, f := range p.Functions {
		if p.Reconciles(f) {
			p.hiddenErrors(f)
		}
	}
	p.walk(func(n ast.Node, within []ast.Node) {
		call := droppedCall(n)
		if call == nil || p.isOfEvent(call) {
			return
		}
		verb := p.writeVerb(call)
		_, explicit := n.(*ast.AssignStmt)
		if explicit && deliberate(n.Pos()) {
			return
		}
		switch {
		case verb == "":
			return
		case strings.HasPrefix(verb, "Delete") && p.isLast(n, within):
		case strings.HasPrefix(verb, "Delete") && explicit, p.retries(n, call, within):
			return
		}
		p.reportf(call, "the error of %s is dropped: a conflict or a refusal goes unseen and nothing tries again; return it", verb)
	})
})

// intent matches a comment that says that the error beside it is of no consequence.
var intent = regexp.MustCompile(`(?i)best[ -]effort|\b(ignor|deliberate|intentional|on purpose|purposely|not fatal|non-?fatal|(does not|doesn.t) matter|no matter|tried again|retr(y|ied)|harmless)`)

// isTestSupport reports whether a package is in a folder for tests, below the folder of its module.
func isTestSupport(a *analysis.Pass) bool {
	if len(a.Files) == 0 {
		return false
	}
	path, folder := a.Pkg.Path(), filepath.Dir(a.Fset.Position(a.Files[0].FileStart).Filename)
	if root, ok := grants.ModuleRoot(folder); ok {
		path = filepath.ToSlash(strings.TrimPrefix(folder, root))
	}
	return slices.ContainsFunc(strings.Split(path, "/"), func(folder string) bool {
		switch folder {
		case "test", "tests", "testing", "testutil", "testutils", "e2e":
			return true
		}
		return false
	})
}

// droppedErrorPass is a pass of the rule DroppedError.
type droppedErrorPass struct{ *pass }

// writeVerb returns the verb of a call that writes to the API, or "".
func (p droppedErrorPass) writeVerb(call *ast.CallExpr) string {
	if c := p.ClientCall(call); c != nil && c.Writes() {
		if c.Subresource != "" && c.Subresource != "?" {
			return c.Verb + " of the " + c.Subresource
		}
		return c.Verb
	}
	if p.CallsRuntime(call, "controller/controllerutil", "CreateOrUpdate", "CreateOrPatch") || p.typedWrite(call) {
		return operator.CalleeName(call)
	}
	return ""
}

// hiddenErrors reports the errors of writes that end the reconcile as a success. Passing the error to a
// function, or writing again, counts as handling it.
func (p droppedErrorPass) hiddenErrors(f *operator.Function) {
	finalizes := operator.ContainsCall(f.Decl.Body, p.RemovesFinalizer)
	operator.Walk(f.Decl.Body, func(n ast.Node, within []ast.Node) {
		statement, ok := n.(*ast.IfStmt)
		if !ok || statement.Else != nil || !p.IsErrorTest(statement.Cond) || finalizes && p.InDeletion(within) { // see StuckFinalizer
			return
		}
		call := p.testedCall(statement, operator.Statements(within[len(within)-1]))
		if call == nil || p.isOfEvent(call) || operator.Contains(statement.Body, p.handles) {
			return
		}
		verb, end := p.writeVerb(call), p.Success(statement.Body)
		if verb != "" && end != nil && len(end.Results) == 2 {
			p.reportf(end, "the error of %s ends the reconcile as a success: nothing tries again; return it", verb)
		}
	})
}

// testedCall returns the call that returned the error which an if statement tests: a call in its init
// statement, or in the statement before it in a list. It returns nil if there is none.
func (p droppedErrorPass) testedCall(statement *ast.IfStmt, list []ast.Stmt) *ast.CallExpr {
	source := statement.Init
	if i := slices.Index(list, ast.Stmt(statement)); source == nil && i > 0 {
		source = list[i-1]
	}
	assign, ok := source.(*ast.AssignStmt)
	if !ok || len(assign.Rhs) != 1 {
		return nil
	}
	tested := p.Object(p.Unfiltered(ast.Unparen(statement.Cond).(*ast.BinaryExpr).X))
	if tested == nil || p.Object(assign.Lhs[len(assign.Lhs)-1]) != tested {
		return nil
	}
	call, _ := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
	return call
}

// handles reports whether a node deals with an error: it returns one, asks for its kind, or writes to
// the API.
func (p droppedErrorPass) handles(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ReturnStmt:
		return len(n.Results) == 0 || !operator.IsNil(n.Results[len(n.Results)-1])
	case *ast.CallExpr:
		return p.writeVerb(n) != "" || p.RemovesOrAsks(n)
	}
	return false
}

// droppedCall returns the call in a statement that drops the results, or nil.
func droppedCall(n ast.Node) *ast.CallExpr {
	switch n := n.(type) {
	case *ast.ExprStmt:
		call, _ := n.X.(*ast.CallExpr)
		return call
	case *ast.GoStmt:
		return n.Call
	case *ast.DeferStmt:
		return n.Call
	case *ast.AssignStmt:
		last := operator.Ident(n.Lhs[len(n.Lhs)-1])
		if len(n.Rhs) == 1 && last != nil && last.Name == "_" {
			call, _ := n.Rhs[0].(*ast.CallExpr)
			return call
		}
	}
	return nil
}

// isOfEvent reports whether a call has an event as an argument. Events are for people to read, and are
// no state of the cluster.
func (p droppedErrorPass) isOfEvent(call *ast.CallExpr) bool {
	return slices.ContainsFunc(call.Args, func(argument ast.Expr) bool {
		kind := p.KindOf(argument)
		return kind != nil && (operator.ElementOf(kind) == "k8s.io/api/core/v1.Event" || operator.ElementOf(kind) == "k8s.io/api/events/v1.Event")
	})
}

// retries reports whether the reconcile runs again although the write of a statement failed: its block,
// or every path from there without another error, ends with a return that asks for it. A path that writes
// the same object again, and reads that error, counts too.
func (p droppedErrorPass) retries(n ast.Node, call *ast.CallExpr, within []ast.Node) bool {
	block := operator.Statements(within[len(within)-1])
	if len(block) > 0 {
		last, ok := block[len(block)-1].(*ast.ReturnStmt)
		if ok && last.Pos() > n.Pos() && p.runsAgain(last, append(slices.Clone(within), last)) {
			return true
		}
	}
	again, ends := true, false
	p.following(n, within, func(next ast.Node) bool {
		if statement, ok := next.(*ast.ReturnStmt); ok {
			ends, again = true, again && p.runsAgain(statement, append(operator.Around(within[0], statement), statement))
		} else if p.rewrites(next, call) {
			ends = true
			return false
		}
		return again
	})
	return ends && again
}

// rewrites reports whether a statement or condition writes the object of a call again, and reads the
// error.
func (p droppedErrorPass) rewrites(n ast.Node, call *ast.CallExpr) bool {
	dropped, first := droppedCall(n), p.ClientCall(call)
	return first != nil && operator.ContainsCall(n, func(other *ast.CallExpr) bool {
		second := p.ClientCall(other)
		return second != nil && other != dropped && (second.Verb == "Update" || second.Verb == "Patch") &&
			second.Subresource == first.Subresource && p.Object(second.Object) != nil && p.Object(second.Object) == p.Object(first.Object)
	})
}

// isLast reports whether nobody repeats a Delete that failed: a path from there ends the reconcile as a
// success, or removes the finalizer of the owner. Otherwise the next reconcile finds the object again.
func (p droppedErrorPass) isLast(n ast.Node, within []ast.Node) bool {
	last := false
	p.following(n, within, func(next ast.Node) bool {
		statement, ok := next.(*ast.ReturnStmt)
		last = last || ok && len(statement.Results) == 2 && operator.IsNil(statement.Results[1]) && p.IsNoResult(statement.Results[0]) ||
			operator.ContainsCall(next, func(call *ast.CallExpr) bool { return strings.Contains(operator.CalleeName(call), "RemoveFinalizer") })
		return !last
	})
	return last
}

// following visits the nodes that may run after a statement in its function, on paths without another
// error.
func (p droppedErrorPass) following(n ast.Node, within []ast.Node, visit func(ast.Node) bool) {
	for _, around := range slices.Backward(within) {
		switch around := around.(type) {
		case *ast.FuncLit:
			p.Flow(around.Body).After(n, visit)
			return
		case *ast.FuncDecl:
			p.Flow(around.Body).After(n, visit)
			return
		}
	}
}

// runsAgain reports whether a return asks for another reconcile, by an error or by a result.
func (p droppedErrorPass) runsAgain(statement *ast.ReturnStmt, within []ast.Node) bool {
	if len(statement.Results) == 0 {
		return false
	}
	first, last := statement.Results[0], statement.Results[len(statement.Results)-1]
	if literal := operator.LiteralOf(first); literal != nil {
		requeue := operator.Field(literal, "Requeue")
		if operator.Field(literal, "RequeueAfter") != nil || requeue != nil && operator.IsTrue(p.Info, requeue.Value) {
			return true
		}
	} else if text := strings.ToLower(types.ExprString(first)); strings.Contains(text, "requeue") || strings.Contains(text, "retry") {
		return true
	}
	return p.IsKnownError(last, within)
}

// typedWrite reports whether a call is of a method of a generated clientset that writes.
func (p droppedErrorPass) typedWrite(call *ast.CallExpr) bool {
	callee, ok := typeutil.Callee(p.Info, call).(*types.Func)
	if !ok || !slices.Contains([]string{"Create", "Update", "UpdateStatus", "Patch", "Apply", "Delete"}, callee.Name()) {
		return false
	}
	parameters := callee.Signature().Params()
	for i := range parameters.Len() {
		for _, option := range []string{"CreateOptions", "UpdateOptions", "PatchOptions", "ApplyOptions", "DeleteOptions"} {
			if operator.IsNamed(parameters.At(i).Type(), "k8s.io/apimachinery/pkg/apis/meta/v1", option) {
				return true
			}
		}
	}
	return false
}
