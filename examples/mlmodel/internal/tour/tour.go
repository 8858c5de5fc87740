// Package tour follows an MLModelDeployment from the user's request to Ready, and checks each step
// against the API. It counts what the operator writes, by the requests that it sends and by the
// resource versions on the server. It waits by watching and never polls.
package tour

import "flyball.dev/examples/internal/example"

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World) []example.Step {
	w := &world{World: shared, c: shared.Client}
	step := example.NewStep
	return []example.Step{
		step("a user applies an MLModelDeployment: validated, defaulted and stored, and nothing else", w.apply),
		step("the operator starts, finds no Deployment and no Service, and creates each with one request", w.create),
		step("the Pods become ready, and then the MLModelDeployment, with its URL", w.converged),
		step("a second reconcile and a third: nothing is written", w.reconcileAgain),
		step("the operator is restarted: nothing is written", w.restart),
		step("the user changes the model: one update of the Deployment, and a rollout", w.changeModel),
		step("kubectl scale 2 → 3, by the subresource: one update of the Deployment", w.scale),
		step("the Deployment is changed by hand: restored, except for what the operator does not decide", w.drift),
		step("the Service is deleted by hand: created again", w.deleteService),
		step("20 changes while the operator is stopped: it starts again and needs one update", w.changeWhileStopped),
		step("an image that cannot be pulled: the old Pods serve, and the status says so", w.brokenImage),
		step("a second MLModelDeployment, whose name another's Service has: reported and not touched", w.nameTaken),
		step("the MLModelDeployment is deleted: its dependents are garbage collected", w.delete),
	}
}
