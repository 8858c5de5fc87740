package tainteviction_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestTaintEviction: pods are deleted from a node with a taint NoExecute that they do not tolerate, at
// once or after the time for which they do.
func TestTaintEviction(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		taint := func(taints ...corev1.Taint) {
			node := &corev1.Node{}
			e.Must(e.Get(e.Context(), client.ObjectKey{Name: pods.NodeName}, node))
			node.Spec.Taints = taints
			e.Must(e.Update(e.Context(), node))
			e.WaitIdle()
		}
		tolerating := func(seconds string) string {
			return `{containers: [{name: c, image: c}], tolerations: [{key: a, operator: Exists, effect: NoExecute` + seconds + `}]}`
		}
		e.CreatePod("none", `{containers: [{name: c, image: c}]}`)
		e.CreatePod("forever", tolerating(""))
		e.CreatePod("minute", tolerating(", tolerationSeconds: 60"))
		e.CreatePod("zero", tolerating(", tolerationSeconds: 0"))
		e.CreatePod("hour", tolerating(", tolerationSeconds: 3600"))
		ended := controllerstest.Pod("ended", "c", func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyNever })
		ended.Annotations = map[string]string{pods.OutcomeAnnotation: pods.Succeeded}
		e.CreateAll(ended)
		e.WaitIdle()
		taint(corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule})
		e.WantPodNames("ended", "forever", "hour", "minute", "none", "zero")
		taint(corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute})
		e.WantPodNames("forever", "hour", "minute")
		e.WantEvent("none", "Normal TaintManagerEviction", "Marking for deletion Pod default/none")
		time.Sleep(40 * time.Second) // virtual
		e.WantPodNames("forever", "hour", "minute")
		e.WaitIdle()
		e.WantPodNames("forever", "hour")

		bound := controllerstest.PodOn(pods.NodeName, "default", "late")
		e.CreateAll(bound)
		e.WaitIdle()
		e.WantPodNames("forever", "hour")
		taint()
		e.WantEvent("hour", "Normal TaintManagerEviction", "Cancelling deletion of Pod default/hour")
		time.Sleep(2 * time.Hour) // virtual
		e.WantPodNames("forever", "hour")
	})
}
