package pods

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/podstate"
)

var now = time.Unix(1_000_000, 0)

const someIP = "10.128.0.1"

// provided is a provision that lacks nothing.
var provided = provision{ip: someIP, mounted: true}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", Generation: 1},
		Spec: corev1.PodSpec{
			NodeName:       NodeName,
			RestartPolicy:  corev1.RestartPolicyNever,
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

func annotated(outcome string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{OutcomeAnnotation: outcome} }
}

func terminating(grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now}, &grace
	}
}

func finalizer(p *corev1.Pod) { p.Finalizers = []string{"example.com/wait"} }

func image(image string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Image = image }
}

func initImage(image string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = image }
}

// reported sets the status of a pod as of that time.
func reported(started bool, at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status = statusOf(p, started, provided, &Options{}, at) }
}

func TestMine(t *testing.T) {
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"on the node", pod(), true},
		{"on another", pod(func(p *corev1.Pod) { p.Spec.NodeName = "other" }), false},
		{"terminating on another", pod(terminating(30), func(p *corev1.Pod) { p.Spec.NodeName = "other" }), false},
		{"not bound", pod(func(p *corev1.Pod) { p.Spec.NodeName = "" }), false},
		{"terminating before it was bound", pod(terminating(30), func(p *corev1.Pod) { p.Spec.NodeName = "" }), true},
	} {
		nodes := &servedNodes{nodes: map[string]servedNode{}}
		nodes.set(NodeName, servedNode{address: "10.0.0.1"})
		if got := nodes.isResponsible(tt.pod); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestNext(t *testing.T) {
	slow := Options{Delay: 10 * time.Second}
	for _, tt := range []struct {
		name   string
		pod    *corev1.Pod
		o      Options
		report bool
		remove bool
		after  time.Duration
	}{
		{name: "bound", pod: pod(), report: true},
		{name: "ready", pod: pod(reported(true, now))},
		{name: "its status was changed by a user", pod: pod(reported(true, now), func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }), report: true},
		{name: "bound, with a delay", pod: pod(), o: slow, report: true, after: 10 * time.Second},
		{name: "starting", pod: pod(reported(false, now.Add(-4*time.Second))), o: slow, after: 6 * time.Second},
		{name: "started", pod: pod(reported(false, now.Add(-10*time.Second))), o: slow, report: true},
		{name: "terminated", pod: pod(annotated(Succeeded), reported(true, now))},
		{name: "terminating", pod: pod(reported(true, now), terminating(30)), remove: true},
		{name: "terminating, after its grace period", pod: pod(terminating(0)), remove: true},
		{name: "terminating, with a finalizer", pod: pod(annotated(Succeeded), reported(true, now), terminating(0), finalizer)},
		{name: "image cannot be pulled", pod: pod(image("c:404")), report: true, after: 10 * time.Second},
		{name: "image could not be pulled", pod: pod(image("c:404"), reported(true, now)), report: true, after: 10 * time.Second},
		{name: "waits for its image", pod: pod(image("c:404"), reported(true, now), reported(true, now)), after: 10 * time.Second},
		{name: "image was changed", pod: pod(image("c:404"), reported(true, now), reported(true, now), image("c:1")), report: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := next(tt.pod, provided, &tt.o, now)
			if (s.status != nil) != tt.report || s.remove != tt.remove || s.after != tt.after {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestStatusOf(t *testing.T) {
	gated := func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "g"}} }
	for _, tt := range []struct {
		name       string
		pod        *corev1.Pod
		started    bool
		phase      corev1.PodPhase
		containers bool // ready
		ready      bool
	}{
		{"starting", pod(), false, corev1.PodPending, false, false},
		{"started", pod(), true, corev1.PodRunning, true, true},
		{"never ready", pod(annotated(NeverReady)), true, corev1.PodRunning, false, false},
		{"succeeded", pod(annotated(Succeeded)), true, corev1.PodSucceeded, false, false},
		{"failed", pod(annotated(Failed)), true, corev1.PodFailed, false, false},
		{"readiness gate fails", pod(gated), true, corev1.PodRunning, true, false},
		{"readiness gate passes", pod(gated, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: "g", Status: corev1.ConditionTrue}}
		}), true, corev1.PodRunning, true, true},
		{"no image", pod(image("c:404")), true, corev1.PodPending, false, false},
		{"no image, outcome Succeeded", pod(image("c:404"), annotated(Succeeded)), true, corev1.PodPending, false, false},
		{"no image for an init container", pod(initImage("i:404")), true, corev1.PodPending, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.pod.DeepCopy()
			s := statusOf(tt.pod, tt.started, provided, &Options{}, now)
			if s.Phase != tt.phase || s.ContainerStatuses[0].Ready != tt.containers || podstate.Ready(&corev1.Pod{Status: s}) != tt.ready {
				t.Errorf("got %+v", s)
			}
			if d := cmp.Diff(before, tt.pod); d != "" {
				t.Errorf("the pod itself was changed: %s", d)
			}
		})
	}
}

