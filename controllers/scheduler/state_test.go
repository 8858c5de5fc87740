package scheduler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/scheduler/framework"
)

// unbound returns a pod without a node, as an event has it.
func unbound(name string, priority int32, nominated string) *corev1.Pod {
	p := named(name, priority)
	p.UID, p.Spec.SchedulerName, p.Status.NominatedNodeName = types.UID(name), corev1.DefaultSchedulerName, nominated
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("3")}}}}
	return p
}

// oneNode returns a state with a node with 4 CPUs.
func oneNode(now time.Time) *state {
	s, n := newState(), &corev1.Node{}
	n.Name = "n"
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("9")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	s.updateNode(n, now)
	return s
}

// TestNoReadyNode: a new pod waits a moment for the first ready node before it is unschedulable, but not for a clock that was ahead.
func TestNoReadyNode(t *testing.T) {
	now := time.Unix(1000, 0)
	for age, want := range map[time.Duration]time.Duration{0: 2 * time.Second, time.Second: time.Second, 2 * time.Second: 0, -time.Hour: 0} {
		pod := unbound("p", 0, "")
		pod.CreationTimestamp = metav1.NewTime(now.Add(-age))
		s := newState()
		if d, left, _ := s.schedule(pod, now); left != want || d.Message != framework.NoNodes || (len(s.pending.pods) == 1) != (want == 0) {
			t.Errorf("age %v: waits for %v, pending %v: %s", age, left, s.pending.pods, d.Message)
		}
	}
}

// TestNominationWakes: the end of a nomination wakes the pod, and others of the same priority or a lower one.
func TestNominationWakes(t *testing.T) {
	now := time.Unix(1000, 0)
	s := oneNode(now)
	nominated := unbound("nominated", 5, "n")
	s.updatePod(nil, nominated, now)
	for name, priority := range map[string]int32{"low": 0, "equal": 5} {
		if d, _, _ := s.schedule(unbound(name, priority, ""), now); d.Node != "" {
			t.Fatalf("%s is on %s", name, d.Node)
		}
	}
	s.pending.add(unbound("high", 9, ""), []string{"NodeResourcesFit"}, now)
	s.pending.add(nominated, []string{"NodeResourcesFit"}, now)
	got := map[string]bool{}
	for _, r := range s.updatePod(nominated, unbound("nominated", 5, ""), now) {
		got[r.key.Name] = true
	}
	if len(got) != 3 || got["high"] {
		t.Errorf("%v are tried again", got)
	}
}

// TestNominationIsKept: an event from before a nomination does not end it.
func TestNominationIsKept(t *testing.T) {
	now := time.Unix(1000, 0)
	s := oneNode(now)
	was, pod := unbound("nominated", 5, ""), unbound("nominated", 5, "")
	pod.Labels = map[string]string{"a": "b"}
	s.updatePod(nil, was, now)
	s.snapshot.Nominate(was, "n")
	s.updatePod(was, pod, now)
	if d, _, _ := s.schedule(unbound("low", 0, ""), now); d.Node != "" {
		t.Error("a pod of a lower priority has the nominated node")
	}
}

// TestForgetPod: the room of a pod that is not bound is free for others, which are tried again.
func TestForgetPod(t *testing.T) {
	now := time.Unix(1000, 0)
	s := oneNode(now)
	assumed, waiting := unbound("assumed", 0, ""), unbound("waiting", 0, "")
	if d, _, _ := s.schedule(assumed, now); d.Node != "n" {
		t.Fatalf("the node is %q: %s", d.Node, d.Message)
	}
	if d, _, _ := s.schedule(waiting, now); d.Node != "" {
		t.Fatalf("two pods have the same room of %s", d.Node)
	}
	if list := s.forgetPod(assumed, now); len(list) != 1 || list[0].key.Name != "waiting" {
		t.Errorf("%v are tried again", list)
	}
	if d, _, _ := s.schedule(waiting, now); d.Node != "n" {
		t.Errorf("the node is %q: %s", d.Node, d.Message)
	}
	if list := s.forgetPod(assumed, now); len(list) != 0 {
		t.Errorf("another time, %v are tried again", list)
	}
}

// TestAssumedPodIsDeleted: a pod that is being deleted before it is bound leaves its room to others.
func TestAssumedPodIsDeleted(t *testing.T) {
	now := time.Unix(1000, 0)
	s := oneNode(now)
	assumed, deleted := unbound("assumed", 0, ""), unbound("assumed", 0, "")
	s.schedule(assumed, now)
	s.schedule(unbound("waiting", 0, ""), now)
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	if list := s.updatePod(assumed, deleted, now); len(list) != 1 || list[0].key.Name != "waiting" {
		t.Errorf("%v are tried again", list)
	}
}

// TestDismiss: an attempt that ends after the deletion of its pod leaves nothing behind.
func TestDismiss(t *testing.T) {
	now := time.Unix(1000, 0)
	s := oneNode(now)
	late, waiting := unbound("late", 5, "n"), unbound("waiting", 0, "")
	s.removePod(late, now)
	s.nominate(late, "n", now)
	s.pending.add(late, []string{"NodeResourcesFit"}, now)
	if d, _, _ := s.schedule(waiting, now); d.Node != "" {
		t.Fatal("the node is not reserved")
	}
	if list := s.dismiss(keyOf(late), now); len(list) != 1 || list[0].key.Name != "waiting" {
		t.Errorf("%v are tried again", list)
	}
	if d, _, _ := s.schedule(waiting, now); d.Node != "n" {
		t.Errorf("the node is %q: %s", d.Node, d.Message)
	}
}

// TestPreemptedIsKept: an event from before the deletion of a victim does not make a pod look for other victims.
func TestPreemptedIsKept(t *testing.T) {
	now := time.Unix(1000, 0)
	s := oneNode(now)
	victim, late := unbound("victim", 0, ""), unbound("victim", 0, "")
	victim.Spec.NodeName, late.Spec.NodeName = "n", "n"
	late.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
	s.updatePod(nil, victim, now)
	s.markPreempted(victim.UID)
	s.updatePod(victim, late, now)
	if d, _, _ := s.schedule(unbound("preemptor", 5, "n"), now); len(d.Victims) > 0 || !strings.HasSuffix(d.Message, "not eligible due to a terminating pod on the nominated node.") {
		t.Errorf("the victims are %v: %s", d.Victims, d.Message)
	}
}

// TestSharedHostPort: a host port of two pods is free when one of them has left, until the status of the other is updated.
func TestSharedHostPort(t *testing.T) {
	now := time.Unix(1000, 0)
	s := oneNode(now)
	onPort := func(name, node string) *corev1.Pod {
		p := unbound(name, 0, "")
		p.Spec.NodeName, p.Spec.Containers = node, []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 80}}}}
		return p
	}
	stays, running := onPort("stays", "n"), onPort("stays", "n")
	running.Status.Phase = corev1.PodRunning
	s.updatePod(nil, stays, now)
	s.updatePod(nil, onPort("leaves", "n"), now)
	s.removePod(onPort("leaves", "n"), now)
	if e := s.snapshot.Explain(onPort("next", "")); len(e.Rejected) > 0 {
		t.Errorf("after one has left: %v", e.Rejected)
	}
	s.updatePod(stays, running, now)
	if e := s.snapshot.Explain(onPort("next", "")); len(e.Rejected) == 0 {
		t.Error("after an update of the other, the port is free")
	}
}
