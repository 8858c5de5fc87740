package copy

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
	_ "flyball.dev/internal/orphans"
	"flyball.dev/internal/testlevel"
	"flyball.dev/lab"
)

// reader is set in the process in which TestCopies fails, as the guide says.
const reader = "FLYBALL_LAB_GUIDE"

// TestMain leaves out TestCopies, which fails.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(reader) == "" {
		if err := flag.Set("test.skip", "^TestCopies$"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// mended is the reconciler at the end of the guide.
type mended struct{ client.Client }

func (r *mended) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	original := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, original); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if original.Labels["copy"] == "" {
		return ctrl.Result{}, nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	err := r.Get(ctx, req.NamespacedName, secret)
	if err == nil && !metav1.IsControlledBy(secret, original) {
		err = errors.New("the Secret belongs to somebody else")
	}
	if client.IgnoreNotFound(err) != nil || err == nil {
		return ctrl.Result{}, err
	}
	if err := ctrl.SetControllerReference(original, secret, r.Scheme()); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Create(ctx, secret)
}

// operator returns the mended operator. A silent one returns no error for a Secret of somebody else.
func operator(silent bool) lab.Operator {
	return lab.Operator{Start: func(cfg *rest.Config) (manager.Manager, error) {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{
			Metrics:    server.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: new(true)},
		})
		if err != nil {
			return nil, err
		}
		var r reconcile.Reconciler = &mended{mgr.GetClient()}
		if silent {
			r = reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
				result, err := (&mended{mgr.GetClient()}).Reconcile(ctx, req)
				if err != nil && strings.Contains(err.Error(), "belongs to somebody else") {
					err = nil
				}
				return result, err
			})
		}
		return mgr, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(r)
	}}
}

// scenario creates a ConfigMap to copy.
func scenario() lab.Scenario {
	original := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"copy": "yes"}}}
	return lab.Scenario{Steps: []lab.Step{lab.Create(original)}, Schedules: testlevel.Rounds(50, 300)}
}

// TestMended finds nothing in the mended operator.
func TestMended(t *testing.T) { lab.Explore(t, operator(false), scenario()) }

// TestWithoutError finds that nothing wakes the mended operator if it returns no error for a Secret of somebody else.
func TestWithoutError(t *testing.T) {
	report, err := lab.Find(t, operator(true), scenario())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) != 1 || report.Findings[0].Check != "convergence" {
		t.Errorf("found %+v, want that the Secret is absent", report.Findings)
	}
}

// guide returns the part of docs/lab.md that begins with an empty folder.
func guide(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Ten minutes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// TestFirstFinding runs the operator of the guide, and compares its first finding with the guide's.
func TestFirstFinding(t *testing.T) {
	testlevel.NeedsFull(t, "explores until there are three findings, and shrinks each")
	section := guide(t)
	_, story, ok := strings.Cut(section, "The first of its findings is\n\n")
	story, _, ok2 := strings.Cut(story, "\n\nThe operator crashed")
	if !ok || !ok2 {
		t.Fatal("docs/lab.md has no story")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCopies$")
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), reader+"=yes")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Fatalf("exit code %d (%v), want 1:\n%s", code, err, out)
	}
	rest := string(out)
	for line := range strings.Lines(story) {
		line = strings.TrimSpace(line)
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Fatalf("the run does not print %q after the lines before it:\n%s", line, out)
		}
		rest = after
	}
}

// TestCode compares the code of the guide with the one of this package, but for its indentation.
func TestCode(t *testing.T) {
	indent := regexp.MustCompile(`(?m)^\t+`)
	source := ""
	for _, name := range []string{"copy_test.go", "guide_test.go"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source += indent.ReplaceAllString(string(content), "")
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(guide(t), -1)
	if len(blocks) != 2 {
		t.Fatalf("the guide has %d pieces of code", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(source, strings.TrimSpace(indent.ReplaceAllString(block[1], ""))) {
			t.Errorf("the package has no such code:\n%s", block[1])
		}
	}
}
