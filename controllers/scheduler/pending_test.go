package scheduler

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/scheduler/framework"
)

func named(name string, priority int32) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.Spec.Priority = "default", name, ptr.To(priority)
	return p
}

func TestBackoff(t *testing.T) {
	for attempts, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 99: 10 * time.Second} {
		if got := backoff(attempts); got != want {
			t.Errorf("after %d attempts, %v; want %v", attempts, got, want)
		}
	}
}

// TestHelped: which pods are tried again after a change, and when.
func TestHelped(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newPending()
	p.add(named("cpu", 0), []string{"NodeResourcesFit"}, now)
	p.add(named("taint", 5), []string{"TaintToleration", "NodeAffinity"}, now)
	p.add(named("none", 0), nil, now)
	step := func(event framework.Event, at time.Duration, want ...string) {
		t.Helper()
		var got []string
		for _, r := range p.helped(event, now.Add(at)) {
			got = append(got, r.key.Name+" "+r.after.String())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("after event %b, %q are tried again; want %q", event, got, want)
		}
	}
	step(framework.VolumeChanged, 0, "none 1s")
	step(framework.PodRemoved, 400*time.Millisecond, "cpu 600ms")
	step(framework.PodRemoved, 500*time.Millisecond)
	step(framework.NodeTaints, 3*time.Second, "taint 0s")
	if r, ok := p.popBackoff(); !ok || r.key.Name == "taint" {
		t.Errorf("the first of the back-off is %v, %v", r, ok)
	}
	p.popBackoff()
	if r, ok := p.popBackoff(); ok {
		t.Errorf("%v is still delayed", r)
	}
	p.add(named("cpu", 0), []string{"NodeResourcesFit"}, now)
	step(framework.NodeAllocatable, 0, "cpu 2s")
	p.remove(keyOf(named("cpu", 0)))
	p.add(named("cpu", 0), []string{"NodeResourcesFit"}, now)
	step(framework.NodeAdded, 0, "cpu 1s")
}

// TestErrorBackoff: the back-off after errors counts these only, grows over bindings that fail, and is not ended by a change.
func TestErrorBackoff(t *testing.T) {
	now := time.Unix(1000, 0)
	p, pod := newPending(), named("p", 0)
	p.add(pod, []string{"NodeResourcesFit"}, now)
	p.add(pod, []string{"NodeResourcesFit"}, now)
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		p.hold(keyOf(pod))
		if got := p.fail(pod, now); got != want {
			t.Errorf("the back-off is %v, want %v", got, want)
		}
	}
	if list := p.helped(framework.PodRemoved, now); len(list) > 0 {
		t.Errorf("%v are tried again early", list)
	}
	if r, ok := p.popBackoff(); ok {
		t.Errorf("the back-off of %v was ended", r)
	}
	p.add(pod, []string{"NodeResourcesFit"}, now)
	if got := p.fail(pod, now); got != time.Second {
		t.Errorf("after another attempt without an error, the back-off is %v", got)
	}
}
