package pods

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"

	"flyball.dev/controllers/pods/sandbox"
)

// TestBackOff compares the delays before restarts, after runs of random lengths, with the delays of kubelet,
// which uses client-go's Backoff as the loop below does.
func TestBackOff(t *testing.T) {
	lengths := []time.Duration{0, time.Second, 9 * time.Second, time.Minute, 9 * time.Minute, 10 * time.Minute, 11 * time.Minute, time.Hour}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		clock := clocktesting.NewFakeClock(now)
		upstream := flowcontrol.NewFakeBackOff(firstRestart, maxRestart, clock)
		p := pod(restarting(corev1.RestartPolicyAlways))
		for run := range 30 {
			length := lengths[random.IntN(len(lengths))]
			if random.IntN(3) > 0 {
				length = 0
			}
			// It runs, and then is made to fail.
			p.Annotations = map[string]string{OutcomeAnnotation: Running}
			if s := next(p, provided, &Options{}, clock.Now()); s.status != nil {
				p.Status = *s.status
			}
			if c := p.Status.ContainerStatuses[0]; c.State.Running == nil || c.RestartCount != int32(run) {
				t.Fatalf("seed %d, run %d: %+v", seed, run, c)
			}
			clock.Step(length)
			ended := clock.Now()
			want := time.Duration(0)
			if run > 0 {
				want = waits(upstream, clock, ended)
			}
			p.Annotations = map[string]string{OutcomeAnnotation: Failed}
			end := statusOf(p, true, provided, &Options{}, ended).ContainerStatuses[0]
			if want == 0 {
				// It is restarted at once. As the next run fails too, the annotation is changed before.
				p.Annotations = nil
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 1, StartedAt: p.Status.ContainerStatuses[0].State.Running.StartedAt, FinishedAt: metav1.NewTime(ended)}}
				if end.RestartCount != int32(run)+1 {
					t.Fatalf("seed %d, run %d of %s: not restarted at once: %+v", seed, run, length, end)
				}
			} else {
				p.Status = statusOf(p, true, provided, &Options{}, ended)
				if got := untilRestart(&end, ended); !crashed(&end) || got != want {
					t.Fatalf("seed %d, run %d of %s: restarted after %s, want %s: %+v", seed, run, length, got, want, end)
				}
			}
			upstream.Next("c", ended)
		}
	}
}

// waits returns how long a container is in the back-off since its end. A kubelet collects the garbage of its back-offs meanwhile.
func waits(upstream *flowcontrol.Backoff, clock *clocktesting.FakeClock, since time.Time) time.Duration {
	start := clock.Now()
	for upstream.IsInBackOffSince("c", since) {
		clock.Step(time.Second)
		upstream.GC()
	}
	return clock.Since(start)
}

// TestPullOfAnOldPod: the attempts to pull an image since a start in the far past, which a user may write, are counted without a loop
// over each of them.
func TestPullOfAnOldPod(t *testing.T) {
	for _, tt := range []struct {
		start time.Time
		want  int32
	}{
		{now, 1},
		{now.Add(-10 * time.Second), 2},
		{now.Add(-309 * time.Second), 5},
		{now.Add(-310 * time.Second), 6},
		{now.Add(-609 * time.Second), 6},
		{now.Add(-610 * time.Second), 7},
		{now.Add(-24 * time.Hour), 6 + (24*60*60-310)/300},
		{time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC), 6 + int32((now.Unix()-time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC).Unix()-310)/300)},
	} {
		p := pod(image("web:404"), func(p *corev1.Pod) {
			p.Spec.InitContainers = nil
			p.Status.StartTime = new(metav1.NewTime(tt.start))
		})
		s := next(p, provided, &Options{}, now)
		if got := s.pulls["web:404"].failed; got != tt.want || s.after <= 0 || s.after > maxRestart {
			t.Errorf("since %s: %d attempts, the next one in %s, want %d attempts", tt.start, got, s.after, tt.want)
		}
	}
}

