package pods

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/pods/sandbox"
)

// TestFailingPostStart: a container waits with the error of its hook, and one that does not restart is Terminated. A sidecar that has
// succeeded is Terminated too while it waits, and the main containers do not start.
func TestFailingPostStart(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		code   int32
		want   [2]string // after the first and after the second run
	}{
		{"sidecar", func(p *corev1.Pod) { p.Spec.InitContainers[0].RestartPolicy = &always }, 143,
			[2]string{"waiting PostStartHookError 0", "waiting PostStartHookError 1"}},
		{"sidecar that succeeds", func(p *corev1.Pod) { p.Spec.InitContainers[0].RestartPolicy = &always }, 0,
			[2]string{"restarts", "terminated 0 1"}},
		{"container", func(p *corev1.Pod) { p.Spec.InitContainers = nil }, 0,
			[2]string{"waiting PostStartHookError 0", "waiting PostStartHookError 1"}},
		{"container that succeeds, OnFailure", func(p *corev1.Pod) { p.Spec.InitContainers = nil; p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }, 0,
			[2]string{"terminated 0 0", "terminated 0 0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pod(restarting(corev1.RestartPolicyAlways), tt.change)
			name := "c"
			if len(p.Spec.InitContainers) > 0 {
				name = "i"
			}
			given := provided
			given.executed = map[string]executor{name: commands}
			var runs []sandbox.Run
			at := now
			for number := range int32(2) {
				s := step{}
				for range 3 {
					given.runs = map[string][]sandbox.Run{name: runs}
					if s = next(p, given, &Options{}, at); s.status != nil {
						p.Status, given.delays = *s.status, s.delays
					}
					for _, k := range s.start {
						if k.container != name {
							t.Errorf("%s starts", k.container)
						}
						if k.number == int32(len(runs)) {
							runs = append(runs, sandbox.Run{Number: k.number, StartedAt: at, Starting: true})
						}
					}
				}
				at = at.Add(time.Second)
				if last := len(runs) - 1; runs[last].End == nil {
					runs[last].Starting, runs[last].End = false, &sandbox.End{At: at, ExitCode: tt.code, PostStart: "it failed"}
				}
				s = next(p, given, &Options{}, at)
				if got := "restarts"; len(s.start) > 0 {
					if got != tt.want[number] {
						t.Errorf("after run %d: %s, want %s", number, got, tt.want[number])
					}
					continue
				}
				if s.status != nil {
					p.Status, given.delays = *s.status, s.delays
				}
				if got := describeFirst(&p.Status, name); got != tt.want[number] {
					t.Errorf("after run %d: %s, want %s", number, got, tt.want[number])
				}
			}
		})
	}
}

// describeFirst describes the state of a container, and how often it has restarted.
func describeFirst(s *corev1.PodStatus, name string) string {
	c := find(allContainers(s), name)
	switch {
	case c.State.Waiting != nil:
		return fmt.Sprint("waiting ", c.State.Waiting.Reason, " ", c.RestartCount)
	case c.State.Terminated != nil:
		return fmt.Sprint("terminated ", c.State.Terminated.ExitCode, " ", c.RestartCount)
	}
	return fmt.Sprint("running ", c.RestartCount)
}

