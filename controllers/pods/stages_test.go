package pods

import (
	"net/netip"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/podstate"
)

var now = time.Unix(1_000_000, 0)

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", Generation: 1},
		Spec: corev1.PodSpec{
			SchedulerName:  corev1.DefaultSchedulerName,
			InitContainers: []corev1.Container{{Name: "i", Image: "i"}},
			Containers:     []corev1.Container{{Name: "c", Image: "c"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func outcome(o string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{OutcomeAnnotation: o} }
}

func going(grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now}, &grace
	}
}

// reported is the pod after its status was written at a time.
func reported(up bool, at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status = statusOf(p, up, "10.244.0.1", at) }
}

func TestNext(t *testing.T) {
	slow := Options{Delay: 10 * time.Second}
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		o     Options
		do    action
		after time.Duration
	}{
		{name: "new", pod: pod(), do: bind},
		{name: "gated", pod: pod(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })},
		{name: "another scheduler's", pod: pod(func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })},
		{name: "another node's", pod: pod(on("other"))},
		{name: "bound", pod: pod(on(NodeName)), do: report},
		{name: "ready", pod: pod(on(NodeName), reported(true, now))},
		{name: "somebody has changed its status", pod: pod(on(NodeName), reported(true, now), func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }), do: report},
		{name: "bound, and slow", pod: pod(on(NodeName)), o: slow, do: report, after: 10 * time.Second},
		{name: "starting", pod: pod(on(NodeName), reported(false, now.Add(-4*time.Second))), o: slow, after: 6 * time.Second},
		{name: "started", pod: pod(on(NodeName), reported(false, now.Add(-10*time.Second))), o: slow, do: report},
		{name: "ended", pod: pod(on(NodeName), outcome(Succeeded), reported(true, now))},
		{name: "going", pod: pod(on(NodeName), reported(true, now), going(30)), do: remove},
		{name: "going before it was bound", pod: pod(going(30)), do: remove},
		{name: "going, and its grace is over", pod: pod(on(NodeName), going(0))},
		{name: "going on another node", pod: pod(on("other"), going(30))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			do, after := next(tt.pod, tt.o, now)
			if do != tt.do || after != tt.after {
				t.Errorf("do %d after %s, want %d after %s", do, after, tt.do, tt.after)
			}
		})
	}
}

func TestStatusOf(t *testing.T) {
	gated := func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "g"}} }
	for _, tt := range []struct {
		name       string
		pod        *corev1.Pod
		up         bool
		phase      corev1.PodPhase
		containers bool // ready
		ready      bool
	}{
		{"starting", pod(), false, corev1.PodPending, false, false},
		{"up", pod(), true, corev1.PodRunning, true, true},
		{"never ready", pod(outcome(NeverReady)), true, corev1.PodRunning, false, false},
		{"succeeded", pod(outcome(Succeeded)), true, corev1.PodSucceeded, false, false},
		{"failed", pod(outcome(Failed)), true, corev1.PodFailed, false, false},
		{"gate closed", pod(gated), true, corev1.PodRunning, true, false},
		{"gate open", pod(gated, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: "g", Status: corev1.ConditionTrue}}
		}), true, corev1.PodRunning, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := statusOf(tt.pod, tt.up, "10.244.0.1", now)
			if s.Phase != tt.phase || s.ContainerStatuses[0].Ready != tt.containers || podstate.Ready(&corev1.Pod{Status: s}) != tt.ready {
				t.Errorf("got %+v", s)
			}
			if len(tt.pod.Status.ContainerStatuses) > 0 {
				t.Error("the pod itself was changed")
			}
		})
	}
}

func TestJitterIsThePodsOwn(t *testing.T) {
	o := Options{Jitter: time.Minute}
	seen := map[time.Duration]bool{}
	for i := range 20 {
		p := pod(func(p *corev1.Pod) { p.UID = types.UID(strconv.Itoa(i)) })
		_, a := hasStarted(p, o, now)
		_, b := hasStarted(p, o, now)
		if a != b || a < 0 || a >= time.Minute {
			t.Errorf("delays %s and %s", a, b)
		}
		seen[a] = true
	}
	if len(seen) < 15 {
		t.Errorf("only %d different delays", len(seen))
	}
}

func TestAddresses(t *testing.T) {
	key := func(n string) types.NamespacedName { return types.NamespacedName{Name: n} }
	a := newAddresses(netip.MustParsePrefix("10.0.0.0/30"))
	a.keep(key("old"), "10.0.0.2")
	give := func(n string) string {
		t.Helper()
		ip, err := a.give(key(n))
		if err != nil {
			return "none"
		}
		return ip
	}
	for _, step := range []struct{ pod, want string }{
		{"old", "10.0.0.2"}, {"x", "10.0.0.1"}, {"x", "10.0.0.1"}, {"y", "10.0.0.3"}, {"z", "none"},
	} {
		if got := give(step.pod); got != step.want {
			t.Errorf("%s has %s, want %s", step.pod, got, step.want)
		}
	}
	a.free(key("x"))
	if got := give("z"); got != "10.0.0.1" {
		t.Errorf("z has %s after x was freed", got)
	}
}