// TestConditionsAsKubelet: the reasons and messages of conditions are kubelet's.
func TestConditionsAsKubelet(t *testing.T) {
	gated := func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "g"}, {ConditionType: "h"}}
		p.Status.Conditions = []corev1.PodCondition{{Type: "h", Status: corev1.ConditionFalse}}
	}
	sidecar := func(p *corev1.Pod) {
		p.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		p.Spec.InitContainers[0].Image = "i:404"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
	}
	for _, tt := range []struct {
		name    string
		pod     *corev1.Pod
		started bool
		kind    corev1.PodConditionType
		want    string // status, reason, message
	}{
		{"starting", pod(), false, corev1.PodReadyToStartContainers, "False PodSandboxNotReady no pod sandbox exists"},
		{"starting", pod(), false, corev1.PodInitialized, "False ContainersNotInitialized containers with incomplete status: [i]"},
		{"starting", pod(), false, corev1.ContainersReady, "False ContainersNotReady containers with unready status: [c]"},
		{"succeeded", pod(annotated(Succeeded)), true, corev1.PodReadyToStartContainers, "False PodSandboxNotReady pod sandbox is not ready"},
		{"succeeded", pod(annotated(Succeeded)), true, corev1.PodInitialized, "True PodCompleted "},
		{"succeeded", pod(annotated(Succeeded)), true, corev1.PodReady, "False PodCompleted "},
		{"failed", pod(annotated(Failed)), true, corev1.PodInitialized, "True  "},
		{"failed", pod(annotated(Failed)), true, corev1.PodReady, "False PodFailed "},
		{"gates", pod(gated), true, corev1.ContainersReady, "True  "},
		{"gates", pod(gated), true, corev1.PodReady, `False ReadinessGatesNotReady corresponding condition of pod readiness gate "g" does not exist., ` +
			`the status of pod readiness gate "h" is not "True", but False`},
		{"sidecar", pod(sidecar), true, corev1.ContainersReady, "False ContainersNotReady containers with unready status: [i]"},
	} {
		s := statusOf(tt.pod, tt.started, provided, &Options{}, now)
		c := condition(&s, tt.kind)
		if got := string(c.Status) + " " + c.Reason + " " + c.Message; got != tt.want {
			t.Errorf("%s: %s is %q, want %q", tt.name, tt.kind, got, tt.want)
		}
	}
}

// TestEachContainerHasItsOwnTimes checks that a terminated container does not share its times with the next one.
func TestEachContainerHasItsOwnTimes(t *testing.T) {
	p := pod()
	ended := metav1.NewTime(now.Add(-time.Hour))
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", Image: "i", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{StartedAt: ended, FinishedAt: ended},
	}}}
	p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "j", Image: "j"})
	s := statusOf(p, true, provided, &Options{}, now)
	if got := s.InitContainerStatuses[0].State.Terminated; !got.StartedAt.Equal(&ended) || !got.FinishedAt.Equal(&ended) {
		t.Errorf("the first has the times %s and %s", got.StartedAt, got.FinishedAt)
	}
	if got := s.InitContainerStatuses[1].State.Terminated; !got.StartedAt.Time.Equal(now) || !got.FinishedAt.Time.Equal(now) {
		t.Errorf("the second has the times %s and %s", got.StartedAt, got.FinishedAt)
	}
	if got := s.ContainerStatuses[0].State.Running.StartedAt; !got.Time.Equal(now) {
		t.Errorf("the container has run since %s", got)
	}
}

func TestWithoutAddress(t *testing.T) {
	p := pod()
	p.Status = statusOf(p, true, provision{mounted: true}, &Options{}, now)
	c := podstate.Condition(p, corev1.PodReadyToStartContainers)
	if p.Status.Phase != corev1.PodPending || c.Status != corev1.ConditionFalse || c.Message != "Failed to create pod sandbox: no IP addresses available in 10.128.0.0/9" {
		t.Errorf("got %+v", p.Status)
	}
	if s := next(p, provision{mounted: true}, &Options{}, now.Add(time.Second)); s.status != nil || s.after != 0 {
		t.Errorf("there is another step: %+v", s)
	}
	p.Status = statusOf(p, true, provided, &Options{}, now)
	if c := podstate.Condition(p, corev1.PodReadyToStartContainers); p.Status.Phase != corev1.PodRunning || c.Message != "" {
		t.Errorf("with an address: %+v", p.Status)
	}
}

