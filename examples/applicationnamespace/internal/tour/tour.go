// Package tour runs a scenario with ApplicationNamespaces and checks each step against the API. It
// waits by watching and never polls.
package tour

import "flyball.dev/examples/internal/example"

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World) []example.Step {
	w := &world{World: shared, c: shared.Client}
	step := example.NewStep
	return []example.Step{
		step("the operator starts", w.start),
		step("an ApplicationNamespace is created: its Namespace appears, owned and labelled", w.create),
		step("one for a Namespace that exists: adopted, with its content and its labels", w.adopt),
		step("there is nothing to do: nothing is written, not even by a second operator", w.idle),
		step("a label is changed by a user: restored; the user's own label is kept", w.restoreLabel),
		step("a label is removed from the spec: removed from the Namespace", w.giveUpLabel),
		step("the owner reference is removed by a user: adopted again", w.restoreOwner),
		step("a second one for the same Namespace: refused, with an event and without a fight", w.refuse),
		step("the first is deleted in the foreground, Retain: rejected, as the Namespace would be lost", w.rejectForeground),
		step("the first is deleted, Retain: the Namespace is kept, and the second adopts it", w.handOver),
		step("the Namespace is deleted by a user: created again", w.recreate),
		step("deleted while the operator is stopped: it waits; released when the operator starts", w.releaseLate),
		step("deleted, Delete: the Namespace is garbage collected with its content", w.collect),
		step("deleted in the foreground, Delete: the Namespace is deleted, too", w.foreground),
		step("deleted with its dependents orphaned, Delete: the Namespace is kept", w.orphan),
		step("kube-system, default, labels that no Namespace can have: rejected by the API, and nothing changes", w.rejectProtected),
		step("the name of the Namespace cannot be changed", w.rejectRename),
	}
}
