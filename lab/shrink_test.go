package lab

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
)

// learned returns an explorer that has carried out the clean runs.
func learned(t *testing.T, op Operator, scenario Scenario) *explorer {
	t.Helper()
	e, err := newExplorer(t, op, scenario)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	if f, err := e.learn(); f != nil || err != nil {
		t.Fatal(f, err)
	}
	return e
}

// idle is a schedule that shows the mistake of a copier, with two choices that do not matter and a process that stays down for long.
func idle() Schedule {
	return Schedule{
		{Do: Hold, At: Point{Action: "operator see configmaps default/web added", N: 1}, For: 10 * time.Second},
		{Do: CrashAfter, At: twoSecrets[0].At, Until: &Point{Action: "operator delete secrets default/web", N: 1}, For: time.Minute},
		{Do: Close, At: Point{Action: "operator see configmaps default/web modified", N: 1}},
	}
}

// TestShrink reduces a schedule to the choice that matters, without its end. The story tells the shrunk run.
func TestShrink(t *testing.T) {
	e := learned(t, copier(ignore), copied())
	report := &Report{}
	e.try(idle(), report, newCoverage(&points{}, nil))
	if len(report.Findings) != 1 {
		t.Fatalf("%d findings, want 1", len(report.Findings))
	}
	f := report.Findings[0]
	if f.Schedule.text() != twoSecrets.text() {
		t.Errorf("the schedule is %s, want %s", f.Schedule.text(), twoSecrets.text())
	}
	if !strings.HasPrefix(f.Story, "choice 1: "+twoSecrets.text()+"\n") || strings.Contains(f.Story, "choice 2") || strings.Contains(f.Story, "held") {
		t.Errorf("the story is not the one of the shrunk run:\n%s", f.Story)
	}
	if f.Divergence != "" || f.promise() != "go test replays it" {
		t.Errorf("a replay was another run: %s; %s", f.Divergence, f.promise())
	}
}

// TestUnrepeatable: a finding that a replay does not show, or shows after other writes, is not shrunk, and says what was different.
func TestUnrepeatable(t *testing.T) {
	runs, starts := 0, 0
	first := func() bool { return runs%2 == 1 } // the first of two runs
	for _, tc := range []struct {
		name   string
		create func(ctx context.Context, c client.Client, secret *corev1.Secret) error
		want   string
	}{
		{"other writes", func(ctx context.Context, c client.Client, secret *corev1.Secret) error {
			if first() {
				secret.Labels = map[string]string{"chance": "yes"}
			}
			return c.Create(ctx, secret)
		}, "write 2 was\n  operator created Secret default/web-*1: "},
		{"fewer writes", func(ctx context.Context, c client.Client, secret *corev1.Secret) error {
			if first() {
				return c.Create(ctx, secret)
			}
			return createOnce(ctx, c, secret)
		}, "and then\n  operator changed ConfigMap default/web: "},
		{"equal writes", func(ctx context.Context, c client.Client, secret *corev1.Secret) error {
			if starts == 2 && first() {
				go func() { <-make(chan struct{}) }()
			}
			return createOnce(ctx, c, secret)
		}, "nothing was found"},
	} {
		scenario := copied()
		scenario.Begin = func() { runs, starts = runs+1, 0 }
		op := copierBy(tc.create, ignore)
		op.Start = counted(&starts, op.Start)
		e := learned(t, op, scenario)
		runs = 0
		report := &Report{}
		e.try(idle(), report, newCoverage(&points{}, nil))
		if len(report.Findings) != 1 {
			t.Errorf("%s: %d findings, want 1", tc.name, len(report.Findings))
			continue
		}
		f := report.Findings[0]
		if f.Schedule.text() != idle().text() {
			t.Errorf("%s: the schedule was shrunk to %s", tc.name, f.Schedule.text())
		}
		if !strings.Contains(f.Divergence, tc.want) || !strings.Contains(f.Story, f.Divergence) {
			t.Errorf("%s: a replay differs by %q, want %q, and the story is\n%s", tc.name, f.Divergence, tc.want, f.Story)
		}
		if !strings.Contains(f.promise(), "need not show it") {
			t.Errorf("%s: the finding depends on chance, and %s", tc.name, f.promise())
		}
		if runs != 2 {
			t.Errorf("%s: %d runs, want 2", tc.name, runs)
		}
	}
}

// createOnce creates a Secret if there is none.
func createOnce(ctx context.Context, c client.Client, secret *corev1.Secret) error {
	secrets := &corev1.SecretList{}
	if err := c.List(ctx, secrets, client.InNamespace(secret.Namespace)); err != nil || len(secrets.Items) > 0 {
		return err
	}
	return c.Create(ctx, secret)
}

