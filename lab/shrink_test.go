package lab

import (
	"context"
	"flag"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	once := func(ctx context.Context, c client.Client, secret *corev1.Secret) error {
		secrets := &corev1.SecretList{}
		if err := c.List(ctx, secrets, client.InNamespace(secret.Namespace)); err != nil || len(secrets.Items) > 0 {
			return err
		}
		return c.Create(ctx, secret)
	}
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
			return once(ctx, c, secret)
		}, "and then\n  operator changed ConfigMap default/web: "},
		{"equal writes", func(ctx context.Context, c client.Client, secret *corev1.Secret) error {
			if starts == 2 && first() {
				go func() { <-make(chan struct{}) }()
			}
			return once(ctx, c, secret)
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
