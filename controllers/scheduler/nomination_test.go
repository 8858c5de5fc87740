package scheduler_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func nominate(e controllerstest.Env, pod, node string) {
	e.Helper()
	p := e.Pod(pod)
	before := client.MergeFrom(p.DeepCopy())
	p.Status.NominatedNodeName = node
	e.Must(e.Status().Patch(e.Context(), p, before))
	e.WaitIdle()
}

func gated(s *corev1.PodSpec) {
	s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
}

// TestNominationEnds: pods that a nomination keeps from a node are tried again when a user clears it, when the scheduler does, and
// when the nominated pod is deleted.
func TestNominationEnds(t *testing.T) {
	ends := map[string]func(e controllerstest.Env){
		"cleared": func(e controllerstest.Env) { nominate(e, "nominated", "") },
		"changed": func(e controllerstest.Env) { nominate(e, "nominated", "elsewhere") },
		"deleted": func(e controllerstest.Env) { e.Must(e.Delete(e.Context(), e.Pod("nominated"))) },
		"unschedulable": func(e controllerstest.Env) {
			p := e.Pod("nominated")
			before := client.MergeFrom(p.DeepCopy())
			p.Spec.SchedulingGates, p.Spec.NodeSelector = nil, map[string]string{"disk": "absent"}
			e.Must(e.Patch(e.Context(), p, before))
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
				e.CreateAll(controllerstest.Pod("nominated", "a", requesting("9k"), gated))
				e.WaitIdle()
				nominate(e, "nominated", pods.NodeName)
				e.CreateAll(controllerstest.Pod("waiting", "a", requesting("9k")))
				e.WaitIdle()
				if p := e.Pod("waiting"); p.Spec.NodeName != "" {
					t.Fatalf("the pod is on %q although the node is reserved", p.Spec.NodeName)
				}
				end(e)
				e.WaitIdle()
				e.WantScheduled("waiting", controllerstest.OnFlyball)
			})
		})
	}
}

// TestForeignNomination: a nomination of another scheduler reserves nothing.
func TestForeignNomination(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Pod("foreign", "a", requesting("9k"), func(s *corev1.PodSpec) { s.SchedulerName = "mine" }))
		e.WaitIdle()
		nominate(e, "foreign", pods.NodeName)
		e.CreateAll(controllerstest.Pod("web", "a", requesting("9k")))
		e.WaitIdle()
		e.WantScheduled("web", controllerstest.OnFlyball)
	})
}
