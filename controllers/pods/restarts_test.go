package pods

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"
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
			if run > 0 && upstream.IsInBackOffSince("c", ended) {
				want = upstream.Get("c")
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
			clock.Step(want)
			upstream.Next("c", ended)
		}
	}
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
