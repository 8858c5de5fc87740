// Package tour shows what each way to write does to a stale copy, to lists, and to the fields of
// others, first one by one and then through the operator. It waits by watching and never polls.
package tour

import "flyball.dev/examples/internal/example"

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World) []example.Step {
	w := &world{World: shared, c: shared.Client}
	step := example.NewStep
	return []example.Step{
		step("Update of a stale copy: 409 Conflict, and nothing is written", w.updateStale),
		step("RetryOnConflict: the object is read again, and both changes are there", w.retry),
		step("merge patch of a stale copy: no conflict; other fields are kept, but not others' changes in the list", w.mergeStale),
		step("merge patch with a lock: 409 Conflict, and nothing is lost", w.mergeLocked),
		step("strategic merge patch of a stale copy: no conflict; lists are merged by name, nothing is lost", w.strategicMergeStale),
		step("strategic merge patch of a custom resource: 415 Unsupported Media Type", w.strategicMergeCustom),
		step("JSON patch: the container is elsewhere: its test fails with 422, and nothing is written", w.jsonStale),
		step("JSON patch without a test: the wrong container is changed", w.jsonWithoutTest),
		step("apply: this manager owns what it has sent, and nothing else", w.apply),
		step("apply of others' fields: 409 with their names; of the same values: shared; with force: taken over", w.applyConflict),
		step("apply of less: a required field that was taken by force cannot be given up: 422", w.giveUpForced),
		step("apply of less: what was given up is removed, but for what others own too", w.giveUp),
		step("the operator starts: each method brings the same result", w.allMethods),
		step("there is nothing to do: nothing is written, not even by a second operator", w.idle),
		step("a user changes the image: restored, but Apply names the other manager instead", w.userChanges),
		step("the user gives way, or is forced: Apply writes", w.resolve),
		step("a variable is removed from the spec: removed by Apply only", w.removeVariable),
		step("40 changes of a user at the same time: nothing is lost, conflicts are retried", w.concurrently),
		step("a Deployment that does not exist is not created; it is awaited", w.awaitDeployment),
		step("force without Apply, another method: rejected", w.reject),
	}
}
