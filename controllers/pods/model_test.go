package pods

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/sandbox"
	"flyball.dev/internal/testlevel"
)

// processModel is a dumb runtime: each run of a container lives for a random time and ends with a random exit code.
type processModel struct {
	random *rand.Rand
	runs   map[string][]sandbox.Run
	lives  map[runKey]time.Time // when a run ends
	codes  map[runKey]int32
}

func (m *processModel) start(k runKey, now time.Time) error {
	for _, r := range m.runs[k.container] {
		switch {
		case r.Number == k.number:
			return fmt.Errorf("run %v is started twice", k)
		case r.End == nil:
			return fmt.Errorf("run %v is started while run %d lives", k, r.Number)
		case r.Number > k.number:
			return fmt.Errorf("run %v is started after run %d", k, r.Number)
		}
	}
	m.runs[k.container] = append(m.runs[k.container], sandbox.Run{Number: k.number, StartedAt: now, Started: true, Ready: m.random.IntN(2) == 0})
	m.lives[k], m.codes[k] = now.Add(time.Duration(m.random.IntN(20_000))*time.Millisecond), int32(m.random.IntN(2)*m.random.IntN(100))
	return nil
}

// advance ends the runs that have lived for their time.
func (m *processModel) advance(now time.Time) {
	for name, runs := range m.runs {
		for i := range runs {
			k := runKey{name, runs[i].Number}
			if runs[i].End == nil && !now.Before(m.lives[k]) {
				runs[i].End = &sandbox.End{At: now, ExitCode: m.codes[k]}
			}
		}
	}
}

// randomPod returns a pod with random containers. Some have a process.
func randomPod(random *rand.Rand) (*corev1.Pod, map[string]executor) {
	p := pod()
	p.Spec.Containers, p.Spec.InitContainers = nil, nil
	p.Spec.RestartPolicy = []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}[random.IntN(3)]
	executed := map[string]executor{}
	add := func(name string) corev1.Container {
		if random.IntN(3) > 0 {
			executed[name] = commands
		}
		return corev1.Container{Name: name, Image: "i"}
	}
	always := corev1.ContainerRestartPolicyAlways
	for i := range random.IntN(3) {
		c := add(fmt.Sprint("init", i))
		if random.IntN(2) == 0 {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	for i := range 1 + random.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, add(fmt.Sprint("main", i)))
	}
	if random.IntN(2) == 0 {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(add("debug"))}}
	}
	return p, executed
}

// TestRandomPods executes the steps of random pods with processes. Some writes of the status fail. Whatever happens, no run
// is started twice or before its time, counters only rise, and phases do not go back.
func TestRandomPods(t *testing.T) {
	phases := map[corev1.PodPhase]int{}
	for seed := range uint64(testlevel.Rounds(300, 2000)) {
		random := rand.New(rand.NewPCG(seed, 4))
		p, executed := randomPod(random)
		m := &processModel{random: random, runs: map[string][]sandbox.Run{}, lives: map[runKey]time.Time{}, codes: map[runKey]int32{}}
		at := now
		for i := range 60 {
			m.advance(at)
			s := step{}
			for range maxStarts {
				s = next(p, provision{ip: someIP, mounted: true, executed: executed, runs: m.runs}, &Options{}, at)
				for _, k := range s.start {
					if err := m.start(k, at); err != nil {
						t.Fatalf("seed %d, step %d: %v", seed, i, err)
					}
					if err := mayStart(p, s.status, k); err != nil {
						t.Fatalf("seed %d, step %d: %v", seed, i, err)
					}
				}
				if len(s.start) == 0 {
					break
				}
			}
			for _, k := range s.stop {
				m.lives[k] = at
			}
			if s.stopPod != nil {
				if !hasCompleted(p) {
					t.Fatalf("seed %d, step %d: the processes are stopped before the status says that the others have ended", seed, i)
				}
				for k := range m.lives {
					m.lives[k] = at
				}
			}
			if s.status != nil && random.IntN(4) > 0 {
				if err := follows(&p.Status, s.status); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, i, err)
				}
				p.Status = *s.status
			}
			at = at.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
			if random.IntN(10) == 0 {
				at = at.Add(time.Minute)
			}
		}
		phases[p.Status.Phase]++
	}
	if phases[corev1.PodRunning] == 0 || phases[corev1.PodSucceeded] == 0 || phases[corev1.PodFailed] == 0 {
		t.Errorf("the phases at the end: %v", phases)
	}
}

