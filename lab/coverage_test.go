package lab

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCoverage counts places, tried places and runs.
func TestCoverage(t *testing.T) {
	create, see := Point{Action: "operator create pods default/a", N: 1}, Point{Action: "operator see pods default/a added", N: 1}
	again := Point{Action: create.Action, N: 2}
	rest := func(n int) Choice { return Choice{Do: CrashBefore, At: Point{Action: atRest, N: n}} }
	lost := func(at Point) Choice { return Choice{Do: CrashAfter, At: at} }
	change := Choice{Do: Change, At: Point{Action: atRest, N: 1}, Object: "Widget.zoo default/a", Patch: json.RawMessage(`{"spec":{"size":2}}`)}
	removed := Choice{Do: Delete, At: again, Object: "Pod default/a"}
	families := [][]Choice{
		{rest(0), rest(1), rest(2), {Do: CrashBefore, At: create}},
		{lost(create), lost(again)},
		{removed, removed}, // an object with the name of an earlier one
		{{Do: Miss, At: see}},
		{change},
	}
	c := newCoverage(&points{writes: []Point{create, again}, sights: []Point{see}}, families)
	for _, s := range []Schedule{
		{rest(0)}, {rest(1)}, {rest(2)}, // with two steps, there are three rests
		{lost(create), lost(again)},
		{lost(create)},
		{removed},
		{removed, lost(create)},
		{{Do: Miss, At: see}},
		{{Do: Miss, At: see, Until: &again}}, // which nobody has planned
		{change},
	} {
		c.add(s)
	}
	r := c.report()
	want := map[Fault]FaultCoverage{
		CrashBefore: {Points: 4, Tried: 3, Runs: 3},
		CrashAfter:  {Points: 2, Tried: 2, Runs: 3},
		Delete:      {Points: 1, Tried: 1, Runs: 2},
		Miss:        {Points: 1, Tried: 1, Runs: 2},
		Change:      {Points: 1, Tried: 1, Runs: 1},
	}
	for _, got := range r.Faults {
		w := want[got.Fault]
		if w.Fault = got.Fault; got != w {
			t.Errorf("%s: %+v, want %+v", got.Fault, got, w)
		}
		delete(want, got.Fault)
	}
	if len(want) > 0 {
		t.Errorf("the coverage lacks %v", slices.Sorted(maps.Keys(want)))
	}
	for name, at := range map[string][]Fault{create.String(): {CrashAfter}, again.String(): {CrashAfter, Delete}} {
		if !slices.Equal(r.Writes[name], at) {
			t.Errorf("at %s: %q, want %q", name, r.Writes[name], at)
		}
	}
	if want := map[string][]Fault{string(CrashAfter): {CrashAfter, Delete}}; !maps.EqualFunc(r.Pairs, want, slices.Equal) {
		t.Errorf("pairs %q, want %q", r.Pairs, want)
	}
	if !slices.Equal(r.Kinds["pods"], []Fault{Miss}) {
		t.Errorf("faults of the view of pods: %q", r.Kinds["pods"])
	}
	if want := []string{`Widget.zoo default/a {"spec":{"size":2}}`}; !slices.Equal(r.Edits, want) {
		t.Errorf("changes %q, want %q", r.Edits, want)
	}
	for _, want := range []string{"crash before                    3 of    4, in 3 runs\n", "operator create pods default/a #2: crash after, delete\n", "custom resources: 1\n",
		"pairs of faults in one run, 2 of 15:\n  crash after: crash after, delete\n"} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, r)
		}
	}
}

// TestSaveCoverage writes the coverage to the folder of the flag, and nothing without it.
func TestSaveCoverage(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "coverage")
	e := &explorer{name: "TestOrders_web"}
	saved := Coverage{Faults: []FaultCoverage{{Fault: Lost, Points: 4, Tried: 3, Runs: 7}}, Writes: map[string][]Fault{"operator create pods default/a": {Lost}}}
	if err := e.saveCoverage(&saved); err != nil {
		t.Fatal(err)
	}
	defer func(before string) { *coverageDir = before }(*coverageDir)
	*coverageDir = folder
	if err := e.saveCoverage(&saved); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != "TestOrders_web.json" {
		t.Fatalf("files %q (%v), want TestOrders_web.json", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"fault": "lost response"`, `"points": 4`, `"tried": 3`, `"runs": 7`, `"writes": {`} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the file lacks %s:\n%s", want, content)
		}
	}
}
