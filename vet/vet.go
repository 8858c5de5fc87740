// Package vet finds the mistakes that operators make in their source. It is for operators on this
// runtime and on controller-runtime. Each rule is an analyzer with a page in docs/vet; the command
// flyball vet runs them, and so can any driver of golang.org/x/tools/go/analysis.
//
// A comment "//flyball:ignore RULE REASON" silences a rule on its line and on the next.
package vet

import (
	"slices"

	"golang.org/x/tools/go/analysis"

	"flyball.dev/vet/rules"
)

// Analyzers returns the rules that are on by default, sorted by their names. The slice is the
// caller's.
func Analyzers() []*analysis.Analyzer {
	var names []string
	for _, rule := range append(Optional(), defaults...) {
		names = append(names, rule.Name)
	}
	return append(slices.Clone(defaults), rules.Ignore(names...))
}

// Optional returns the rules that are off by default, because they are right too seldom, sorted by
// their names. The slice is the caller's.
func Optional() []*analysis.Analyzer {
	return []*analysis.Analyzer{rules.CreateRace, rules.IgnoredConflict}
}

var defaults = []*analysis.Analyzer{
	rules.Adoption,
	rules.Conflict,
	rules.CreateExists,
	rules.CrossNamespace,
	rules.DroppedError,
	rules.EventState,
	rules.Finalizer,
	rules.FinalizerOrder,
	rules.GenerateName,
	rules.IgnoreNotFound,
	rules.LateSnapshot,
	rules.LeaderElection,
	rules.ListScope,
	rules.MemoryState,
	rules.ObservedGeneration,
	rules.OwnerReference,
	rules.RBAC,
	rules.Requeue,
	rules.ResourceVersion,
	rules.StaleStatus,
	rules.StuckFinalizer,
	rules.TwoOwners,
	rules.WallClock,
}
