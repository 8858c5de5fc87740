package podgc

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Unix(1_000_000, 0)

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, c := range change {
		c(p)
	}
	return p
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func phase(ph corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = ph } }

func terminating(grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now}, &grace
	}
}

func node(ready corev1.ConditionStatus, taints ...string) *corev1.Node {
	n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	for _, t := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: t, Effect: corev1.TaintEffectNoExecute})
	}
	return n
}

func TestReasonToDelete(t *testing.T) {
	const long = Quarantine
	ready, outOfService := node(corev1.ConditionTrue), node(corev1.ConditionUnknown, corev1.TaintNodeOutOfService)
	for _, tt := range []struct {
		name    string
		pod     *corev1.Pod
		node    *corev1.Node
		missing time.Duration
		want    reason
		after   time.Duration
	}{
		{name: "pending", pod: pod(phase(corev1.PodPending)), want: noReason},
		{name: "terminating, pending", pod: pod(phase(corev1.PodPending), terminating(30)), want: unscheduledTerminating},
		{name: "running", pod: pod(on("n")), node: ready, want: noReason},
		{name: "terminating, running", pod: pod(on("n"), terminating(30)), node: ready, want: noReason},
		{name: "its node was just deleted", pod: pod(on("n")), missing: time.Second, want: noReason, after: Quarantine - time.Second},
		{name: "its node was deleted long ago", pod: pod(on("n")), missing: long, want: orphaned},
		{name: "terminating, its node was just deleted", pod: pod(on("n"), terminating(30)), want: noReason, after: Quarantine},
		{name: "terminating, its node was deleted long ago", pod: pod(on("n"), terminating(30)), missing: long, want: orphaned},
		{name: "terminated, its node was deleted long ago", pod: pod(on("n"), phase(corev1.PodSucceeded)), missing: long, want: orphaned},
		{name: "has finalizers left", pod: pod(on("n"), phase(corev1.PodFailed), terminating(0)), missing: long, want: noReason},
		{name: "its node is out of service", pod: pod(on("n")), node: outOfService, want: noReason},
		{name: "terminating, its node is out of service", pod: pod(on("n"), terminating(30)), node: outOfService, want: terminatingOutOfService},
		{name: "terminating, its node is not ready", pod: pod(on("n"), terminating(30)), node: node(corev1.ConditionFalse), want: noReason},
		{name: "terminating, its node is ready, but tainted", pod: pod(on("n"), terminating(30)),
			node: node(corev1.ConditionTrue, corev1.TaintNodeOutOfService), want: noReason},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, after := reasonToDelete(tt.pod, tt.node, tt.missing); got != tt.want || after != tt.after {
				t.Errorf("%v after %s, want %v after %s", got, after, tt.want, tt.after)
			}
		})
	}
}

func TestMarkFailed(t *testing.T) {
	p := pod(on("n"), func(p *corev1.Pod) { p.Generation = 3 })
	markFailed(&p.Status, p.Generation, orphaned, now)
	markFailed(&p.Status, p.Generation, orphaned, now.Add(time.Hour))
	if c := p.Status.Conditions; p.Status.Phase != corev1.PodFailed || len(c) != 1 || c[0].Type != corev1.DisruptionTarget ||
		c[0].Status != corev1.ConditionTrue || c[0].Reason != "DeletionByPodGC" || !c[0].LastTransitionTime.Time.Equal(now) || c[0].ObservedGeneration != 3 {
		t.Errorf("the status is %+v", p.Status)
	}
	p = pod(terminating(30))
	if markFailed(&p.Status, p.Generation, unscheduledTerminating, now); p.Status.Phase != corev1.PodFailed || len(p.Status.Conditions) > 0 {
		t.Errorf("the status is %+v", p.Status)
	}
}

func TestCompareForDeletion(t *testing.T) {
	newPod := func(name string, age time.Duration, reason string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Status:     corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason},
		}
	}
	pods := []corev1.Pod{newPod("new", 1, ""), newPod("b", 2e9, ""), newPod("a", 2e9, ""), newPod("old", 3e9, ""), newPod("evicted", 1, "Evicted")}
	slices.SortFunc(pods, compareForDeletion)
	var got []string
	for _, p := range pods {
		got = append(got, p.Name)
	}
	if want := []string{"evicted", "old", "a", "b", "new"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}
