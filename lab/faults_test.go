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
