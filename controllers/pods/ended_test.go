package pods

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/sandbox"
)

// withEveryKind adds an init container i, the sidecars s and t, the main containers a and b and the ephemeral container e.
func withEveryKind(p *corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i"}, {Name: "s", Image: "s", RestartPolicy: &always},
		{Name: "t", Image: "t", RestartPolicy: &always}}
	p.Spec.Containers = []corev1.Container{{Name: "a", Image: "a"}, {Name: "b", Image: "b"}}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "e"}}}
}

// exits is a script in which containers end after 5 s, except with a time of their own: a=1 or a=1@3s.
func exits(list string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		var all []string
		for _, text := range strings.Fields(list) {
			name, end, _ := strings.Cut(text, "=")
			code, after, ok := strings.Cut(end, "@")
			if !ok {
				after = "5s"
			}
			all = append(all, fmt.Sprintf("{name: %s, runs: [{steps: [{after: %s, exit: {code: %s}}]}]}", name, after, code))
		}
		scripted("containers: [" + strings.Join(all, ", ") + "]")(p)
	}
}

func scripted(text string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[ScriptAnnotation] = text
	}
}

// describeStatus returns the phase, the reason and the containers of a pod. A container that has started or is ready has a +
// for each, and a container with an earlier end has the exit code of that.
func describeStatus(s *corev1.PodStatus) string {
	text := []string{strings.TrimSpace(string(s.Phase) + " " + s.Reason)}
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for _, c := range list {
			state := "running"
			switch {
			case c.State.Terminated != nil:
				state = fmt.Sprint(c.State.Terminated.Reason, " ", c.State.Terminated.ExitCode)
			case c.State.Waiting != nil:
				state = c.State.Waiting.Reason
			}
			if c.Started != nil && *c.Started {
				state += "+"
			}
			if c.Ready {
				state += "+"
			}
			if last := c.LastTerminationState.Terminated; last != nil {
				state += fmt.Sprintf(" (%d)", last.ExitCode)
			}
			text = append(text, c.Name+": "+state)
		}
	}
	return strings.Join(text, ", ")
}

// advance executes the steps of a pod until a time, and returns the time after the last one.
func advance(t *testing.T, p *corev1.Pod, from, until time.Time) time.Time {
	t.Helper()
	for range 100 {
		given := provided
		given.script, _ = scriptOf(p)
		s := next(p, given, &Options{}, from)
		if s.status != nil {
			if err := follows(&p.Status, s.status); err != nil {
				t.Fatal(err)
			}
			p.Status = *s.status
			continue
		}
		if s.after == 0 || from.Add(s.after).After(until) {
			return from
		}
		from = from.Add(s.after)
	}
	t.Fatal("the steps do not end")
	return from
}

