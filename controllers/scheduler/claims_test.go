package scheduler_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/controllerstest"
)

// TestPodsWaitForClaims creates pods before their claims and volumes.
func TestPodsWaitForClaims(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		using := func(claim string) func(*corev1.PodSpec) {
			return func(s *corev1.PodSpec) {
				s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
			}
		}
		unschedulable := func(reason string) string {
			return "Pending Unschedulable: 0/1 nodes are available: " + reason + ". no new claims to deallocate, preemption: " +
				"0/1 nodes are available: 1 Preemption is not helpful for scheduling."
		}
		e.WaitIdle()
		e.CreateAll(controllerstest.Pod("p", "a", using("missing")), controllerstest.Pod("q", "a", using("many")))
		e.WaitIdle()
		e.WantScheduled("p", unschedulable(`persistentvolumeclaim "missing" not found`))
		e.CreateAll(controllerstest.Claim("missing", "1Gi", ""))
		many := controllerstest.Claim("many", "1Gi", "standard")
		many.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		e.CreateAll(many)
		e.WaitIdle()
		e.WantScheduled("p", unschedulable("pod has unbound immediate PersistentVolumeClaims"))
		e.WantScheduled("q", `Pending on "flyball"`) // the provisioner has no volumes with that access mode
		if s := e.Pod("q").Status.ContainerStatuses; len(s) != 1 || s[0].State.Waiting == nil || s[0].State.Waiting.Reason != "ContainerCreating" {
			t.Errorf("containers %+v", s)
		}
		shared := controllerstest.Volume("shared", "1Gi", "standard")
		shared.Spec.AccessModes = many.Spec.AccessModes
		e.CreateAll(controllerstest.Volume("v", "1Gi", ""), shared)
		e.WaitIdle()
		e.WantScheduled("p", `Running on "flyball"`)
		e.WantScheduled("q", `Running on "flyball"`)
	})
}
