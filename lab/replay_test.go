package lab

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
)

// copier returns an operator that makes a Secret with a generated name for the ConfigMap web, and notes afterwards that it has. A crash in
// between leaves two Secrets. Failed is called with each error of a request.
func copier(failed func(error)) Operator {
	return copierBy(func(ctx context.Context, c client.Client, secret *corev1.Secret) error { return c.Create(ctx, secret) }, failed)
}

// copierBy is a copier with its own way to create the Secret.
func copierBy(create func(ctx context.Context, c client.Client, secret *corev1.Secret) error, failed func(error)) Operator {
	copyOnce := func(ctx context.Context, c client.Client, original *corev1.ConfigMap) error {
		if original.Annotations["copied"] != "" {
			return nil
		}
		if err := create(ctx, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: original.Namespace, GenerateName: original.Name + "-"}}); err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&original.ObjectMeta, "copied", "true")
		return c.Update(ctx, original)
	}
	return operatorOf(func(ctx context.Context, c client.Client, original *corev1.ConfigMap) error {
		err := copyOnce(ctx, c, original)
		if err != nil {
			failed(err)
		}
		return err
	})
}

// operatorOf returns an operator that reconciles the ConfigMaps in the namespace default.
func operatorOf(reconciler func(ctx context.Context, c client.Client, original *corev1.ConfigMap) error) Operator {
	return Operator{Start: func(cfg *rest.Config) (manager.Manager, error) {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{
			Metrics:    server.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: ptr.To(true)},
			Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&coordinationv1.Lease{}}}},
		})
		if err != nil {
			return nil, err
		}
		c := mgr.GetClient()
		return mgr, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			original := &corev1.ConfigMap{}
			if err := c.Get(ctx, req.NamespacedName, original); err != nil || req.Namespace != "default" {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			return reconcile.Result{}, reconciler(ctx, c, original)
		}))
	}}
}

// copied is the scenario of a copier, in which the cluster itself does nothing.
func copied(only ...Fault) Scenario {
	original := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	return Scenario{Steps: []Step{Create(original)}, Controllers: []string{}, Only: only, Schedules: 3}
}

func ignore(error) {}

// twoSecrets is the schedule that shows the mistake of a copier.
var twoSecrets = Schedule{{Do: CrashAfter, At: Point{Action: "operator create secrets default/web-*", N: 1}}}

// write writes a finding as a user has changed it, and returns the path and the content of the file.
func write(t *testing.T, folder string, s saved) (path, text string) {
	t.Helper()
	content, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	path = filepath.Join(folder, s.fileName())
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path, string(content)
}

// TestAccepted explores an operator with a mistake that somebody has accepted for a while: the test does not fail, and the file stays.
func TestAccepted(t *testing.T) {
	t.Chdir(t.TempDir())
	path, before := write(t, filepath.Join("testdata", "lab", t.Name()), saved{Version: replayVersion, Check: convergence, Schedule: twoSecrets,
		Message:  "Secret default/web-*: 2 objects, want present",
		Accepted: &Acceptance{Reason: "see issue 7", Until: "2999-12-31"}})
	Explore(t, copier(ignore), copied(CrashAfter))
	after, err := os.ReadFile(path)
	if err != nil || string(after) != before {
		t.Errorf("the file is %s (%v), want %s", after, err, before)
	}
}

// TestReplayNames: go test -run TestX/REPLAY replays the saved findings, each under the name of its file, and explores nothing.
func TestReplayNames(t *testing.T) {
	t.Parallel()
	name := strings.TrimSuffix((&saved{Check: convergence, Schedule: twoSecrets}).fileName(), savedSuffix)
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestAccepted$/^REPLAY$/^"+name+"$").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "--- PASS: TestAccepted/REPLAY/" + name; !strings.Contains(string(out), want) {
		t.Errorf("the output lacks %q:\n%s", want, out)
	}
	if strings.Contains(string(out), "TestAccepted/EXPLORE") {
		t.Errorf("it explores:\n%s", out)
	}
}

