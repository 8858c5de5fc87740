package rules

import (
	"go/ast"
	"regexp"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// Finalizer reports finalizers that are never removed, and those that are added without a look at
// the deletion timestamp.
var Finalizer = rule("finalizer", "a finalizer that nothing removes, or that is added to an object that is being deleted", func(p finalizerPass) {
	removes := p.mentionsName(func(name string) bool {
		return name == "RemoveFinalizer" || name == "SetFinalizers" || name == "Finalizers" || name == "Finalize" ||
			strings.Contains(strings.ToLower(name), "removefinalizer") || strings.Contains(strings.ToLower(name), "deletefinalizer")
	})
	looks := p.mentionsName(deletion.MatchString)
	for _, r := range p.Reconcilers {
		p.addedUnseen(r)
	}
	for _, f := range p.Functions {
		if !p.Reconciles(f) {
			continue
		}
		ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !p.AddsFinalizer(call) || p.isCleanedElsewhere(call.Args[0]) {
				return true
			}
			switch {
			case !removes:
				p.report(call, "nothing in this package removes the finalizer, so the object cannot be deleted: clean up and call RemoveFinalizer if DeletionTimestamp is set")
			case !looks:
				p.report(call, "nothing in this package looks at DeletionTimestamp: a finalizer cannot be added to an object that is being deleted, and its deletion waits for it to be removed")
			}
			return true
		})
	}
})

var (
	deletion = regexp.MustCompile(`(?i)deletion|deleted|deleting|terminating`)
	cleansUp = regexp.MustCompile(`(?i:delet|terminat|clean|teardown|destroy|remove)|[fF]inaliz(e|ation)($|[A-Z])`)
)

// finalizerPass is a pass of the rule Finalizer.
type finalizerPass struct{ *pass }

// addedUnseen reports a finalizer that a Reconcile adds before it looks whether the object is being
// deleted, if it looks later.
func (p finalizerPass) addedUnseen(r *operator.Reconciler) {
	var adds *ast.CallExpr
	looked := false
	operator.InspectOwn(r.Reconcile.Decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if adds == nil {
				looked = looked || cleansUp.MatchString(n.Name)
			} else if !looked && deletion.MatchString(n.Name) {
				looked = true
				p.report(adds, "DeletionTimestamp is looked at later: a finalizer cannot be added to an object that is being deleted, so look first")
			}
		case *ast.CallExpr:
			if adds == nil && p.AddsFinalizer(n) && p.IsPrimary(n.Args[0]) {
				adds = n
			}
		}
		return true
	})
}

var cleans = regexp.MustCompile(`(?i)delet|finaliz|clean|teardown|destroy|remove|uninstall|terminat|reconcile`)

// isCleanedElsewhere reports whether an object of that kind is passed to a function of another package that
// may clean up, by its name.
func (p finalizerPass) isCleanedElsewhere(object ast.Expr) bool {
	kind := p.KindOf(object)
	return p.Anywhere(func(call *ast.CallExpr) bool {
		if !cleans.MatchString(operator.CalleeName(call)) {
			return false
		}
		if kind == nil {
			return p.Declared(call) == nil && !p.InLibrary(call) && p.ClientCall(call) == nil && len(call.Args) > 1
		}
		return p.PassesOn(call, kind)
	})
}

// mentionsName reports whether an identifier in a function of the package satisfies a condition.
func (p finalizerPass) mentionsName(is func(name string) bool) bool {
	for _, f := range p.Functions {
		if operator.Contains(f.Decl.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			return ok && is(id.Name)
		}) {
			return true
		}
	}
	return false
}
