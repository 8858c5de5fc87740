package lab

import "testing"

// TestUntil: a choice ends at its until, before anything else happens.
func TestUntil(t *testing.T) {
	const create = "operator create secrets default/web-*"
	seen, until := Point{Action: "operator see configmaps default/web added", N: 1}, Point{Action: create, N: 1}
	e := learned(t, copier(ignore), copied())
	for _, tc := range []struct {
		choice Choice
		want   string // right after the until
	}{
		{Choice{Do: TimeTravel, At: seen, Until: &until}, "operator starts again"},
		{Choice{Do: Freeze, At: seen, Seen: true, Until: &until}, "the view of operator goes on"},
	} {
		next, isNext := "", false
		for _, ev := range e.run(Schedule{tc.choice}, clean{}).world.trace {
			if isNext {
				next = ev.text
				break
			}
			isNext = ev.action != nil && ev.action.name() == create
		}
		if next != tc.want {
			t.Errorf("%s: %q is next, want %q", tc.choice, next, tc.want)
		}
	}
}

// TestTravelAfterCrash: a time travel restarts the process that runs then, also if that is not the one that saw the event.
func TestTravelAfterCrash(t *testing.T) {
	const create = "operator create secrets default/web-*"
	seen := Point{Action: "operator see configmaps default/web added", N: 1}
	e := learned(t, copier(ignore), copied())
	r := e.run(Schedule{
		{Do: TimeTravel, At: seen, Until: &Point{Action: create, N: 2}},
		{Do: CrashBefore, At: Point{Action: create, N: 1}},
	}, clean{})
	starts := 0
	for _, ev := range r.world.trace {
		if ev.text == "operator starts again" {
			starts++
		}
	}
	if starts != 2 || !r.counts {
		t.Errorf("the operator starts again %d times, want 2; the schedule counts: %v", starts, r.counts)
	}
}

// TestUntilBeforeCrash: in real time, a write may end a choice before the process that sent the write has crashed. Two processes of a
// replica never run.
func TestUntilBeforeCrash(t *testing.T) {
	until := Point{Action: "operator create secrets default/web", N: 1}
	w := newWorld(&explorer{program: &Program{}}, Schedule{{Do: CrashAfter, At: until, Until: &until}})
	p := w.newProcess("operator", false, nil)
	w.processes = []*process{p}
	w.states[0] = choiceState{begun: true, process: p, release: release{point: &until}}
	w.happened[until] = true
	if w.endReached() {
		t.Error("the choice has ended before the crash")
	}
}

// TestRestartBeforeCrash: in real time, a choice may end while the response to its write is late. Then the process crashes before the next
// one starts, and only once.
func TestRestartBeforeCrash(t *testing.T) {
	w := newWorld(&explorer{}, Schedule{{Do: CrashAfter}})
	p := w.newProcess("operator", false, nil)
	stops := 0
	p.stop = func() { stops++ }
	w.states[0] = choiceState{begun: true, process: p}
	w.end(0)
	if !w.isCrashed(p) {
		t.Error("the next process starts beside this one")
	}
	w.crash(p) // the response
	if stops != 1 {
		t.Errorf("the process stops %d times, want once", stops)
	}
}
