package zoo

import (
	"slices"
	"strings"
	"testing"
	"time"

	"flyball.dev/internal/testlevel"
	"flyball.dev/lab"
)

// longest is how long it may take two cores to find a mistake, in time of a core. A core that others use, too, takes longer.
const longest = 20 * time.Second

// soon are the operators with the mistakes of beginners, which 30 schedules must find.
var soon = []string{"missing requeue", "double create", "forgotten finalizer"}

// explored returns an operator of the zoo and its scenario.
func explored(a *animal, right bool) (lab.Operator, lab.Scenario) {
	world := &external{buckets: map[string]int{}}
	return operator(a, right, world), a.scenarioOf(world)
}

// TestMistakes finds the mistake of each operator of the zoo.
func TestMistakes(t *testing.T) {
	for i := range animals {
		a := &animals[i]
		t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) {
			began := used(t)
			found := findMistake(t, a)
			took := used(t) - began
			f := found.Findings[0]
			if len(f.Schedule) > 10 {
				t.Errorf("the schedule has %d choices", len(f.Schedule))
			}
			if f.Divergence != "" && f.Check != "replay" {
				t.Errorf("a replay was another run: %s", f.Divergence)
			}
			if testlevel.Full() && took > longest {
				t.Errorf("it took %v to find", took)
			}
			t.Logf("%s after %d schedules in %v: %s\n%s", f.Check, found.Schedules, took, f.Message, f.Schedule)
		})
	}
}

// mistakes are the reports with the mistakes that were found, by the name of the operator.
var mistakes = map[string]*lab.Report{}

// findMistake finds the mistake of an operator.
func findMistake(t *testing.T, a *animal) *lab.Report {
	if found := mistakes[a.name]; found != nil {
		return found
	}
	op, scenario := explored(a, false)
	scenario.Schedules = 150
	if slices.Contains(soon, a.name) {
		scenario.Schedules = 30
	}
	found, err := lab.Find(t, op, scenario)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Findings) == 0 {
		t.Fatalf("not found in %d schedules\n%s", found.Schedules, found.Coverage)
	}
	mistakes[a.name] = found
	return found
}

// TestTwins finds nothing in the operators without mistakes.
func TestTwins(t *testing.T) {
	for i := range animals {
		a := &animals[i]
		t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) {
			op, scenario := explored(a, true)
			scenario.Schedules = testlevel.Rounds(10, 500)
			lab.Explore(t, op, scenario)
		})
	}
}

// TestCorrections: an operator may delete what it has made from an old view.
func TestCorrections(t *testing.T) {
	for _, name := range []string{"half resize", "stale resize"} {
		op, scenario := explored(find(t, name), true)
		scenario.Schedules, scenario.Only = 15, []lab.Fault{lab.TimeTravel, lab.TimeTravelKind}
		report, err := lab.Find(t, op, scenario)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Findings {
			t.Errorf("%s: %s: %s\n%s", name, f.Check, f.Message, f.Story)
		}
	}
}

