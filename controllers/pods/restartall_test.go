package pods

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/sandbox"
)

// restartingAll restarts all containers after the exit code 7 of a container.
func restartingAll(container string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := podstate.Container(&p.Spec, container)
		c.RestartPolicy = new(corev1.ContainerRestartPolicyNever)
		codes := func(of ...int32) *corev1.ContainerRestartRuleOnExitCodes {
			return &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: of}
		}
		c.RestartPolicyRules = []corev1.ContainerRestartRule{
			{Action: corev1.ContainerRestartRuleActionRestartAllContainers, ExitCodes: codes(7)},
			{Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: codes(7, 8)},
		}
	}
}

// restartingAllCondition describes the condition of a restart of all containers.
func restartingAllCondition(p *corev1.Pod) string {
	c := condition(&p.Status, corev1.AllContainersRestarting)
	return strings.TrimSpace(fmt.Sprint(c.Status, " ", c.Reason))
}

// TestRestartAllContainers follows a pod in which a container demands the restart of all: the others are killed, and the init
// containers run again.
func TestRestartAllContainers(t *testing.T) {
	type state struct {
		at   time.Duration
		want string
	}
	for _, tt := range []struct {
		name, script string
		change       func(*corev1.Pod)
		want         []state
	}{
		{"a main container", "containers: [{name: a, runs: [{steps: [{after: 5s, exit: {code: 7}}]}, {}]}, {name: i, runs: [{steps: [{after: 1s, exit: {}}]}]}, {name: b, stop: {after: 20s}}]",
			restartingAll("a"), []state{
				{1 * time.Second, "False: Running, i: Completed 0+, s: running++, t: running++, a: running++, b: running++, e: running"},
				{6 * time.Second, "True RestartAllContainersStarted: Running, i: Completed 0+, s: running++, t: running++, a: Error 7, b: running++, e: running"},
				{8 * time.Second, "False: Running, i: RestartingAllContainers (137), s: RestartingAllContainers (137), t: RestartingAllContainers (137), a: RestartingAllContainers (137), b: RestartingAllContainers (137), e: running"},
				{9 * time.Second, "False: Pending, i: running+ (137), s: PodInitializing (137), t: PodInitializing (137), a: PodInitializing (137), b: PodInitializing (137), e: running"},
				{10 * time.Second, "False: Running, i: Completed 0+ (137), s: running++ (137), t: running++ (137), a: running++ (137), b: running++ (137), e: running"},
			}},
		{"a sidecar of a pod that has completed", "containers: [{name: a, runs: [{steps: [{after: 5s, exit: {}}]}]}, {name: b, runs: [{steps: [{after: 5s, exit: {}}]}]}, {name: t, stop: {after: 1s, code: 7}}, {name: s, stop: {after: 5s, code: 0}}]",
			func(p *corev1.Pod) {
				restartingAll("t")(p)
				podstate.Container(&p.Spec, "t").RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}, []state{
				{6 * time.Second, "False: Running, i: Completed 0+, s: running++, t: Error 7, a: Completed 0, b: Completed 0, e: Error 143"},
				{time.Minute, "False PodCompleted: Succeeded, i: Completed 0+, s: Completed 0, t: Error 7, a: Completed 0, b: Completed 0, e: Error 143"},
			}},
		{"an init container", "containers: [{name: i, runs: [{steps: [{after: 1s, exit: {code: 7}}]}, {steps: [{after: 1s, exit: {}}]}]}]",
			restartingAll("i"), []state{
				{1 * time.Second, "False: Pending, i: RestartingAllContainers (137), s: PodInitializing, t: PodInitializing, a: PodInitializing, b: PodInitializing, e: running"},
				{2 * time.Second, "False: Pending, i: running+ (137), s: PodInitializing, t: PodInitializing, a: PodInitializing, b: PodInitializing, e: running"},
				{3 * time.Second, "False: Running, i: Completed 0+ (137), s: running++, t: running++, a: running++, b: running++, e: running"},
			}},
		{"another code restarts the container alone", "containers: [{name: a, runs: [{steps: [{after: 5s, exit: {code: 8}}]}, {}]}]",
			restartingAll("a"), []state{
				{5 * time.Second, "False: Running, i: Completed 0+, s: running++, t: running++, a: running++ (8), b: running++, e: running"},
			}},
		{"the end of the pod", "containers: [{name: a, runs: [{steps: [{after: 5s, exit: {code: 9}}]}]}, {name: b, runs: [{steps: [{after: 5s, exit: {}}]}]}]",
			restartingAll("a"), []state{
				{5 * time.Second, "False PodFailed: Failed, i: Completed 0+, s: Error 143, t: Error 143, a: Error 9, b: Completed 0, e: Error 143"},
			}},
		{"no rule", "{}", func(*corev1.Pod) {}, []state{
			{time.Second, ": Running, i: Completed 0+, s: running++, t: running++, a: running++, b: running++, e: running"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pod(withEveryKind, restarting(corev1.RestartPolicyNever), tt.change, scripted(tt.script))
			given := provided
			given.script, _ = scriptOf(p)
			at := now
			for _, m := range tt.want {
				for {
					s := next(p, given, &Options{}, at)
					for _, c := range s.changes {
						given.stopping = with(given.stopping, c.container, moment{c.number, c.since})
					}
					if s.status != nil {
						p.Status = *s.status
						continue
					}
					if s.after == 0 || at.Add(s.after).After(now.Add(m.at)) {
						break
					}
					at = at.Add(s.after)
				}
				if d := cmp.Diff(m.want, restartingAllCondition(p)+": "+describeStatus(&p.Status)); d != "" {
					t.Errorf("after %s: %s", m.at, d)
				}
			}
		})
	}
}

// TestRestartAllTakesTime: a container that ends at once and demands the restart of all runs once in a second.
func TestRestartAllTakesTime(t *testing.T) {
	for _, name := range []string{"i", "a"} {
		t.Run(name, func(t *testing.T) {
			p := pod(withEveryKind, restarting(corev1.RestartPolicyNever), restartingAll(name),
				scripted(fmt.Sprintf("containers: [{name: %s, runs: [{steps: [{exit: {code: 7}}]}]}]", name)))
			given := provided
			given.script, _ = scriptOf(p)
			at := now
			for written := 0; at.Before(now.Add(10 * time.Second)); {
				s := next(p, given, &Options{}, at)
				if s.status == nil {
					at, written = at.Add(s.after), 0
					continue
				}
				if p.Status = *s.status; written > 20 {
					t.Fatalf("after %s: %d statuses at one time, the last one: %s", at.Sub(now), written, describeStatus(&p.Status))
				}
				written++
			}
			for spec, status := range statusesOf(p, &p.Status) {
				if spec.Name == name && (status.RestartCount < 9 || status.RestartCount > 10) {
					t.Errorf("%d restarts in 10 s", status.RestartCount)
				}
			}
		})
	}
}

// TestRestartAllProcesses: the processes of the other containers are killed without a grace period, and all start again in the next
// run, without a back-off.
func TestRestartAllProcesses(t *testing.T) {
	p := pod(withEveryKind, restarting(corev1.RestartPolicyNever), restartingAll("a"))
	given := provided
	given.executed = map[string]executor{"a": commands, "b": commands}
	given.runs = map[string][]sandbox.Run{}
	step := func(at time.Time) step {
		t.Helper()
		s := next(p, given, &Options{}, at)
		for _, k := range s.start {
			given.runs[k.container] = append(given.runs[k.container], sandbox.Run{Number: k.number, StartedAt: at, Started: true, Ready: true})
		}
		if s.status != nil {
			p.Status = *s.status
		}
		return s
	}
	for range 3 {
		step(now)
	}
	end := func(container string, at time.Time, code int32) {
		given.runs[container][len(given.runs[container])-1].End = &sandbox.End{At: at, ExitCode: code}
	}
	end("a", now.Add(time.Second), 7)
	step(now.Add(time.Second))
	s := step(now.Add(time.Second))
	if len(s.stop) != 1 || s.stop[0] != (runKey{"b", 0}) || !s.noGrace {
		t.Errorf("stopped: %+v", s)
	}
	end("b", now.Add(2*time.Second), 137)
	for _, at := range []int{2, 2, 2, 3, 3, 3, 3} {
		s = step(now.Add(time.Duration(at) * time.Second))
	}
	for _, name := range []string{"a", "b"} {
		status := find(p.Status.ContainerStatuses, name)
		last := status.LastTerminationState.Terminated
		if status.State.Running == nil || status.RestartCount != 1 || len(given.runs[name]) != 2 || last == nil || last.ExitCode != 137 || last.Reason != "RestartingAllContainers" {
			t.Errorf("%s: %+v", name, status)
		}
	}
	end("a", now.Add(4*time.Second), 8) // the first crash afterwards has no back-off
	step(now.Add(4 * time.Second))
	if got := find(p.Status.ContainerStatuses, "a"); got.RestartCount != 2 {
		t.Errorf("after a crash: %+v", got)
	}
}
