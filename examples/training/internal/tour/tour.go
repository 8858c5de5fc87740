// Package tour trains models while workers fail and nodes are lost, and checks against the API what
// becomes of them. It plays the kubelet of nodes of its own. Crashes between any two writes are in
// the tests of the example.
package tour

import (
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/examples/internal/example"
)

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World) []example.Step {
	w := &world{World: shared}
	step := example.NewStep
	return []example.Step{
		step("a TrainingJob is created: 1 parameter server and 2 workers run, with names in DNS", w.create),
		step("the operator is restarted: nothing is written", w.restarted),
		step("a worker fails: it alone is replaced, and the restart counted", w.replaced),
		step("a worker is deleted while the operator is stopped: replaced and counted when it starts", w.deleted),
		step("a worker succeeds and its Pod is deleted: it stays succeeded", w.succeeded),
		step("the other one succeeds: complete, and the parameter server is stopped", w.complete),
		step("with RestartAll, a worker fails: all start again, counted once", w.restartAll),
		step("it fails more often than the backoff limit: failed, and nothing runs", w.backoffLimit),
		step("two TrainingJobs run on nodes of their own", w.onNodes),
		step("a node becomes not ready: only the TrainingJob on it is reconciled, and waits", w.readinessChanges(corev1.ConditionUnknown)),
		step("the node is ready again in time: nothing is replaced", w.readinessChanges(corev1.ConditionTrue)),
		step("it is not ready for too long: its Pods are replaced on another node", w.nodeLost),
		step("the other node is deleted: only the other TrainingJob is reconciled, its Pods replaced", w.nodeDeleted),
		step("a Pod or a Service of somebody else has the name: left alone, the status says so; free again: created", w.nameTaken),
		step("another number of workers, or a name that cannot be a Service's, is rejected", w.rejected),
		step("the TrainingJob is deleted: its Pods and its Service are garbage collected", w.collected),
	}
}