// TestConfirmLive: a second run confirms a finding of an exploration in real time, or the finding says that it does not.
func TestConfirmLive(t *testing.T) {
	for _, tc := range []struct {
		name       string
		chance     bool // only the first run shows the mistake
		replay     Schedule
		runs       int
		divergence string
	}{
		{"always", false, nil, 2, ""},
		{"by chance", true, nil, 2, "nothing was found"},
		{"replay", true, twoSecrets, 1, ""},
	} {
		runs := 0
		scenario := copied(CrashAfter)
		scenario.Begin = func() { runs++ }
		e := learned(t, copierBy(func(ctx context.Context, c client.Client, secret *corev1.Secret) error {
			if tc.chance && runs > 1 {
				return createOnce(ctx, c, secret)
			}
			return c.Create(ctx, secret)
		}, ignore), scenario)
		e.progress, runs = t.Output(), 0
		report := e.searchLive(LiveOptions{Runs: 1, Replay: tc.replay}, e.points())
		if len(report.Findings) != 1 || report.Schedules != 1 || runs != tc.runs {
			t.Errorf("%s: %d findings, %d schedules, %d runs", tc.name, len(report.Findings), report.Schedules, runs)
			continue
		}
		if f := report.Findings[0]; f.Divergence != tc.divergence || strings.Contains(f.Story, "a replay need not show this") != (tc.divergence != "") {
			t.Errorf("%s: a second run differs by %q, want %q\n%s", tc.name, f.Divergence, tc.divergence, f.Story)
		}
	}
}

// TestExploreFlag: the flag sets a time instead of the number of schedules.
func TestExploreFlag(t *testing.T) {
	e := learned(t, copier(ignore), copied(ServerError, Refuse, Lost))
	e.scenario.Schedules = 1
	t.Cleanup(func() { *exploreFor = 0 })
	for _, tc := range []struct {
		flag     string
		enough   int // findings
		findings int
		more     bool // than one schedule
	}{
		{"0", 1, 0, false},
		{"1h", 1, 1, true},
	} {
		if err := flag.Set("flyball.explore", tc.flag); err != nil {
			t.Fatal(err)
		}
		report := e.search(tc.enough)
		if len(report.Findings) != tc.findings || report.Schedules > 1 != tc.more {
			t.Errorf("%s: %d schedules and %d findings", tc.flag, report.Schedules, len(report.Findings))
		}
	}
}

// TestShortTime: a time that is over before the first schedule is too short, and there is nothing else wrong.
func TestShortTime(t *testing.T) {
	e := learned(t, copier(ignore), copied())
	e.progress = t.Output()
	t.Cleanup(func() { *exploreFor = 0 })
	for _, tc := range []struct {
		time time.Duration
		only []Fault
		want string // in the error
	}{
		{time.Nanosecond, nil, "is too short"},
		{time.Nanosecond, []Fault{Fail}, "no point at which a fault makes sense"}, // whatever the time
		{time.Hour, []Fault{Fail}, "no point at which a fault makes sense"},
	} {
		*exploreFor, e.scenario.Only = tc.time, tc.only
		if err := e.search(1).errNoFault(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v for %v: %v, want %q", tc.only, tc.time, err, tc.want)
		}
		if err := e.searchLive(LiveOptions{Time: tc.time}, e.points()).errNoFault(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v for %v, with a program: %v, want %q", tc.only, tc.time, err, tc.want)
		}
	}
}

// counted counts the starts of an operator.
func counted(n *int, start func(*rest.Config) (manager.Manager, error)) func(*rest.Config) (manager.Manager, error) {
	return func(cfg *rest.Config) (manager.Manager, error) {
		*n++
		return start(cfg)
	}
}