// TestImages follows the container of a pod, and its events, from one image to the next.
func TestImages(t *testing.T) {
	p := pod(func(p *corev1.Pod) { p.Spec.InitContainers = nil })
	for i, step := range []struct {
		image    string
		state    string
		message  string // a part of it
		restarts int32
		phase    corev1.PodPhase
		events   []string // type, reason and message
	}{
		{"web:404", "ErrImagePull", `failed to resolve reference "docker.io/library/web:404": docker.io/library/web:404: not found`, 0, corev1.PodPending, []string{
			`Normal Pulling: Pulling image "web:404"`,
			`Warning Failed: Failed to pull image "web:404": ` + pullError("web:404"),
			`Warning Failed: Error: ErrImagePull`,
		}},
		{"web:404", "ImagePullBackOff", `Back-off pulling image "web:404": ErrImagePull: rpc error: code = NotFound `, 0, corev1.PodPending, []string{
			`Normal BackOff: Back-off pulling image "web:404"`,
			`Warning Failed: Error: ImagePullBackOff`,
		}},
		{"web:404", "ImagePullBackOff", "", 0, corev1.PodPending, nil},
		{"registry.invalid/web", "ErrImagePull", `failed to do request: Head "https://registry.invalid/v2/web/manifests/latest": dial tcp: lookup registry.invalid: no such host`, 0, corev1.PodPending, []string{
			`Normal Pulling: Pulling image "registry.invalid/web"`,
			`Warning Failed: Failed to pull image "registry.invalid/web": ` + pullError("registry.invalid/web"),
			`Warning Failed: Error: ErrImagePull`,
		}},
		{"web:1", "running", "", 0, corev1.PodRunning, []string{
			`Normal Pulled: Container image "web:1" already present on machine and can be accessed by the pod`,
			`Normal Created: Container created`,
			`Normal Started: Container started`,
		}},
		{"web:1", "running", "", 0, corev1.PodRunning, nil},
		{"web:2", "running", "", 1, corev1.PodRunning, []string{
			`Normal Pulled: Container image "web:2" already present on machine and can be accessed by the pod`,
			`Normal Created: Container created`,
			`Normal Started: Container started`,
		}},
		{"web:404", "ErrImagePull", "", 2, corev1.PodRunning, []string{
			`Normal Pulling: Pulling image "web:404"`,
			`Warning Failed: Failed to pull image "web:404": ` + pullError("web:404"),
			`Warning Failed: Error: ErrImagePull`,
		}},
	} {
		p.Spec.Containers[0].Image = step.image
		s := statusOf(p, true, provided, &Options{}, now.Add(time.Duration(i)*time.Second))
		var events []string
		for _, e := range statusEvents(p, &s) {
			if e.fieldPath != "spec.containers{c}" {
				t.Errorf("the event %v is about %q", e, e.fieldPath)
			}
			events = append(events, e.typ+" "+e.reason+": "+e.note)
		}
		p.Status = s
		state, message := "running", ""
		if w := s.ContainerStatuses[0].State.Waiting; w != nil {
			state, message = w.Reason, w.Message
		}
		if state != step.state || !strings.Contains(message, step.message) || s.ContainerStatuses[0].RestartCount != step.restarts || s.Phase != step.phase {
			t.Errorf("step %d: %s, %+v", i, s.Phase, s.ContainerStatuses[0])
		}
		if d := cmp.Diff(step.events, events); d != "" {
			t.Errorf("step %d: events %s", i, d)
		}
	}
}

// TestSidecarThatWaits: a sidecar that cannot be pulled again leaves the other containers as they are.
func TestSidecarThatWaits(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	p := pod(func(p *corev1.Pod) { p.Spec.InitContainers[0].RestartPolicy = &always })
	p.Status = statusOf(p, true, provided, &Options{}, now)
	before := p.Status.DeepCopy()
	if before.Phase != corev1.PodRunning || before.ContainerStatuses[0].State.Running == nil {
		t.Fatalf("the pod does not run: %+v", before)
	}
	p.Spec.InitContainers[0].Image = "i:404"
	p.Status = statusOf(p, true, provided, &Options{}, now.Add(time.Second))
	if w := p.Status.InitContainerStatuses[0].State.Waiting; w == nil || w.Reason != "ErrImagePull" {
		t.Errorf("the sidecar is %+v", p.Status.InitContainerStatuses[0].State)
	}
	if d := cmp.Diff(before.ContainerStatuses, p.Status.ContainerStatuses); d != "" || p.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod is %s, its containers (-before +after):\n%s", p.Status.Phase, d)
	}
}

