// Package tour executes Migrations, deletes and loses what there is to be lost, and checks against
// the API that nothing is executed twice. Crashes between any two writes are in the tests of the
// example.
package tour

import (
	"flyball.dev/examples/internal/example"
)

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World) []example.Step {
	w := &world{World: shared}
	step := example.NewStep
	return []example.Step{
		step("a Migration is created: its Job is executed, and its result recorded", w.create),
		step("the operator is restarted: nothing is written", w.restarted),
		step("its Job is deleted: it is not executed again", w.jobDeleted),
		step("its status is lost: it comes back, and nothing is executed", w.statusLost),
		step("a Job ends while the operator is stopped, and is deleted by its TTL: kept until it is recorded", w.ttl),
		step("a Migration fails: it is not retried, not even after a restart", w.failed),
		step("its image is changed: rejected without another attempt, executed with one", w.retried),
		step("another attempt of what has succeeded is rejected", w.rejected),
		step("one that comes after two others waits for both", w.after),
		step("a suspended one starts when it is resumed", w.suspended),
		step("a Job is deleted while it runs: failed, and not executed again", w.aborted),
		step("a Job of somebody else has the name: left alone", w.nameTaken),
		step("the Migration is deleted: its Job is garbage collected", w.collected),
	}
}
