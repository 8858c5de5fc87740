package pods

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
)

func ofJob(p *corev1.Pod) {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", Controller: &yes}}
}

// withAnnotations sets the outcome, the duration and the exit code.
func withAnnotations(outcome, duration, code string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{OutcomeAnnotation: outcome, DurationAnnotation: duration, ExitCodeAnnotation: code}
	}
}

func restarting(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

// containerPolicy sets the restart policy of the container, and a rule that restarts it after some exit codes.
func containerPolicy(policy corev1.ContainerRestartPolicy, codes ...int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.RestartPolicy = &policy
		if codes != nil {
			c.RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: codes}}}
		}
	}
}

func TestOutcomeOf(t *testing.T) {
	run := outcome{}
	for _, tt := range []struct {
		pod  *corev1.Pod
		want outcome
	}{
		{pod(), run},
		{pod(ofJob), outcome{terminates: true}},
		{pod(ofJob, withAnnotations("", "90s", "")), outcome{terminates: true, after: 90 * time.Second}},
		{pod(ofJob, withAnnotations(Running, "90s", "7")), run},
		{pod(ofJob, withAnnotations(NeverReady, "", "")), outcome{unready: true}},
		{pod(withAnnotations("", "90s", "")), run},
		{pod(withAnnotations(Succeeded, "", "7")), outcome{terminates: true}},
		{pod(withAnnotations(Failed, "1m", "")), outcome{terminates: true, exitCode: 1, after: time.Minute}},
		{pod(withAnnotations(Failed, "", "255")), outcome{terminates: true, exitCode: 255}},
		{pod(withAnnotations("", "", "7")), outcome{terminates: true, exitCode: 7}},
		{pod(withAnnotations("", "soon", "256")), run},
		{pod(ofJob, withAnnotations("Whatever", "soon", "-1")), outcome{terminates: true}},
	} {
		if got := outcomeOf(tt.pod); got != tt.want {
			t.Errorf("%v: %+v, want %+v", tt.pod.Annotations, got, tt.want)
		}
	}
}

// TestContainersThatTerminate follows a pod through its steps, each at the time that the one before
// it says.
func TestContainersThatTerminate(t *testing.T) {
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		want []string // the phase, the state of the container, its restarts, and the time until the next step
	}{
		{"succeeds at once", pod(ofJob), []string{"Succeeded Completed 0, 0s"}},
		{"runs for a while", pod(ofJob, withAnnotations("", "90s", "")), []string{"Running running 0, 1m30s", "Succeeded Completed 0, 0s"}},
		{"fails", pod(ofJob, restarting(corev1.RestartPolicyNever), withAnnotations("", "", "3")), []string{"Failed Error 0, 0s"}},
		{"is restarted on failure", pod(ofJob, restarting(corev1.RestartPolicyOnFailure), withAnnotations("", "5s", "3")), []string{
			"Running running 0, 5s", "Running running 1, 5s", "Running CrashLoopBackOff 1, 10s", "Running running 2, 5s", "Running CrashLoopBackOff 2, 20s", "Running running 3, 5s"}},
		{"is not restarted after a success", pod(restarting(corev1.RestartPolicyOnFailure), annotated(Succeeded)), []string{"Succeeded Completed 0, 0s"}},
		{"is always restarted", pod(restarting(corev1.RestartPolicyAlways), withAnnotations(Succeeded, "5s", "")), []string{
			"Running running 0, 5s", "Running running 1, 5s", "Running CrashLoopBackOff 1, 10s"}},
		{"is restarted again and again", pod(restarting(corev1.RestartPolicyAlways), annotated(Failed)), []string{
			"Running CrashLoopBackOff 1, 10s", "Running CrashLoopBackOff 2, 20s", "Running CrashLoopBackOff 3, 40s", "Running CrashLoopBackOff 4, 1m20s",
			"Running CrashLoopBackOff 5, 2m40s", "Running CrashLoopBackOff 6, 5m0s", "Running CrashLoopBackOff 7, 5m0s"}},
		{"is restarted by its own policy", pod(containerPolicy(corev1.ContainerRestartPolicyOnFailure), withAnnotations(Failed, "5s", "")), []string{
			"Running running 0, 5s", "Running running 1, 5s"}},
		{"is not restarted by its own policy", pod(restarting(corev1.RestartPolicyAlways), containerPolicy(corev1.ContainerRestartPolicyNever), annotated(Failed)),
			[]string{"Failed Error 0, 0s"}},
		{"is restarted by a rule", pod(containerPolicy(corev1.ContainerRestartPolicyNever, 7, 8), withAnnotations("", "5s", "8")), []string{
			"Running running 0, 5s", "Running running 1, 5s"}},
		{"is not restarted by a rule", pod(containerPolicy(corev1.ContainerRestartPolicyNever, 7), withAnnotations("", "", "8")), []string{"Failed Error 0, 0s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := now
			for i, want := range tt.want {
				s := next(tt.pod, provided, &Options{}, at)
				if s.status == nil {
					t.Fatalf("step %d: no status", i)
				}
				tt.pod.Status = *s.status
				c, state := s.status.ContainerStatuses[0], "running"
				switch {
				case c.State.Terminated != nil:
					state = c.State.Terminated.Reason
				case c.State.Waiting != nil:
					state = c.State.Waiting.Reason
				}
				if got := fmt.Sprintf("%s %s %d, %s", s.status.Phase, state, c.RestartCount, s.after); got != want {
					t.Errorf("step %d: %s, want %s", i, got, want)
				}
				if again := next(tt.pod, provided, &Options{}, at); again.status != nil || again.after != s.after {
					t.Errorf("step %d again: %+v", i, again)
				}
				at = at.Add(s.after)
			}
		})
	}
}