// TestRestartWithPostStart: a container that restarts keeps its status until its hook postStart has returned.
func TestRestartWithPostStart(t *testing.T) {
	type run struct {
		code   int32
		killed bool
	}
	for _, tt := range []struct {
		name   string
		before []run  // each after a second, and with a hook that returns at once
		during string // while the hook of the next run lasts
		after  string
	}{
		{"it has ended by itself", []run{{3, false}}, "terminated 3 0", "running 1"},
		{"it was in a back-off", []run{{3, false}, {4, false}}, "waiting CrashLoopBackOff 1", "running 2"},
		{"a probe has killed it", []run{{143, true}}, "running 0", "running 1"},
		{"a probe has killed it twice", []run{{143, true}, {137, true}}, "running 1", "running 2"},
	} {
		for _, deleted := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", deleted ", deleted), func(t *testing.T) {
				p := pod(restarting(corev1.RestartPolicyAlways), func(p *corev1.Pod) { p.Spec.InitContainers = nil })
				given := provided
				given.executed = map[string]executor{"c": commands}
				var runs []sandbox.Run
				at := now
				play := func(starting bool) {
					for range 4 {
						given.runs = map[string][]sandbox.Run{"c": runs}
						s := next(p, given, &Options{}, at)
						for _, k := range s.start {
							if k.number == int32(len(runs)) {
								runs = append(runs, sandbox.Run{Number: k.number, StartedAt: at, Starting: starting, Started: !starting, Ready: !starting})
							}
						}
						if s.status != nil && len(s.start) == 0 {
							p.Status = *s.status
						}
						given.delays = shownDelays(&p.Status, s.delays)
					}
				}
				for i, before := range tt.before {
					play(false)
					at = at.Add(time.Second)
					runs[i].End = &sandbox.End{At: at, ExitCode: before.code, Restarts: before.killed}
					if i < len(tt.before)-1 {
						continue
					}
					for play(true); len(runs) == len(tt.before) && at.Before(now.Add(time.Minute)); play(true) {
						at = at.Add(time.Second)
					}
				}
				check := func(when, want string) {
					t.Helper()
					if got := describeFirst(&p.Status, "c"); got != want {
						t.Errorf("%s: %s, want %s", when, got, want)
					}
				}
				check("while the hook lasts", tt.during)
				last := len(runs) - 1
				if !deleted {
					runs[last].Starting, runs[last].Started, runs[last].Ready = false, true, true
					play(false)
					check("when the hook has returned", tt.after)
					return
				}
				p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = new(metav1.NewTime(at.Add(30*time.Second))), new(int64(30)), []string{"x/y"}
				play(false)
				at = at.Add(time.Second)
				runs[last].Starting, runs[last].End = false, &sandbox.End{At: at, ExitCode: 137}
				play(false)
				check("after the end", fmt.Sprint("terminated 137 ", last))
				c := p.Status.ContainerStatuses[0]
				if end := c.LastTerminationState.Terminated; end == nil || end.ExitCode != tt.before[last-1].code {
					t.Errorf("the end before is %+v", end)
				}
			})
		}
	}
}

// TestSidecarRestartsWithPostStart: a sidecar that succeeds for the first time restarts at once. While its hook postStart lasts the sidecar is
// shown as Terminated, although it is in no back-off.
func TestSidecarRestartsWithPostStart(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	p := pod(restarting(corev1.RestartPolicyAlways), func(p *corev1.Pod) { p.Spec.InitContainers[0].RestartPolicy = &always })
	given := provided
	given.executed = map[string]executor{"i": commands}
	var events []containerEvent
	play := func(at time.Time, runs ...sandbox.Run) {
		given.runs = map[string][]sandbox.Run{"i": runs}
		s := next(p, given, &Options{}, at)
		if s.status != nil {
			events = append(events, backOffEvents(p, s.status, s.waits)...)
			p.Status, given.delays = *s.status, s.delays
		}
	}
	first, ended := sandbox.Run{StartedAt: now, Started: true, Ready: true}, now.Add(time.Second)
	play(now, first)
	first.Started, first.Ready, first.End = false, false, &sandbox.End{At: ended}
	play(ended, first, sandbox.Run{Number: 1, StartedAt: ended, Starting: true})
	if got := describeFirst(&p.Status, "i"); got != "terminated 0 0" || len(events) > 0 {
		t.Errorf("while the hook lasts: %s, %v", got, events)
	}
	second := sandbox.Run{Number: 1, StartedAt: ended, End: &sandbox.End{At: ended.Add(time.Second)}}
	play(ended.Add(time.Second), first, second)
	if got := describeFirst(&p.Status, "i"); got != "terminated 0 1" || len(events) != 1 {
		t.Errorf("after the second run: %s, %v", got, events)
	}
}
