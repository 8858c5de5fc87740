package rules

import (
	"go/ast"
	"go/types"

	"flyball.dev/vet/internal/operator"
)

// StaleStatus reports updates of the status from a copy that an earlier write has made stale.
var StaleStatus = rule("stalestatus", "a status that is written from a stale object, or overwritten before it is written", func(p staleStatusPass) {
	for _, f := range p.Functions {
		writes := map[*ast.CallExpr]*operator.Call{}
		for _, call := range f.Calls {
			if call.Verb == "Update" || call.Verb == "Patch" {
				writes[call.CallExpr] = call
			}
		}
		if len(writes) < 2 {
			continue
		}
		for _, body := range f.Bodies() {
			p.staleStatus(body, writes)
		}
	}
})

// staleStatusPass is a pass of the rule StaleStatus.
type staleStatusPass struct{ *pass }

// staleStatus follows each write of an object in a body to the write of its status.
func (p staleStatusPass) staleStatus(body *ast.BlockStmt, writes map[*ast.CallExpr]*operator.Call) {
	flow := p.Flow(body)
	copies := p.copies(body)
	reached := map[*types.Var]map[*ast.CallExpr]bool{}
	assigned := func(object *types.Var) map[*ast.CallExpr]bool {
		if reached[object] == nil {
			reached[object] = p.afterStatus(body, flow, object, writes)
		}
		return reached[object]
	}
	operator.InspectOwn(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || writes[call] == nil || writes[call].Subresource != "" {
			return true
		}
		written := p.Object(writes[call].Object)
		if written == nil {
			return true
		}
		p.afterWrite(flow, call, written, func(status *operator.Call) {
			if assigned(written)[call] {
				p.reportf(status, "the changes of the status of %s are lost: the response to the %s of line %d has overwritten them, so write the status first or set it after",
					written.Name(), writes[call].Verb, p.analysis.Fset.Position(call.Pos()).Line)
			}
		}, writes)
		if original := copies[written]; original != nil {
			p.afterWrite(flow, call, original, func(status *operator.Call) {
				if status.Verb == "Update" {
					p.reportf(status, "%s is stale: the %s of line %d wrote its copy %s, so this update conflicts; use the copy, which has the response",
						original.Name(), writes[call].Verb, p.analysis.Fset.Position(call.Pos()).Line, written.Name())
				}
			}, writes)
		}
		return true
	})
}

// afterWrite calls found with each write of the status of an object that may follow a write, while
// nothing else may have changed the object.
func (p staleStatusPass) afterWrite(flow *operator.Flow, from *ast.CallExpr, object *types.Var, found func(*operator.Call),
	writes map[*ast.CallExpr]*operator.Call) {
	flow.After(from, func(n ast.Node) bool {
		proceed := true
		operator.InspectOwn(n, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && proceed && writes[call] != nil && p.Object(writes[call].Object) == object {
				if writes[call].Subresource == "status" {
					found(writes[call])
				}
				proceed = false
			}
			return proceed
		})
		return proceed && !p.MayRefresh(n, nil, object) && !p.assignsStatus(n, object)
	})
}

// afterStatus returns the writes of an object that may follow an assignment to its status.
func (p staleStatusPass) afterStatus(body *ast.BlockStmt, flow *operator.Flow, object *types.Var,
	writes map[*ast.CallExpr]*operator.Call) map[*ast.CallExpr]bool {
	reached := map[*ast.CallExpr]bool{}
	operator.InspectOwn(body, func(n ast.Node) bool {
		statement, ok := n.(ast.Stmt)
		if _, block := n.(*ast.BlockStmt); !ok || block ||
			!p.AssignsStatus(statement, object) && !p.AssignsStatusInside(statement, object, nil) {
			return true
		}
		flow.After(statement, func(n ast.Node) bool {
			ast.Inspect(n, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && writes[call] != nil {
					reached[call] = true
				}
				return true
			})
			return !p.Rereads(n, object)
		})
		return true
	})
	return reached
}

// assignsStatus reports whether something in a statement assigns to the status of an object.
func (p staleStatusPass) assignsStatus(n ast.Node, object *types.Var) bool {
	return operator.Contains(n, func(n ast.Node) bool { return p.AssignsStatus(n, object) })
}

// copies returns the variables of a body that are made by DeepCopy, with what they are copies of.
func (p staleStatusPass) copies(body *ast.BlockStmt) map[*types.Var]*types.Var {
	all := map[*types.Var]*types.Var{}
	operator.InspectOwn(body, func(n ast.Node) bool {
		statement, ok := n.(*ast.AssignStmt)
		if !ok || len(statement.Lhs) != 1 {
			return true
		}
		if call, ok := statement.Rhs[0].(*ast.CallExpr); ok && operator.CalleeName(call) == "DeepCopy" {
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok && p.Object(selector.X) != nil {
				all[p.Object(statement.Lhs[0])] = p.Object(selector.X)
			}
		}
		return true
	})
	return all
}
