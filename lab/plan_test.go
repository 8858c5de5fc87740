package lab

import (
	"slices"
	"testing"
)

// TestPlans: first each fault alone, the families in turn; then each pair, the ones of the first faults first; then three at once.
func TestPlans(t *testing.T) {
	fault := func(f Fault, n int) Choice {
		return Choice{Do: f, At: Point{Action: "operator create pods default/a", N: n}}
	}
	a, b, c, d := fault(CrashAfter, 1), fault(CrashAfter, 2), fault(Lost, 1), fault(Refuse, 1)
	unseen := Choice{Do: Bookmarks, At: Point{Action: "operator see pods default/a added", N: 1}}
	gone := Choice{Do: Delete, At: Point{Action: atRest, N: 1}, Object: "Pod default/a"}
	for _, tc := range []struct {
		name     string
		families [][]Choice
		want     []Schedule
		triples  bool
	}{
		{"no fault", [][]Choice{{}, {}}, nil, false},
		{"pairs", [][]Choice{{a, b}, {c}, {}, {d}}, []Schedule{{a}, {c}, {d}, {b}, {a, c}, {a, d}, {c, d}, {a, b}, {c, b}, {d, b}}, true},
		{"nobody can be right", [][]Choice{{gone}, {unseen}, {a}}, []Schedule{{gone}, {unseen}, {a}, {gone, a}, {unseen, a}}, true},
	} {
		var got []Schedule
		for s := range (&explorer{}).plans(tc.families) {
			if got = append(got, s); len(got) == len(tc.want)+50 {
				break
			}
		}
		for i, s := range got {
			switch {
			case i >= len(tc.want):
				if len(s) != 3 || s.hidesLife() {
					t.Errorf("%s: schedule %d is %s, want three faults", tc.name, i, s.text())
				}
			case s.text() != tc.want[i].text():
				t.Errorf("%s: schedule %d is %s, want %s", tc.name, i, s.text(), tc.want[i].text())
			}
		}
		if len(got) < len(tc.want) || tc.triples != (len(got) > len(tc.want)) {
			t.Errorf("%s: %d schedules", tc.name, len(got))
		}
	}
	if all := inTurn([][]Choice{{a, b}, {}, {c}}); !slices.EqualFunc(all, []Choice{a, c, b}, func(x, y Choice) bool { return x.String() == y.String() }) {
		t.Errorf("in turn: %v", all)
	}
}