// TestEndedPods has the statuses of all kinds of containers after each end of a pod. They are the statuses that kubelet
// writes: nothing runs in a pod that has ended.
func TestEndedPods(t *testing.T) {
	never, onFailure := restarting(corev1.RestartPolicyNever), restarting(corev1.RestartPolicyOnFailure)
	always := restarting(corev1.RestartPolicyAlways)
	deleted := func(p *corev1.Pod) {
		terminating(30)(p)
		finalizer(p)
		p.DeletionTimestamp = &metav1.Time{Time: now.Add(40 * time.Second)}
	}
	deadline := func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(20)) }
	pending := map[string]bool{ // until they are deleted
		"deletion, while an image is missing": true, "deletion, during the initialization": true, "deletion, before the initialization": true,
	}
	for _, tt := range []struct {
		name    string
		change  []func(*corev1.Pod)
		deleted bool // after 10 s
		want    string
	}{
		{"none ends", []func(*corev1.Pod){always}, false,
			"Running, i: Completed 0+, s: running++, t: running++, a: running++, b: running++, e: running"},
		{"all succeed, Never", []func(*corev1.Pod){never, exits("a=0 b=0")}, false,
			"Succeeded, i: Completed 0+, s: Error 143, t: Error 143, a: Completed 0, b: Completed 0, e: Error 143"},
		{"all succeed, OnFailure", []func(*corev1.Pod){onFailure, exits("a=0 b=0@2s")}, false,
			"Succeeded, i: Completed 0+, s: Error 143, t: Error 143, a: Completed 0, b: Completed 0, e: Error 143"},
		{"one succeeds", []func(*corev1.Pod){never, exits("a=0")}, false,
			"Running, i: Completed 0+, s: running++, t: running++, a: Completed 0, b: running++, e: running"},
		{"one fails, Never", []func(*corev1.Pod){never, exits("a=0 b=3")}, false,
			"Failed, i: Completed 0+, s: Error 143, t: Error 143, a: Completed 0, b: Error 3, e: Error 143"},
		{"one fails, OnFailure", []func(*corev1.Pod){onFailure, exits("a=0 b=3")}, false,
			"Running, i: Completed 0+, s: running++, t: running++, a: Completed 0, b: CrashLoopBackOff (3), e: running"},
		{"all fail, Always", []func(*corev1.Pod){always, exits("a=3 b=3")}, false,
			"Running, i: Completed 0+, s: running++, t: running++, a: CrashLoopBackOff (3), b: CrashLoopBackOff (3), e: running"},
		{"outcome Succeeded", []func(*corev1.Pod){never, withAnnotations(Succeeded, "5s", "")}, false,
			"Succeeded, i: Completed 0+, s: Error 143, t: Error 143, a: Completed 0, b: Completed 0, e: Error 143"},
		{"outcome Failed", []func(*corev1.Pod){never, withAnnotations(Failed, "5s", "")}, false,
			"Failed, i: Completed 0+, s: Error 143, t: Error 143, a: Error 1, b: Error 1, e: Error 143"},
		{"of a Job, at once", []func(*corev1.Pod){never, ofJob}, false,
			"Succeeded, i: Completed 0+, s: Error 143, t: Error 143, a: Completed 0, b: Completed 0, e: PodInitializing"},
		{"an init container fails before the sidecars", []func(*corev1.Pod){never, exits("i=2")}, false,
			"Failed, i: Error 2, s: PodInitializing, t: PodInitializing, a: PodInitializing, b: PodInitializing, e: Error 143"},
		{"an init container fails after the sidecars", []func(*corev1.Pod){never, exits("j=2"), func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "j", Image: "j"})
		}}, false,
			"Failed, i: Completed 0+, s: Error 143, t: Error 143, j: Error 2, a: PodInitializing, b: PodInitializing, e: Error 143"},
		{"a sidecar waits for its restart", []func(*corev1.Pod){never, exits("s=7@1s a=0 b=0@4s")}, false,
			"Succeeded, i: Completed 0+, s: ContainerStatusUnknown 137 (7), t: Error 143, a: Completed 0, b: Completed 0, e: Error 143"},
		{"a sidecar that has succeeded waits for its restart", []func(*corev1.Pod){never, exits("s=0@1s a=0 b=0@4s")}, false,
			"Succeeded, i: Completed 0+, s: Completed 0 (0), t: Error 143, a: Completed 0, b: Completed 0, e: Error 143"},
		{"a sidecar has succeeded, and the others run", []func(*corev1.Pod){never, exits("s=0@50s")}, false,
			"Running, i: Completed 0+, s: running++ (0), t: running++, a: running++, b: running++, e: running"},
		{"a sidecar succeeds again and again", []func(*corev1.Pod){never, exits("s=0@27s")}, false,
			"Running, i: Completed 0+, s: Completed 0 (0), t: running++, a: running++, b: running++, e: running"},
		{"an ephemeral container waits for its image", []func(*corev1.Pod){never, exits("a=0 b=0"), func(p *corev1.Pod) {
			p.Spec.EphemeralContainers[0].Image = "e:404"
		}}, false,
			"Succeeded, i: Completed 0+, s: Error 143, t: Error 143, a: Completed 0, b: Completed 0, e: ImagePullBackOff"},
		{"the sidecars and the ephemeral container stop slowly, one sidecar too slowly", []func(*corev1.Pod){never, scripted(`containers:
- {name: a, runs: [{steps: [{after: 1s, exit: {}}]}]}
- {name: b, runs: [{steps: [{after: 2s, exit: {}}]}]}
- {name: s, stop: {after: 25s}}
- {name: t, stop: {after: 10s, code: 4}}
- {name: e, stop: {after: 3s, code: 5}}`)}, false,
			"Succeeded, i: Completed 0+, s: Error 137, t: Error 4, a: Completed 0, b: Completed 0, e: Error 5"},
		{"deletion", []func(*corev1.Pod){always}, true,
			"Failed, i: Completed 0+, s: Error 143, t: Error 143, a: Error 143, b: Error 143, e: Error 143"},
		{"deletion, and they end well", []func(*corev1.Pod){always, scripted("containers: [{stop: {after: 1s}}, {name: s, stop: {after: 2s}}]")}, true,
			"Succeeded, i: Completed 0+, s: Completed 0, t: Error 143, a: Completed 0, b: Completed 0, e: Error 143"},
		{"deletion, and a sidecar has its turn at the end of the grace period", []func(*corev1.Pod){always,
			scripted("containers: [{name: a, stop: {after: 60s}}, {name: t, stop: {after: 1s}}, {name: s, stop: {after: 3s}}]")}, true,
			"Failed, i: Completed 0+, s: Error 137, t: Completed 0, a: Error 137, b: Error 143, e: Error 143"},
		{"deletion, while some wait for their restart", []func(*corev1.Pod){always, exits("s=7@1s a=3@1s")}, true,
			"Failed, i: Completed 0+, s: Error 7, t: Error 143, a: Error 3, b: Error 143, e: Error 143"},
		{"deletion, while an image is missing", []func(*corev1.Pod){always, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "a:404" }}, true,
			"Failed, i: Completed 0+, s: Error 143, t: Error 143, a: ContainerStatusUnknown 137, b: Error 143, e: Error 143"},
		{"deletion, during the initialization", []func(*corev1.Pod){always, exits("i=0@1m")}, true,
			"Failed, i: Error 143, s: PodInitializing, t: PodInitializing, a: PodInitializing, b: PodInitializing, e: Error 143"},
		{"deletion, before the initialization", []func(*corev1.Pod){always, initImage("i:404")}, true,
			"Failed, i: ContainerStatusUnknown 137, s: PodInitializing, t: PodInitializing, a: PodInitializing, b: PodInitializing, e: Error 143"},
		{"deletion, during the initialization of a pod that is not restarted", []func(*corev1.Pod){never, exits("i=0@1m")}, true,
			"Failed, i: Error 143, s: PodInitializing, t: PodInitializing, a: PodInitializing, b: PodInitializing, e: Error 143"},
		{"eviction", []func(*corev1.Pod){always, scripted("evict: {after: 10s}")}, false,
			"Failed Evicted, i: Completed 0+, s: Error 143, t: Error 143, a: Error 143, b: Error 143, e: Error 143"},
		{"deadline", []func(*corev1.Pod){always, deadline}, false,
			"Failed DeadlineExceeded, i: Completed 0+, s: Error 143, t: Error 143, a: Error 143, b: Error 143, e: Error 143"},
		{"deadline, while some wait for their restart", []func(*corev1.Pod){always, deadline, exits("s=7@8s a=3@8s")}, false,
			"Failed DeadlineExceeded, i: Completed 0+, s: ContainerStatusUnknown 137 (7), t: Error 143, a: ContainerStatusUnknown 137 (3), b: Error 143, e: Error 143"},
		{"deadline, after all have succeeded", []func(*corev1.Pod){never, deadline, exits("a=0 b=0")}, false,
			"Succeeded, i: Completed 0+, s: Error 143, t: Error 143, a: Completed 0, b: Completed 0, e: Error 143"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pod(append([]func(*corev1.Pod){withEveryKind}, tt.change...)...)
			if tt.deleted {
				advance(t, p, now, now.Add(10*time.Second))
				deleted(p)
				advance(t, p, now.Add(10*time.Second), now.Add(time.Hour))
			} else {
				advance(t, p, now, now.Add(time.Minute))
			}
			if d := cmp.Diff(tt.want, describeStatus(&p.Status)); d != "" {
				t.Error(d)
			}
			reason := map[corev1.PodPhase]string{corev1.PodSucceeded: "PodCompleted", corev1.PodFailed: "PodFailed"}[p.Status.Phase]
			if pending[tt.name] {
				reason = "ContainersNotReady"
			}
			for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
				if c := podstate.Condition(p, kind); podstate.Finished(p) && (c.Status != corev1.ConditionFalse || c.Reason != reason) {
					t.Errorf("%s: %+v, want %s", kind, c, reason)
				}
			}
		})
	}
}

