// Package tour runs a scenario with an AppService and checks each step against the API. It waits by
// watching and never polls.
package tour

import "flyball.dev/examples/internal/example"

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World) []example.Step {
	w := &world{World: shared, c: shared.Client}
	step := example.NewStep
	return []example.Step{
		step("the operator starts", w.startOperator),
		step("an AppService is created: Deployment, ReplicaSet, 2 Pods and Service appear", w.create),
		step("the Pods become ready, and then the AppService", w.converged),
		step("replicas 2 → 4: 4 Pods", w.scale),
		step("the Deployment's image is changed by a user: restored, with an event", w.changeImageByHand),
		step("the Deployment is deleted by a user: created again", w.deleteDeploymentByHand),
		step("50 changes while the operator is stopped: it starts again and converges", w.changeWhileStopped),
		step("replicas: 1 is rejected, and nothing changes", w.rejectOneReplica),
		step("a second operator waits while the first holds the Lease", w.secondWaits),
		step("the first stops: the second takes over", w.secondTakesOver),
		step("an AppService with a finalizer is deleted: gone when the finalizer is removed", w.finalizer),
		step("the AppService is deleted: its dependents are garbage collected", w.deleteEverything),
		step("the namespace is deleted: nothing is left", w.deleteNamespace),
	}
}
