package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/podgc"

	"flyball.dev/controllers"
	"flyball.dev/controllers/podgc"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// terminated is how many terminated pods the garbage collectors keep.
const terminated = 3

// TestPodGC compares which pods are deleted, and their status if finalizers keep them.
func TestPodGC(t *testing.T) {
	comparison{
		name:      "pod-garbage-collector-controller",
		options:   controllers.Options{PodGC: podgc.Options{TerminatedPodThreshold: terminated}},
		scenarios: 60,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			return upstream.NewPodGC(ctx, c, f.Core().V1().Pods(), f.Core().V1().Nodes(), terminated).Run, nil
		},
		kinds:    []client.ObjectList{&corev1.PodList{}, &corev1.NodeList{}},
		periodic: true,
		onlyEnd:  true,
		generate: generatePodGC,
		require:  []string{"Pod *.status.phase Failed", "Pod *.status.phase Succeeded", "Pod *.status.conditions*PodGC: node no longer exists"},
	}.compare(t)
}

func generatePodGC(s *random.Source) []step {
	outOfService := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	nodes := []*corev1.Node{newNode("a", true), newNode("b", s.Chance(50)), newNode("c", false, outOfService)}
	var steps []step
	for _, n := range nodes {
		if s.Chance(80) {
			steps = append(steps, create(n))
		}
	}
	var pods []*corev1.Pod
	for i := range 2 + s.IntN(8) {
		p := newPod(s, fmt.Sprint("p", i), random.Pick(s, "a", "a", "b", "b", "c", "d", "", ""))
		p.Status = newPodStatus(s)
		pods = append(pods, p)
		steps = append(steps, create(p))
	}
	for range s.IntN(12) {
		p, n, status := random.Pick(s, pods...), random.Pick(s, nodes...), newPodStatus(s)
		steps = append(steps, random.Pick(s,
			remove(p), remove(p),
			kill(p),
			changeStatus(jsonOf(status), p, func(p *corev1.Pod) {
				if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
					p.Status = status
				}
			}),
			change("no finalizers", p, func(p *corev1.Pod) { p.Finalizers = nil }),
			create(n), remove(n),
			change("out of service", n, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{outOfService} }),
			change("in service", n, func(n *corev1.Node) { n.Spec.Taints = nil }),
			changeStatus("ready", n, func(n *corev1.Node) { setReady(n, true) }),
			changeStatus("not ready", n, func(n *corev1.Node) { setReady(n, false) }),
		))
	}
	// Kubernetes looks at the nodes each 20 seconds, so a node must not come back at the end of the quarantine. All short waits
	// together are shorter than that.
	for i := range steps {
		steps[i].wait = random.Pick(s, time.Second, time.Second, time.Second, 150*time.Second)
	}
	return steps
}

func newPodStatus(s *random.Source) corev1.PodStatus {
	status := corev1.PodStatus{Phase: random.Pick(s, corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown)}
	if status.Phase == corev1.PodFailed && s.Chance(40) {
		status.Reason = "Evicted"
	}
	if s.Chance(20) {
		status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: random.Pick(s, corev1.ConditionTrue, corev1.ConditionFalse), Reason: "Earlier",
			LastTransitionTime: metav1.NewTime(s.Time().Truncate(time.Second))}}
	}
	return status
}