// TestEndedPodsNoticedLate: while the controller is away, containers end at their times, and nothing restarts afterwards.
func TestEndedPodsNoticedLate(t *testing.T) {
	never := restarting(corev1.RestartPolicyNever)
	for _, tt := range []struct {
		name   string
		change []func(*corev1.Pod)
		want   string
	}{
		{"an ephemeral container ends before the others", []func(*corev1.Pod){never, exits("e=0@2s a=0@5s b=0@5s")},
			"Succeeded, i: Completed 0+, s: Error 143, t: Error 143, a: Completed 0, b: Completed 0, e: Completed 0"},
		{"a sidecar ends before the others", []func(*corev1.Pod){never, exits("s=7@2s a=0@5s b=0@5s")},
			"Succeeded, i: Completed 0+, s: Error 7, t: Error 143, a: Completed 0, b: Completed 0, e: Error 143"},
		{"a sidecar and an ephemeral container end after the others", []func(*corev1.Pod){never, exits("s=7@8s e=4@8s a=0@5s b=0@5s")},
			"Succeeded, i: Completed 0+, s: Error 143, t: Error 143, a: Completed 0, b: Completed 0, e: Error 143"},
		{"a main container ends before the deadline", []func(*corev1.Pod){never, exits("a=0@2s"), func(p *corev1.Pod) {
			p.Spec.ActiveDeadlineSeconds = new(int64(20))
		}}, "Failed DeadlineExceeded, i: Completed 0+, s: Error 143, t: Error 143, a: Completed 0, b: Error 143, e: Error 143"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pod(append([]func(*corev1.Pod){withEveryKind}, tt.change...)...)
			advance(t, p, now, now.Add(time.Second))
			advance(t, p, now.Add(time.Minute), now.Add(time.Hour))
			if d := cmp.Diff(tt.want, describeStatus(&p.Status)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestDeletedWhileSidecarsStop: the deletion of a pod with sidecars that stop already does not start their stop anew.
func TestDeletedWhileSidecarsStop(t *testing.T) {
	p := pod(withEveryKind, restarting(corev1.RestartPolicyNever), scripted(`containers:
- {name: a, runs: [{steps: [{after: 1s, exit: {}}]}]}
- {name: b, runs: [{steps: [{after: 2s, exit: {}}]}]}
- {name: s, stop: {after: 20s}}`))
	advance(t, p, now, now.Add(10*time.Second))
	terminating(30)(p)
	finalizer(p)
	p.DeletionTimestamp = &metav1.Time{Time: now.Add(40 * time.Second)}
	advance(t, p, now.Add(10*time.Second), now.Add(time.Hour))
	end := find(p.Status.InitContainerStatuses, "s").State.Terminated
	if end == nil || end.ExitCode != 0 || !end.FinishedAt.Time.Equal(now.Add(22*time.Second)) {
		t.Errorf("%s: %+v", describeStatus(&p.Status), end)
	}
}

// TestDeletedWhileItEnds: the deletion of a pod that ends already does not start its stop anew, and the reason stays.
func TestDeletedWhileItEnds(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		deadline     *int64
		deleted      time.Duration
		grace        int64
		end          time.Duration
		code         int32
		want         string
	}{
		{"eviction", "evict: {after: 10s}\ncontainers: [{name: c, stop: {after: 1900ms}}]", nil, 10500 * time.Millisecond, 30,
			11 * time.Second, 0, "Failed Evicted, i: Completed 0+, c: Completed 0"},
		{"deadline", "containers: [{name: c, stop: {after: 20s}}]", new(int64(20)), 30 * time.Second, 60,
			40 * time.Second, 0, "Failed DeadlineExceeded, i: Completed 0+, c: Completed 0"},
		{"deadline, and a short deletion", "containers: [{name: c, stop: {after: 20s}}]", new(int64(20)), 30 * time.Second, 5,
			35 * time.Second, 137, "Failed DeadlineExceeded, i: Completed 0+, c: Error 137"},
	} {
		p := pod(restarting(corev1.RestartPolicyAlways), scripted(tt.script))
		p.Spec.ActiveDeadlineSeconds = tt.deadline
		advance(t, p, now, now.Add(tt.deleted))
		terminating(tt.grace)(p)
		finalizer(p)
		p.DeletionTimestamp = &metav1.Time{Time: now.Add(tt.deleted + time.Duration(tt.grace)*time.Second)}
		advance(t, p, now.Add(tt.deleted), now.Add(time.Hour))
		if d := cmp.Diff(tt.want, describeStatus(&p.Status)); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
		if end := p.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != tt.code || !end.FinishedAt.Time.Equal(now.Add(tt.end)) {
			t.Errorf("%s: %+v", tt.name, end)
		}
	}
}

// TestEvictionHasNoGracePeriod: an evicted container has the two seconds that kubelet leaves in any case, as after a hard eviction.
func TestEvictionHasNoGracePeriod(t *testing.T) {
	p := pod(restarting(corev1.RestartPolicyAlways), scripted("evict: {after: 10s}\ncontainers: [{name: c, stop: {after: 20s}}]"))
	advance(t, p, now, now.Add(time.Hour))
	if end := p.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != exitKilled || !end.FinishedAt.Time.Equal(now.Add(12*time.Second)) {
		t.Errorf("%s: %+v", describeStatus(&p.Status), end)
	}
}

// TestEndDuringPostStart: a pod is final when the process of a sidecar that waits for its hook postStart has ended.
func TestEndDuringPostStart(t *testing.T) {
	p := pod(withEveryKind, restarting(corev1.RestartPolicyNever), exits("a=0 b=0"))
	advance(t, p, now, now.Add(time.Second))
	given := provided
	given.executed = map[string]executor{"s": commands}
	given.script, _ = scriptOf(p)
	s := &p.Status.InitContainerStatuses[1]
	s.RestartCount, s.Ready, s.Started, s.LastTerminationState.Terminated = 1, false, new(bool), &corev1.ContainerStateTerminated{ExitCode: 7}
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	runs := []sandbox.Run{{Number: 1, StartedAt: now.Add(time.Second), Starting: true}}
	given.runs = map[string][]sandbox.Run{"s": runs}
	var killing []string
	play := func(at time.Time) {
		for range 3 {
			s := next(p, given, &Options{}, at)
			killing = append(killing, s.killing...)
			if s.status != nil {
				p.Status = *s.status
			}
		}
	}
	play(now.Add(6 * time.Second))
	if podstate.Finished(p) || !slices.Contains(killing, "s") {
		t.Errorf("before the end of the process: %s, stopped: %v", describeStatus(&p.Status), killing)
	}
	runs[0].Starting, runs[0].End = false, &sandbox.End{At: now.Add(8 * time.Second), ExitCode: 137}
	play(now.Add(8 * time.Second))
	want := "Succeeded, i: Completed 0+, s: Error 137 (7), t: Error 143, a: Completed 0, b: Completed 0, e: Error 143"
	if d := cmp.Diff(want, describeStatus(&p.Status)); d != "" {
		t.Error(d)
	}
}

// TestRestartDuringAStop: a restart of the controller, which forgets when a stop began, does not make the stop of a resized container
// longer. The stop of a container with another image begins anew.
func TestRestartDuringAStop(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(c *corev1.Container)
		ends   time.Duration
	}{
		"a resize":      {func(c *corev1.Container) { c.Resources.Requests = cpu("2") }, 20 * time.Second},
		"another image": {func(c *corev1.Container) { c.Image = "other:1" }, 35 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(scripted("containers: [{name: c, stop: {after: 20s, code: 3}}]"), func(p *corev1.Pod) {
				p.Spec.InitContainers = nil
				p.Spec.Containers[0].Resources.Requests = cpu("1")
				p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
			})
			given := provided
			given.script, _ = scriptOf(p)
			settle := func(after time.Duration) {
				for {
					s := next(p, given, &Options{}, now.Add(after))
					for _, c := range s.changes {
						given.stopping = with(given.stopping, c.container, moment{c.number, c.since})
					}
					if s.status == nil {
						return
					}
					p.Status = *s.status
				}
			}
			settle(-time.Minute)
			tt.change(&p.Spec.Containers[0])
			settle(0)
			given.stopping = nil // the controller restarts
			settle(15 * time.Second)
			settle(tt.ends - time.Second)
			if s := p.Status.ContainerStatuses[0]; s.RestartCount != 0 {
				t.Errorf("%s after the change: %+v", tt.ends-time.Second, s)
			}
			settle(tt.ends)
			if s := p.Status.ContainerStatuses[0]; s.RestartCount != 1 {
				t.Errorf("%s after the change: %+v", tt.ends, s)
			}
		})
	}
}

// cpu returns an amount of CPU.
func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}