// TestReplay replays files of all sorts, and runs schedules that come to the points of their faults or not.
func TestReplay(t *testing.T) {
	e, err := newExplorer(t, copier(ignore), copied())
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	if f, err := e.learn(); f != nil || err != nil {
		t.Fatal(f, err)
	}
	at := func(do Fault, action string) Schedule { return Schedule{{Do: do, At: Point{Action: action, N: 1}}} }
	const create, seen = "operator create secrets default/web-*", "operator see configmaps default/web added"
	accept := func(reason, until string) *Acceptance { return &Acceptance{Reason: reason, Until: until} }
	for _, tc := range []struct {
		name string
		file saved
		want string
	}{
		{"still fails", saved{Check: convergence, Schedule: twoSecrets}, "convergence: Secret default/web-*: 2 objects, want present"},
		{"mended", saved{Check: convergence, Schedule: at(Hold, seen)}, ""},
		{"proves nothing", saved{Check: convergence, Schedule: at(CrashAfter, "operator create secrets default/db-*")}, "so the file proves nothing"},
		{"no effect", saved{Check: convergence, Schedule: at(Fail, create)}, "external failure has no effect"},
		{"accepted", saved{Check: convergence, Schedule: twoSecrets, Accepted: accept("see issue 7", "2999-12-31")}, ""},
		{"accepted and mended", saved{Check: convergence, Schedule: at(Hold, seen), Accepted: accept("see issue 7", "2999-12-31")}, ""},
		{"expired", saved{Check: convergence, Schedule: twoSecrets, Accepted: accept("see issue 7", "2000-01-01")},
			"the finding was accepted until 2000-01-01 (see issue 7), and still exists: convergence: "},
		{"another check", saved{Check: orphan, Schedule: twoSecrets, Accepted: accept("see issue 7", "2999-12-31")},
			`the accepted finding is one of the check "orphan", and this is another: convergence: `},
		{"no reason", saved{Check: convergence, Schedule: twoSecrets, Accepted: accept(" ", "2999-12-31")}, "the acceptance has no reason: say why"},
		{"no end", saved{Check: convergence, Schedule: twoSecrets, Accepted: accept("see issue 7", "")}, "the acceptance has no end: name the last day"},
		{"no day", saved{Check: convergence, Schedule: twoSecrets, Accepted: accept("see issue 7", "31.12.2999")}, `the acceptance ends on "31.12.2999", which is no day`},
	} {
		tc.file.Version = replayVersion
		path, _ := write(t, t.TempDir(), tc.file)
		e.accepted = nil
		err := e.replayFile(path)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
		if want := tc.name == "accepted"; (len(e.accepted) == 1) != want {
			t.Errorf("%s: %d findings are accepted", tc.name, len(e.accepted))
		}
	}

	// Faults without an effect have not taken place.
	e.accepted = nil
	for _, s := range []Schedule{
		at(CrashAfter, "operator create secrets default/db-*"), // never happens
		at(Fail, create), at(FailLate, create), at(Freeze, create), at(Miss, create), at(Close, create),
		at(CrashAfter, seen), at(Conflict, seen), at(ServerError, seen), at(Lost, seen), at(Change, seen),
		slices.Concat(twoSecrets, at(Fail, create)),
	} {
		report, tried := &Report{}, newCoverage(&points{}, [][]Choice{s})
		e.try(s, report, tried)
		if report.Unreached != 1 || report.Schedules != 0 || len(report.Findings) > 0 {
			t.Errorf("%s: %d schedules did not come to the point of a fault, want 1; there are %d findings", s.text(), report.Unreached, len(report.Findings))
		}
		if f := tried.report().Faults[0]; f.Tried != 0 || f.Runs != 0 {
			t.Errorf("%s: the coverage counts it: %+v", s.text(), f)
		}
	}

	// An accepted finding is none, whatever schedule shows it.
	f := saved{Check: convergence, Schedule: at(Hold, seen), Message: "Secret default/web-*: 2 objects, want present"}
	report := &Report{}
	for _, e.accepted = range [][]saved{nil, {f}, {{Check: convergence, Schedule: twoSecrets, Steps: e.refs()}}, {{Check: orphan, Schedule: twoSecrets, Message: f.Message}}} {
		e.try(twoSecrets, report, newCoverage(&points{}, nil))
	}
	if report.Schedules != 4 || report.Accepted != 2 || len(report.Findings) != 1 {
		t.Errorf("%d schedules, %d accepted, %d findings, want 4, 2 and 1", report.Schedules, report.Accepted, len(report.Findings))
	}
}

// TestAcceptance: the day of an acceptance is its last one.
func TestAcceptance(t *testing.T) {
	a := &Acceptance{Reason: "see issue 7", Until: "2027-03-31"}
	for at, want := range map[string]bool{"2027-03-31T23:59:59Z": true, "2027-04-01T00:00:00Z": false} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := a.isInForce(now); got != want || err != nil {
			t.Errorf("at %s: %v, %v, want %v", at, got, err, want)
		}
	}
}

// TestSaveKeepsAcceptance writes a finding into the file of the same finding.
func TestSaveKeepsAcceptance(t *testing.T) {
	folder := t.TempDir()
	path, _ := write(t, folder, saved{Version: replayVersion, Check: convergence, Schedule: twoSecrets, Accepted: &Acceptance{Reason: "see issue 7", Until: "2000-01-01"}})
	again, err := (&Finding{Check: convergence, Schedule: twoSecrets, Message: "two Secrets"}).Save(folder)
	if err != nil || again != path {
		t.Fatalf("saved in %s (%v), want %s", again, err, path)
	}
	s, err := readSaved(path)
	if err != nil || s.Message != "two Secrets" || s.Accepted == nil || *s.Accepted != (Acceptance{Reason: "see issue 7", Until: "2000-01-01"}) {
		t.Errorf("the file has %+v with %+v (%v)", s, s.Accepted, err)
	}
}

// TestReadSchedule refuses files that are no findings of this version.
func TestReadSchedule(t *testing.T) {
	for _, tc := range []struct{ name, content, want string }{
		{"right", `{"version": 1, "schedule": [{"do": "hold", "at": {"action": "operator create pods default/a"}}]}`, ""},
		{"other version", `{"version": 2, "schedule": [{"do": "hold", "at": {"action": "x"}}]}`, "the file has version 2, and this lab reads version 1"},
		{"no version", `{"schedule": [{"do": "hold", "at": {"action": "x"}}]}`, "the file has version 0"},
		{"empty", `{"version": 1, "schedule": []}`, "the schedule is empty"},
		{"unknown field", `{"version": 1, "plan": []}`, `unknown field "plan"`},
		{"no JSON", `hold`, "not a finding of the lab"},
	} {
		path := filepath.Join(t.TempDir(), "finding.json")
		if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSchedule(path)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
		if tc.want == "" && len(s) != 1 {
			t.Errorf("%s: %d choices, want 1", tc.name, len(s))
		}
	}
}
