package lab

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/manager"
)

// fallible returns a copier, and a function that ends its managers with an error, each a second after it has begun, for as long as ends
// returns true.
func fallible(ends func(starts int) bool, failed func(error)) (op Operator, begin func()) {
	starts := 0
	op = copier(failed)
	start := op.Start
	op.Start = func(cfg *rest.Config) (manager.Manager, error) {
		mgr, err := start(cfg)
		if err != nil {
			return nil, err
		}
		starts++
		n := starts
		return mgr, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			for ctx.Err() == nil {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
				if ends(n) {
					return errors.New("out of luck")
				}
			}
			return nil
		}))
	}
	return op, func() { starts = 0 }
}

// TestEndsByItself: a manager that ends with an error is a finding of a run without faults, although the next one does not end.
func TestEndsByItself(t *testing.T) {
	op, begin := fallible(func(starts int) bool { return starts == 1 }, ignore)
	scenario := copied()
	scenario.Begin = begin
	e, err := newExplorer(t, op, scenario)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	f, err := e.learn()
	if err != nil || f == nil || f.Check != operatorFailed || !strings.Contains(f.Message, "out of luck") {
		t.Errorf("got %+v (%v), want a finding of the check %q", f, err, operatorFailed)
	}
}

// TestRestarts: a manager that ends with an error after a fault is restarted as a container is: at once, and then after a delay that
// doubles. One that ends again and again is a finding.
func TestRestarts(t *testing.T) {
	broken, most := 0, 0 // ends so far, and how many there are
	op, begin := fallible(func(int) bool {
		if broken == 0 || broken > most {
			return false
		}
		broken++
		return true
	}, func(error) { broken = max(broken, 1) })
	scenario := copied()
	scenario.Begin, scenario.Rest = func() { begin(); broken = 0 }, 15*time.Second // less than most delays
	e := learned(t, op, scenario)
	for _, tc := range []struct {
		ends   int
		starts []time.Duration // after the end before
		check  string
	}{
		{1, []time.Duration{0}, ""},
		{3, []time.Duration{0, 10 * time.Second, 20 * time.Second}, ""},
		{100, []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}, operatorFailed},
	} {
		most = tc.ends
		r := e.run(Schedule{{Do: ServerError, At: Point{Action: "operator create secrets default/web-*", N: 1}}}, clean{})
		check := ""
		if r.finding != nil {
			check = r.finding.Check
		}
		if check != tc.check || !r.counts {
			t.Errorf("%d ends: %+v, want a finding of the check %q", tc.ends, r.finding, tc.check)
		}
		var starts []time.Duration
		ended := time.Duration(-1)
		for _, ev := range r.world.trace {
			switch {
			case strings.Contains(ev.text, "out of luck"):
				ended = ev.at
			case strings.Contains(ev.text, "starts again") && ended >= 0:
				starts, ended = append(starts, ev.at-ended), -1
			}
		}
		if !slices.Equal(starts, tc.starts) {
			t.Errorf("%d ends: the operator starts again %v after the ends, want %v\n%s", tc.ends, starts, tc.starts, r.world.story(nil))
		}
	}
}

// TestUnstartable: an operator that does not start because of a fault is restarted, too.
func TestUnstartable(t *testing.T) {
	failed, most := 0, 0
	op, begin := fallible(func(int) bool { return false }, func(error) { failed = max(failed, 1) })
	start := op.Start
	op.Start = func(cfg *rest.Config) (manager.Manager, error) {
		if failed > 0 && failed <= most {
			failed++
			return nil, errors.New("out of luck")
		}
		return start(cfg)
	}
	scenario := copied()
	scenario.Begin = func() { begin(); failed = 0 }
	e := learned(t, op, scenario)
	for ends, want := range map[int]string{1: "", 3: "", 100: startFailed} {
		most = ends
		r := e.run(Schedule{
			{Do: ServerError, At: Point{Action: "operator create secrets default/web-*", N: 1}},
			{Do: CrashBefore, At: Point{Action: "operator create secrets default/web-*", N: 2}},
		}, clean{})
		check := ""
		if r.finding != nil {
			check = r.finding.Check
		}
		if check != want {
			t.Errorf("%d ends: %+v, want a finding of the check %q", ends, r.finding, want)
		}
	}
}

// TestReplayWithout: a replay of a file that finds nothing is not carried out twice if the scenario leaves out the check for that.
func TestReplayWithout(t *testing.T) {
	runs := 0
	scenario := copied()
	scenario.Begin = func() { runs++ }
	e := learned(t, copier(ignore), scenario)
	hold := Schedule{{Do: Hold, At: Point{Action: "operator see configmaps default/web added", N: 1}}}
	for _, tc := range []struct {
		without []string
		want    int
	}{{nil, 2}, {[]string{replayed}, 1}} {
		runs, e.scenario.Without = 0, tc.without
		if f, err := e.replay(hold); f != nil || err != nil {
			t.Fatal(f, err)
		}
		if runs != tc.want {
			t.Errorf("without %q: %d runs, want %d", tc.without, runs, tc.want)
		}
	}
}
