package rules

import (
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// LeaderElection reports operators if the options of their manager do not mention leader election.
var LeaderElection = rule("leaderelection", "an operator without leader election", func(p leaderElectionPass) {
	for _, f := range p.Functions {
		if !p.setsUpOperator(f) {
			continue
		}
		ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 || !p.CallsRuntime(call, "manager", "New", "NewManager") {
				return true
			}
			literal := operator.LiteralOf(call.Args[1])
			if v := p.Object(call.Args[1]); literal == nil && v != nil {
				literal = p.options(f, v)
			}
			if literal != nil && operator.IsType(p.Info.TypeOf(literal), "manager", "Options") && operator.Field(literal, "LeaderElection") == nil {
				p.report(call, "two replicas of this program would both reconcile, also during a rolling update: set LeaderElection and LeaderElectionID, or LeaderElection: false to say that there is but one")
			}
			return true
		})
	}
})

// addsControllers matches the names of the functions that add controllers to a manager.
var addsControllers = regexp.MustCompile(`^SetupWithManager$|^(?i:setup|add|register|create|init)\w*(Controller|Reconciler)s?(WithManager)?$`)

// leaderElectionPass is a pass of the rule LeaderElection.
type leaderElectionPass struct{ *pass }

// setsUpOperator reports whether a function of a program, or one that returns a manager, adds
// controllers to it. Servers that watch what they serve run in every replica: those start the manager
// beside something else.
func (p leaderElectionPass) setsUpOperator(f *operator.Function) bool {
	returns := false
	for result := range f.Object.Signature().Results().Variables() {
		returns = returns || operator.IsType(result.Type(), "manager", "Manager")
	}
	if p.Types.Name() != "main" && !returns {
		return false
	}
	adds := operator.ContainsCall(f.Decl.Body, func(call *ast.CallExpr) bool {
		return addsControllers.MatchString(operator.CalleeName(call)) || addsToManager(call) ||
			p.CallsRuntime(call, "builder", "ControllerManagedBy", "NewControllerManagedBy", "TypedControllerManagedBy")
	})
	serves := operator.ContainsCall(f.Decl.Body, p.serves)
	beside := operator.Contains(f.Decl.Body, func(n ast.Node) bool {
		statement, ok := n.(*ast.GoStmt)
		return ok && operator.ContainsCall(statement, func(call *ast.CallExpr) bool { return operator.CalleeName(call) == "Start" })
	})
	return adds && !serves && !beside && !operator.Contains(f.Decl.Body, namesNode) && !operator.Contains(f.Decl.Body, elects)
}

// serves reports whether a call starts a server, or adds something other than metrics to the one that
// has no handler. Profiles and metrics are what operators serve too.
func (p leaderElectionPass) serves(call *ast.CallExpr) bool {
	if p.CallsFunction(call, "net/http", "Handle", "HandleFunc") && len(call.Args) == 2 {
		pattern := p.Info.Types[call.Args[0]].Value
		return pattern == nil || constant.StringVal(pattern) != "/metrics"
	}
	return strings.HasPrefix(operator.CalleeName(call), "ListenAndServe") &&
		(len(call.Args) == 0 || !operator.IsNil(call.Args[len(call.Args)-1]))
}

// addsToManager reports whether a call is one of AddToManager of something named like controllers:
// indexes and webhooks, which run in every replica, are added to a manager by that name as well.
func addsToManager(call *ast.CallExpr) bool {
	selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "AddToManager" {
		return false
	}
	id, ok := selector.X.(*ast.Ident)
	return ok && aboutControllers.MatchString(id.Name)
}

// aboutControllers matches the names of packages and variables that are of controllers.
var aboutControllers = regexp.MustCompile(`(?i)controller|reconciler`)

// namesNode reports whether a node of the syntax is about the node of the cluster that the program
// runs on. Such a program is an agent: each node has one, which reconciles its share.
func namesNode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		return strings.Contains(n.Value, "NODE_NAME") || strings.Contains(n.Value, "spec.nodeName")
	case *ast.Ident:
		return strings.Contains(strings.ToLower(n.Name), "nodename")
	}
	return false
}

// elects reports whether a node of the syntax names a leader election other than the manager's.
func elects(n ast.Node) bool {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := selector.X.(*ast.Ident)
	return ok && (strings.HasPrefix(id.Name, "leader") || strings.Contains(selector.Sel.Name, "BecomeLeader"))
}

// options returns the literal that a variable is declared with, or nil if leader election may be set
// elsewhere: the variable is assigned, or its field is, or its address is taken.
func (p leaderElectionPass) options(f *operator.Function, v *types.Var) *ast.CompositeLit {
	var literal *ast.CompositeLit
	elsewhere := false
	ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				selector, ok := left.(*ast.SelectorExpr)
				switch {
				case p.Object(left) == v && literal == nil && len(n.Lhs) == len(n.Rhs):
					literal = operator.LiteralOf(n.Rhs[i])
				case p.Object(left) == v:
					elsewhere = true
				case ok && p.Root(left) == v:
					elsewhere = elsewhere || selector.Sel.Name == "LeaderElection"
				}
			}
		case *ast.UnaryExpr:
			elsewhere = elsewhere || p.Object(n.X) == v
		}
		return true
	})
	if elsewhere {
		return nil
	}
	return literal
}