// TestRestartEvents has the events of a container that is restarted.
func TestRestartEvents(t *testing.T) {
	p := pod(restarting(corev1.RestartPolicyAlways), annotated(Failed), func(p *corev1.Pod) { p.Spec.InitContainers, p.Namespace = nil, "default" })
	for i, want := range []string{
		"[Pulled Created Started Pulled Created Started BackOff]", // the first restart is immediate
		"[Pulled Created Started BackOff]",
	} {
		s := next(p, provided, &Options{}, now.Add(time.Duration(i)*firstRestart))
		var reasons []string
		events := append(statusEvents(p, s.status), backOffEvents(p, s.status, s.waits)...)
		for _, e := range events {
			reasons = append(reasons, e.reason)
		}
		if got := fmt.Sprint(reasons); got != want || events[len(events)-1].note != "Back-off restarting failed container c in pod p_default(p)" {
			t.Errorf("start %d: %v", i, events)
		}
		p.Status = *s.status
	}
	if events := append(statusEvents(p, &p.Status), backOffEvents(p, &p.Status, nil)...); len(events) > 0 {
		t.Errorf("without a change: %v", events)
	}
}

// TestRestartEventsOfSidecar: a sidecar that has succeeded waits for its restart as another container does, and it does not when
// the pod ends.
func TestRestartEventsOfSidecar(t *testing.T) {
	p := pod(withEveryKind, restarting(corev1.RestartPolicyNever), exits("s=0@1s a=0@4s b=0@4s"))
	backOffs, at := 0, now
	for range 10 {
		given := provided
		given.script, _ = scriptOf(p)
		s := next(p, given, &Options{}, at)
		if s.status != nil {
			for _, e := range backOffEvents(p, s.status, s.waits) {
				if e.fieldPath == "spec.initContainers{s}" {
					backOffs++
				}
			}
			p.Status = *s.status
		}
		at = at.Add(s.after)
	}
	if !podstate.Finished(p) || backOffs != 1 {
		t.Errorf("%d events BackOff: %s", backOffs, describeStatus(&p.Status))
	}
}

// TestKilledPods: a pod with a finalizer fails when it is deleted, before its deletion is
// completed.
func TestKilledPods(t *testing.T) {
	p := pod(reported(true, now), terminating(30), finalizer)
	s := next(p, provided, &Options{}, now.Add(time.Second))
	if s.status == nil || s.remove {
		t.Fatalf("got %+v", s)
	}
	p.Status = *s.status
	if e := p.Status.ContainerStatuses[0].State.Terminated; p.Status.Phase != corev1.PodFailed || e == nil || e.ExitCode != 143 || podstate.Ready(p) {
		t.Errorf("got %+v", p.Status)
	}
	if s := next(p, provided, &Options{}, now); s.status != nil || !s.remove {
		t.Errorf("then %+v", s)
	}
	waiting := pod(image("c:404"), reported(true, now), terminating(0), finalizer)
	if e := next(waiting, provided, &Options{}, now).status.ContainerStatuses[0].State.Terminated; e == nil || e.Reason != "ContainerStatusUnknown" {
		t.Errorf("of a container that was not started: %+v", e)
	}
	crashing := pod(restarting(corev1.RestartPolicyAlways), withAnnotations("", "", "3"), reported(true, now), terminating(0), finalizer)
	if e := next(crashing, provided, &Options{}, now).status.ContainerStatuses[0].State.Terminated; e == nil || e.ExitCode != 3 {
		t.Errorf("of a container that waits for its restart: %+v", e)
	}
	unbound := pod(terminating(0), finalizer, func(p *corev1.Pod) { p.Spec.NodeName = "" })
	if s := next(unbound, provided, &Options{}, now); s.status != nil || s.remove {
		t.Errorf("of a pod that was not bound: %+v", s)
	}
}
