package rules

import (
	"go/ast"
	"go/token"
	"go/types"

	"flyball.dev/vet/internal/operator"
)

// ResourceVersion reports resource versions that the package of a reconciler reads as numbers. Other packages
// may be parts of a server, and a server knows that they are numbers.
var ResourceVersion = rule("resourceversion", "a metadata.resourceVersion that is read as a number", func(p resourceVersionPass) {
	if len(p.Reconcilers) == 0 {
		return
	}
	for _, f := range p.Functions {
		versions := p.versionVariables(f.Decl.Body)
		isVersion := func(e ast.Expr) bool {
			return operator.IsResourceVersion(e) || p.Object(e) != nil && versions[p.Object(e)]
		}
		ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if p.CallsFunction(n, "strconv", "Atoi", "ParseInt", "ParseUint") && isVersion(n.Args[0]) {
					p.report(n, "a resource version is not a number to its readers: compare two for equality, or by k8s.io/apimachinery/pkg/util/resourceversion")
				}
			case *ast.BinaryExpr:
				switch n.Op {
				case token.LSS, token.GTR, token.LEQ, token.GEQ:
					if isVersion(n.X) || isVersion(n.Y) {
						p.report(n, "resource versions are not ordered as strings: compare two for equality, or by k8s.io/apimachinery/pkg/util/resourceversion")
					}
				}
			}
			return true
		})
	}
})

// resourceVersionPass is a pass of the rule ResourceVersion.
type resourceVersionPass struct{ *pass }

// versionVariables returns the variables that are assigned a resource version.
func (p resourceVersionPass) versionVariables(body ast.Node) map[*types.Var]bool {
	all := map[*types.Var]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		if statement, ok := n.(*ast.AssignStmt); ok && len(statement.Lhs) == len(statement.Rhs) {
			for i, right := range statement.Rhs {
				if v := p.Object(statement.Lhs[i]); v != nil && operator.IsResourceVersion(right) {
					all[v] = true
				}
			}
		}
		return true
	})
	return all
}