// TestBackOffAfterKills compares the restarts of a container that ends by itself or is killed by a probe, after runs of random lengths,
// with kubelet's. A kubelet looks at the end of the run before when it kills a container, and at the last end otherwise.
func TestBackOffAfterKills(t *testing.T) {
	lengths := []time.Duration{0, time.Second, 9 * time.Second, 10 * time.Second, 21 * time.Second, 2 * time.Minute, 6 * time.Minute, 11 * time.Minute}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		clock := clocktesting.NewFakeClock(now)
		upstream := flowcontrol.NewFakeBackOff(firstRestart, maxRestart, clock)
		p := pod(restarting(corev1.RestartPolicyAlways))
		given := provided
		given.executed = map[string]executor{"c": commands}
		var runs []sandbox.Run
		var before time.Time // the end of the run before
		for number := range int32(30) {
			run := sandbox.Run{Number: number, StartedAt: clock.Now(), Started: true, Ready: true}
			runs = append(runs, run)
			given.runs = map[string][]sandbox.Run{"c": runs}
			s := next(p, given, &Options{}, clock.Now())
			if s.status == nil || s.status.ContainerStatuses[0].State.Running == nil || s.status.ContainerStatuses[0].RestartCount != number {
				t.Fatalf("seed %d, run %d does not start: %+v", seed, number, s)
			}
			p.Status, given.delays = *s.status, s.delays
			clock.Step(lengths[random.IntN(len(lengths))])
			ended, killed := clock.Now(), random.IntN(2) > 0
			runs[number].End = &sandbox.End{At: ended, ExitCode: 1, Restarts: killed}
			upstream.GC() // as kubelet does while it runs
			since, want := ended, time.Duration(0)
			if killed {
				since = before
			}
			if !since.IsZero() && upstream.IsInBackOffSince("c", since) {
				since, want = ended, waits(upstream, clock, ended)
			}
			s = next(p, given, &Options{}, ended)
			got := time.Duration(0)
			if len(s.start) == 0 {
				p.Status, given.delays = *s.status, s.delays
				got = untilRestart(&p.Status.ContainerStatuses[0], ended)
			}
			if got != want {
				t.Fatalf("seed %d, run %d of %s, killed %v: restarted after %s, want %s", seed, number, ended.Sub(run.StartedAt), killed, got, want)
			}
			if !since.IsZero() {
				upstream.Next("c", since)
			}
			before = ended
		}
	}
}

// TestBackOffOfAnotherContainer: the back-off of a container belongs to its image. It outlives a restart of all containers.
func TestBackOffOfAnotherContainer(t *testing.T) {
	const crashing = "containers: [{name: c, runs: [{steps: [{after: 1s, exit: {code: 1}}]}]}]"
	for _, tt := range []struct {
		name, script string
		change       func(*corev1.Pod)
		at           time.Duration // of the change
		then         time.Duration
		want         int32 // restarts
	}{
		{"the first crash of another image has no delay", "containers: [{name: c, image: d, runs: [{steps: [{after: 1s, exit: {code: 1}}]}]}]",
			image("d"), 5 * time.Second, 7 * time.Second, 2},
		{"and the second one has", "containers: [{name: c, image: d, runs: [{steps: [{after: 1s, exit: {code: 1}}]}]}]",
			image("d"), 5 * time.Second, 16 * time.Second, 2},
		{"another image ends the delay", crashing, image("d"), 5 * time.Second, 5 * time.Second, 2},
		{"and begins with a delay of 10 s, as kubelet knows the crash before", crashing, image("d"), 5 * time.Second, 15 * time.Second, 2},
		{"after which it restarts", crashing, image("d"), 5 * time.Second, 17 * time.Second, 3},
		{"a restart of all keeps the delay", "containers: [{name: c, runs: [{steps: [{after: 1s, exit: {code: 8}}]}, {steps: [{after: 1s, exit: {code: 7}}]}, {steps: [{after: 1s, exit: {code: 8}}]}]}]",
			restartingAll("c"), 0, 12 * time.Second, 2},
		{"until it has passed", "containers: [{name: c, runs: [{steps: [{after: 1s, exit: {code: 8}}]}, {steps: [{after: 1s, exit: {code: 7}}]}, {steps: [{after: 1s, exit: {code: 8}}]}]}]",
			restartingAll("c"), 0, 14 * time.Second, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pod(restarting(corev1.RestartPolicyAlways), scripted(tt.script))
			given := provided
			given.script, _ = scriptOf(p)
			changed := false
			for at := now; !at.After(now.Add(tt.then)); {
				if !changed && !at.Before(now.Add(tt.at)) {
					tt.change(p)
					changed = true
				}
				s := next(p, given, &Options{}, at)
				for _, c := range s.changes {
					given.stopping = with(given.stopping, c.container, moment{c.number, c.since})
				}
				given.delays = s.delays
				if s.status != nil {
					p.Status = *s.status
					continue
				}
				at = at.Add(500 * time.Millisecond)
			}
			if got := p.Status.ContainerStatuses[0]; got.RestartCount != tt.want {
				t.Errorf("%d restarts, want %d: %+v", got.RestartCount, tt.want, got)
			}
		})
	}
}