// randomScript returns a script in which some containers end, and some stop slowly.
func randomScript(random *rand.Rand) string {
	var all []string
	for _, name := range []string{"i", "s", "t", "a", "b", "e"} {
		script := "{name: " + name
		if strings.Contains("iab", name) || random.IntN(4) == 0 {
			script += fmt.Sprintf(", runs: [{steps: [{after: %ds, exit: {code: %d}}]}]", 1+random.IntN(20), 3*(random.IntN(4)/3))
		}
		if random.IntN(2) == 0 {
			script += fmt.Sprintf(", stop: {after: %ds, code: %d}", random.IntN(40), 5*random.IntN(2))
		}
		all = append(all, script+"}")
	}
	return "containers: [" + strings.Join(all, ", ") + "]"
}

// TestRandomScripts executes the steps of pods with random scripts. The controller is away for some time.
func TestRandomScripts(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		policy := []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}[random.IntN(2)]
		p := pod(withEveryKind, restarting(policy), scripted(randomScript(random)))
		advance(t, p, now, now.Add(time.Duration(random.IntN(10))*time.Second))
		advance(t, p, now.Add(time.Duration(random.IntN(60))*time.Second), now.Add(3*time.Minute))
		if t.Failed() || policy == corev1.RestartPolicyNever && !podstate.Finished(p) {
			t.Fatalf("seed %d: %s\n%s", seed, p.Annotations[ScriptAnnotation], describeStatus(&p.Status))
		}
	}
}

// hasCompleted reports whether the status of a pod has no main container that runs or waits, or an init container that has failed.
func hasCompleted(p *corev1.Pod) bool {
	for _, s := range p.Status.InitContainerStatuses {
		if end := s.State.Terminated; end != nil && end.ExitCode != 0 && !podstate.IsSidecar(podstate.Container(&p.Spec, s.Name)) {
			return true
		}
	}
	return !slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil })
}

// mayStart returns an error if a container is started for the first time before the init containers in front of it.
func mayStart(p *corev1.Pod, s *corev1.PodStatus, k runKey) error {
	if s == nil || k.number > 0 || podstate.Condition(&corev1.Pod{Status: *s}, corev1.PodInitialized).Status == corev1.ConditionTrue {
		return nil
	}
	for i := range p.Spec.InitContainers {
		spec := &p.Spec.InitContainers[i]
		if spec.Name == k.container || k.container == "debug" {
			return nil
		}
		if status := find(s.InitContainerStatuses, spec.Name); !isInitialized(spec, &status) {
			return fmt.Errorf("%s is started before %s: %+v", k.container, spec.Name, status.State)
		}
	}
	return nil
}

// follows returns an error if a status cannot follow another one.
func follows(before, after *corev1.PodStatus) error {
	order := map[corev1.PodPhase]int{"": 0, corev1.PodPending: 1, corev1.PodRunning: 2, corev1.PodSucceeded: 3, corev1.PodFailed: 3}
	if order[after.Phase] < order[before.Phase] || order[before.Phase] == 3 && before.Phase != after.Phase {
		return fmt.Errorf("the phase %s follows %s", after.Phase, before.Phase)
	}
	for _, lists := range [][2][]corev1.ContainerStatus{
		{before.ContainerStatuses, after.ContainerStatuses}, {before.InitContainerStatuses, after.InitContainerStatuses},
		{before.EphemeralContainerStatuses, after.EphemeralContainerStatuses},
	} {
		for _, is := range lists[1] {
			was := find(lists[0], is.Name)
			states := 0
			for _, set := range []bool{is.State.Running != nil, is.State.Waiting != nil, is.State.Terminated != nil} {
				if set {
					states++
				}
			}
			end := is.State.Terminated
			switch {
			case end != nil && end.FinishedAt.Unix() < end.StartedAt.Unix() && !end.FinishedAt.IsZero():
				return fmt.Errorf("%s ends %v before its start", is.Name, end.StartedAt.Sub(end.FinishedAt.Time))
			case states != 1:
				return fmt.Errorf("%s has the state %+v", is.Name, is.State)
			case is.RestartCount < was.RestartCount:
				return fmt.Errorf("%s has %d restarts after %d", is.Name, is.RestartCount, was.RestartCount)
			case is.State.Running != nil && is.ContainerID != sandbox.ID(&corev1.Pod{ObjectMeta: pod().ObjectMeta}, is.Name, is.RestartCount):
				return fmt.Errorf("%s has the ID %s in run %d", is.Name, is.ContainerID, is.RestartCount)
			case order[after.Phase] == 3 && is.State.Running != nil:
				return fmt.Errorf("%s runs in a pod that is %s", is.Name, after.Phase)
			}
		}
	}
	return nil
}