func TestPullPolicies(t *testing.T) {
	never := pod(image("c:404"), func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever })
	if w := statusOf(never, true, provided, &Options{}, now).ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "ErrImageNeverPull" {
		t.Errorf("never: %v", w)
	}
	always := pod(func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways })
	s := statusOf(always, true, provided, &Options{}, now)
	if !slices.ContainsFunc(statusEvents(always, &s), func(e containerEvent) bool { return e.reason == "Pulling" && e.fieldPath == "spec.containers{c}" }) {
		t.Error("always: nothing was pulled")
	}
	if s := statusOf(pod(image("c:404")), true, provided, &Options{MissingImages: []string{}}, now); s.Phase != corev1.PodRunning {
		t.Errorf("with no patterns: %s", s.Phase)
	}
}

func TestMissingImages(t *testing.T) {
	for image, want := range map[string]bool{
		"webserver:404": true, "ghcr.io/a/b:404": true, "registry.invalid/web": true, "registry.invalid:5000/a/b:1": true,
		"nginx": false, "nginx:4040": false, "nginx:1.404": false, "invalid/web:1": false, "nginx:404@sha256:0": false, "a.invalid.com/web": false,
	} {
		if got := isMissing(image, DefaultMissingImages); got != want {
			t.Errorf("%s: %v", image, got)
		}
	}
	for image, want := range map[string]string{
		"a": "docker.io/library/a:latest", "a/b:1": "docker.io/a/b:1", "x.io/a": "x.io/a:latest", "localhost/a": "localhost/a:latest",
		"x:5000/a": "x:5000/a:latest", "a@sha256:0": "docker.io/library/a@sha256:0",
	} {
		if got := reference(image); got != want {
			t.Errorf("%s is %s, want %s", image, got, want)
		}
	}
}

func TestKillings(t *testing.T) {
	events := func(p *corev1.Pod, change func(*corev1.Pod)) []containerEvent {
		change(p)
		return killingEvents(p, next(p, provided, &Options{}, now).killing)
	}
	if got := events(pod(reported(true, now)), terminating(30)); len(got) != 1 || got[0].note != "Stopping container c" {
		t.Errorf("got %v", got)
	}
	if got := events(pod(reported(false, now)), terminating(30)); len(got) != 0 {
		t.Errorf("of a pod that is not running: %v", got)
	}
	var got []string
	for _, e := range events(pod(withEveryKind, reported(true, now)), annotated(Succeeded)) {
		got = append(got, e.fieldPath)
	}
	if d := cmp.Diff([]string{"spec.ephemeralContainers{e}", "spec.initContainers{t}", "spec.initContainers{s}"}, got); d != "" {
		t.Errorf("after the main containers have ended: %s", d)
	}
}

func TestJitterDependsOnThePod(t *testing.T) {
	o := Options{Jitter: time.Minute}
	seen := map[time.Duration]bool{}
	for i := range 20 {
		p := pod(func(p *corev1.Pod) { p.UID = types.UID(strconv.Itoa(i)) })
		_, a := hasStarted(p, &o, now)
		_, b := hasStarted(p, &o, now)
		if a != b || a < 0 || a >= time.Minute {
			t.Errorf("delays %s and %s", a, b)
		}
		seen[a] = true
	}
	if len(seen) < 15 {
		t.Errorf("only %d different delays", len(seen))
	}
}

func TestLease(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName, UID: "n"}}
	lease := leaseOf(node, now)
	for at, want := range map[time.Duration]time.Duration{0: 10 * time.Second, 4 * time.Second: 6 * time.Second, 12 * time.Second: -2 * time.Second, -time.Hour: 0} {
		if got := untilRenewal(lease, now.Add(at)); got != want {
			t.Errorf("after %s it is due in %s, want %s", at, got, want)
		}
	}
}

// TestReasonWhileAnImageIsPulled: a container of a pod with init containers waits with PodInitializing, also after they have ended.
func TestReasonWhileAnImageIsPulled(t *testing.T) {
	for _, tt := range []struct {
		container, want string
		change          func(*corev1.Pod)
	}{
		{"c", "PodInitializing", func(*corev1.Pod) {}},
		{"i", "PodInitializing", func(*corev1.Pod) {}},
		{"c", "ContainerCreating", func(p *corev1.Pod) { p.Spec.InitContainers = nil }},
	} {
		p := pod(tt.change, scripted("containers: [{name: "+tt.container+", pull: {duration: 1m}}]"))
		advance(t, p, now, now.Add(10*time.Second))
		s := find(allContainers(&p.Status), tt.container)
		if w := s.State.Waiting; w == nil || w.Reason != tt.want {
			t.Errorf("%s: %+v, want %s", tt.container, s.State, tt.want)
		}
	}
}