// TestRemoved removes each class of faults and each check in turn, and shows that the mistake of an operator stays unfound
// then, in more schedules than find it with all faults and checks.
func TestRemoved(t *testing.T) {
	testlevel.NeedsFull(t, "explores 38 operators, with more schedules than find their mistakes")
	never := lab.Faults() // removed
	for _, tc := range []struct {
		name   string
		faults []lab.Fault
		checks []string
		animal string
	}{
		{"restarts", []lab.Fault{lab.CrashBefore, lab.CrashAfter, lab.TimeTravel, lab.TimeTravelKind}, nil, "without finalizer"},
		{"stale views", []lab.Fault{lab.Freeze, lab.FreezeKind, lab.TimeTravel, lab.TimeTravelKind}, nil, "reused name"},
		{"restarts on a stale view of one kind", []lab.Fault{lab.TimeTravelKind}, nil, "stale resize"},
		{"a stale view of all kinds", []lab.Fault{lab.Freeze}, nil, "old permission"},
		{"bookmarks without events", []lab.Fault{lab.Bookmarks}, nil, "late event"},
		{"refused requests", []lab.Fault{lab.Conflict, lab.TooMany, lab.ServerError, lab.Refuse, lab.Timeout}, nil, "terminal refusal"},
		{"lost responses", []lab.Fault{lab.LateTimeout, lab.Lost}, nil, "unread answer"},
		{"broken watches", []lab.Fault{lab.Close, lab.Expire, lab.Miss, lab.Bookmarks, lab.Jump}, nil, "deaf"},
		{"hidden events", []lab.Fault{lab.Miss, lab.Bookmarks, lab.Expire}, nil, "unseen deletion"},
		{"stopped processes", []lab.Fault{lab.Pause, lab.Jump}, nil, "no deadline"},
		{"clock jumps", []lab.Fault{lab.Jump}, nil, "impatience"},
		{"slow controllers", []lab.Fault{lab.Slow}, nil, "inherited part"},
		{"edits of users", []lab.Fault{lab.Change}, nil, "only grows"},
		{"late actions", []lab.Fault{lab.Hold}, nil, "unordered writes"},
		{"external failures", []lab.Fault{lab.Fail, lab.FailLate}, nil, "ignored failure"},
		{"lost Leases", []lab.Fault{lab.Depose, lab.Pause, lab.Jump}, nil, "writes on"},
		{"deletions by others", []lab.Fault{lab.Delete, lab.Recreate}, nil, "unwatched part"},
		{"replacement by others", []lab.Fault{lab.Recreate}, nil, "wrong owner"},
		{"crashes before a write", []lab.Fault{lab.CrashBefore}, nil, "first look"},
		{"too many requests", []lab.Fault{lab.TooMany}, nil, "overload"},
		{"timeouts without effect", []lab.Fault{lab.Timeout}, nil, "assumed effect"},
		{"broken connections", []lab.Fault{lab.Lost}, nil, "broken connection"},
		{"other holders", []lab.Fault{lab.Depose}, nil, "heirless"},
		{"writes of others", []lab.Fault{lab.Conflict, lab.Edit}, nil, "ignored conflict"},

		{"convergence", nil, []string{"convergence"}, "late owner"},
		{"second pass", nil, []string{"second pass"}, "restless"},
		{"hot loop", nil, []string{"hot loop"}, "hot loop"},
		{"observed generation", nil, []string{"observed generation"}, "unfinished generation"},
		{"orphan", nil, []string{"orphan"}, "old owner"},
		{"panic", nil, []string{"panic"}, "panic"},
		{"needless deletion", nil, []string{"needless deletion"}, "reused name"},
		{"finalizer", nil, []string{"finalizer"}, "forgotten deletion"},
		{"foreign object", nil, []string{"foreign object"}, "wrong owner"},
		{"leadership", nil, []string{"leadership"}, "writes on"},
		{"goroutine", nil, []string{"goroutine"}, "leak"},
		{"invariant", nil, []string{"invariant"}, "two buckets"},
		{"step", nil, []string{"step"}, "unusable bucket"},
		{"start", nil, []string{"start"}, "dirty"},
		{"operator", nil, []string{"operator"}, "gives up"},
		{"replay", nil, []string{"replay"}, "dice"},
	} {
		never = slices.DeleteFunc(never, func(f lab.Fault) bool { return slices.Contains(tc.faults, f) })
		t.Run(strings.ReplaceAll(tc.name, " ", "-"), func(t *testing.T) {
			a := find(t, tc.animal)
			op, scenario := explored(a, false)
			scenario.Schedules, scenario.Without = findMistake(t, a).Schedules+20, tc.checks
			scenario.Only = slices.DeleteFunc(lab.Faults(), func(f lab.Fault) bool { return slices.Contains(tc.faults, f) })
			report, err := lab.Find(t, op, scenario)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Findings {
				t.Errorf("%s is found all the same: %s: %s\n%s", tc.animal, f.Check, f.Message, f.Story)
			}
		})
	}
	if len(never) > 0 {
		t.Errorf("the faults %v are never removed", never)
	}
}

// TestOwnWrites finds the mistake of an operator that does not read its own writes, and not if it does.
func TestOwnWrites(t *testing.T) {
	a := *find(t, "lost part")
	needed := findMistake(t, &a).Schedules
	a.stale = false
	op, scenario := explored(&a, false)
	scenario.Schedules = needed + testlevel.Rounds(20, 500)
	report, err := lab.Find(t, op, scenario)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Errorf("%s: %s\n%s", f.Check, f.Message, f.Story)
	}
}

// TestReplay carries out each schedule twice. The writes are the same, in content and order.
func TestReplay(t *testing.T) {
	for _, name := range []string{"memory", "two buckets", "broad selection"} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			op, scenario := explored(find(t, name), true)
			scenario.Schedules, scenario.Twice = testlevel.Rounds(30, 1000), true
			lab.Explore(t, op, scenario)
		})
	}
}