// TestShrinkSteps leaves out the steps that a finding does not need. The points of the faults get other numbers, and the file of the finding
// has the steps, with which a replay shows the finding again.
func TestShrinkSteps(t *testing.T) {
	label := func(value string) Step {
		return Update(named("web"), func(c *corev1.ConfigMap) { c.Labels = map[string]string{"tier": value} })
	}
	want := Update(named("web"), func(c *corev1.ConfigMap) { c.Data = map[string]string{"secret": "yes"} })
	lives := []Step{Create(named("web")), Create(named("db")), label("front"), Remove(named("web")), Create(named("web")), Remove(named("db"))}
	crash := func(n int) Schedule {
		return Schedule{{Do: CrashAfter, At: Point{Action: twoSecrets[0].At.Action, N: n}}}
	}
	recreate := func(n int) Schedule {
		return Schedule{{Do: Recreate, At: Point{Action: atRest, N: n}, Object: "ConfigMap default/db"}}
	}
	travel := func(n int) Schedule {
		modified := "operator see configmaps default/web modified"
		return Schedule{{Do: TimeTravel, At: Point{Action: modified, N: n}, Until: &Point{Action: modified, N: n + 1}}}
	}
	for _, tc := range []struct {
		name     string
		op       Operator
		steps    []Step
		schedule Schedule
		want     Schedule
		left     []int
	}{
		{"the first life", copier(ignore), lives, crash(1), crash(1), []int{1}},
		{"the second life", copier(ignore), lives, crash(2), crash(1), []int{5}},
		{"at rest", copier(ignore), lives, recreate(2), recreate(1), []int{2}},
		{"until", operatorOf(switched), []Step{Create(named("web")), label("front"), want, label("back")}, travel(2), travel(1), []int{1, 3, 4}},
	} {
		scenario := copied()
		scenario.Steps = tc.steps
		e := learned(t, tc.op, scenario)
		report := &Report{}
		e.try(tc.schedule, report, newCoverage(&points{}, nil))
		if len(report.Findings) != 1 {
			t.Errorf("%s: %d findings, want 1", tc.name, len(report.Findings))
			continue
		}
		f := report.Findings[0]
		var left []StepRef
		for _, n := range tc.left {
			left = append(left, StepRef{N: n, Name: tc.steps[n-1].Name})
		}
		if f.Schedule.text() != tc.want.text() || !slices.Equal(f.Steps, left) {
			t.Errorf("%s: shrunk to %s with the steps %v, want %s with %v", tc.name, f.Schedule.text(), f.Steps, tc.want.text(), left)
			continue
		}
		line := fmt.Sprintf("\nonly step %d: %s\n", left[0].N, left[0].Name)
		if !strings.Contains(f.Story, line) || strings.Count(f.Story, "· "+stepPrefix) != len(left) {
			t.Errorf("%s: the story lacks %q, or has other steps:\n%s", tc.name, line, f.Story)
		}
		path, err := f.Save(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := e.replayFile(path); err == nil || !strings.Contains(err.Error(), f.Message) {
			t.Errorf("%s: replaying the file: %v, want %s", tc.name, err, f.Message)
		}
		if len(e.scenario.Steps) != len(tc.steps) || e.steps != nil || len(e.known.rests) != len(tc.steps) {
			t.Errorf("%s: the scenario has %d steps afterwards, and its clean run %d rests", tc.name, len(e.scenario.Steps), len(e.known.rests))
		}
	}
}

// TestOtherSteps: a file with steps that the scenario does not have proves nothing, and neither does one with steps that fail by themselves.
func TestOtherSteps(t *testing.T) {
	web := named("web")
	scenario := copied()
	scenario.Steps = []Step{Create(web), Remove(web)}
	e := learned(t, copier(ignore), scenario)
	for _, tc := range []struct {
		steps []StepRef
		want  string
	}{
		{[]StepRef{{N: 1, Name: "create default/db"}}, `the scenario has no step 1 "create default/db" any more`},
		{[]StepRef{{N: 3, Name: "create default/web"}}, `the scenario has no step 3 "create default/web" any more`},
		{[]StepRef{{Name: "create default/web"}}, `the scenario has no step 0 "create default/web" any more`},
		{[]StepRef{{N: 2, Name: "delete default/web"}}, `the clean run has a finding: step: the step "delete default/web" failed`},
	} {
		path, _ := write(t, t.TempDir(), saved{Version: replayVersion, Check: convergence, Schedule: twoSecrets, Steps: tc.steps})
		if err := e.replayFile(path); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.steps, err, tc.want)
		}
		if _, err := ReadSchedule(path); err == nil || !strings.Contains(err.Error(), "which go test replays") {
			t.Errorf("%v: ReadSchedule: %v", tc.steps, err)
		}
	}
}

// TestChangedSteps: the file of a finding names its steps, also if it needs all. A replay says that one of them has another name or another
// place in the scenario, and leaves out a new one.
func TestChangedSteps(t *testing.T) {
	web, db := named("web"), named("db")
	renamed := Create(web)
	renamed.Name = "create the first one"
	scenario := copied()
	e := learned(t, copier(ignore), scenario)
	report := &Report{}
	e.try(twoSecrets, report, newCoverage(&points{}, nil))
	if len(report.Findings) != 1 {
		t.Fatalf("%d findings, want 1", len(report.Findings))
	}
	path, err := report.Findings[0].Save(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	found := report.Findings[0].Message
	const gone = `the scenario has no step 1 "create default/web" any more: delete the file and explore again`
	for _, tc := range []struct {
		name  string
		steps []Step
		want  string
	}{
		{"as they were", scenario.Steps, found},
		{"renamed", []Step{renamed}, gone},
		{"another order", []Step{Create(db), Create(web)}, gone},
		{"one more", []Step{Create(web), Remove(web)}, found},
	} {
		scenario.Steps = tc.steps
		if err := learned(t, copier(ignore), scenario).replayFile(path); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// named returns a ConfigMap that a copier copies.
func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}
