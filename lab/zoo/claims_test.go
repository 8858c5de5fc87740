package zoo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/manager"
	_ "flyball.dev/internal/orphans"
	"flyball.dev/lab"
)

// crowd returns an operator with all that makes a run hard to repeat: ten reconciles at once, goroutines of its own, the
// clock, random numbers, and an informer of client-go beside the cache of the manager. If it is not right, it creates
// each part once.
func crowd(right bool) lab.Operator {
	return lab.Operator{
		CRDs: []*apiextensionsv1.CustomResourceDefinition{definition()}, Scheme: scheme,
		Start: func(cfg *rest.Config) (manager.Manager, error) {
			mgr, err := newManager(cfg, false, false)
			if err != nil {
				return nil, err
			}
			clients, err := kubernetes.NewForConfig(mgr.GetConfig())
			if err != nil {
				return nil, err
			}
			factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace("default"))
			secrets := factory.Core().V1().Secrets()
			synced := secrets.Informer().HasSynced
			var made sync.Map
			e := &env{Client: mgr.GetClient(), config: cfg, right: right}
			return mgr, firstOf(
				mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
					factory.StartWithContext(ctx)
					<-ctx.Done()
					factory.Shutdown()
					return nil
				})),
				mgr.Add(manager.RunnableFunc(e.sweep)),
				ctrl.NewControllerManagedBy(mgr).Named("crowd").For(&Widget{}).Owns(&corev1.ConfigMap{}).
					WithOptions(controller.Options{MaxConcurrentReconciles: 10}).
					Complete(reconcilerFunc(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
						w := &Widget{}
						if err := e.Get(ctx, req.NamespacedName, w); err != nil {
							return ctrl.Result{}, client.IgnoreNotFound(err)
						}
						if !synced() {
							return ctrl.Result{RequeueAfter: time.Second}, nil
						}
						size := "1"
						if s, err := secrets.Lister().Secrets("default").Get("size"); err == nil {
							size = string(s.Data["size"])
						} else if !apierrors.IsNotFound(err) {
							return ctrl.Result{}, err
						}
						return e.keep(ctx, w, size, &made)
					})))
		},
	}
}

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// keep keeps the part of a Widget, with two writes from two goroutines.
func (e *env) keep(ctx context.Context, w *Widget, size string, made *sync.Map) (ctrl.Result, error) {
	part := newPart(w, w.Name)
	part.Data["kind"] = size
	metav1.SetMetaDataAnnotation(&part.ObjectMeta, "zoo.flyball.dev/made", fmt.Sprint(time.Now(), rand.Int()))
	done := make(chan error, 2)
	go func() { done <- setReady(ctx, e, w) }()
	go func() {
		found := &corev1.ConfigMap{}
		err := e.Get(ctx, client.ObjectKeyFromObject(part), found)
		switch {
		case apierrors.IsNotFound(err):
			if _, again := made.LoadOrStore(w.Name, true); e.right || !again {
				err = e.Create(ctx, part)
			}
		case err == nil && !metav1.IsControlledBy(found, w):
			err = fmt.Errorf("the ConfigMap %s belongs to somebody else", part.Name)
		case err == nil && (found.Data["size"] != part.Data["size"] || found.Data["kind"] != size):
			found.Data = part.Data
			err = e.Update(ctx, found)
		}
		done <- err
	}()
	first, second := <-done, <-done
	if first == nil {
		first = second
	}
	if first != nil {
		return ctrl.Result{}, first
	}
	return ctrl.Result{RequeueAfter: rePeriod}, nil // the informer wakes nobody
}

// sweep looks at all parts at times that nobody knows in advance, and writes nothing.
func (e *env) sweep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(30*time.Second + time.Duration(rand.Int64N(int64(time.Second)))):
		}
		if err := e.List(ctx, &corev1.ConfigMapList{}); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// crowded has twelve Widgets at once.
func crowded() lab.Scenario {
	all := func(name string, do func(ctx context.Context, c client.Client, w *Widget) error) lab.Step {
		return lab.Step{Name: name, Do: func(ctx context.Context, c client.Client) error {
			for i := range 12 {
				if err := do(ctx, c, newWidget(fmt.Sprintf("w-%02d", i), WidgetSpec{Size: int64(i)})); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	size := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "size"}, Data: map[string][]byte{"size": []byte("2")}}
	return lab.Scenario{Steps: []lab.Step{
		lab.Create(size),
		all("create", func(ctx context.Context, c client.Client, w *Widget) error { return c.Create(ctx, w) }),
		all("change", func(ctx context.Context, c client.Client, w *Widget) error {
			before := client.MergeFrom(w.DeepCopyObject().(client.Object))
			w.Spec.Size += 100
			return c.Patch(ctx, w, before)
		}),
	}}
}

// TestCrowd explores an operator that does ten things at once, by its own clock and dice.
func TestCrowd(t *testing.T) {
	scenario := crowded()
	scenario.Schedules = 25
	lab.Explore(t, crowd(true), scenario)
	report, err := lab.Find(t, crowd(false), scenario)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) == 0 {
		t.Errorf("parts that are not restored are not found in %d schedules", report.Schedules)
	}
}

// TestChance finds that an operator throws dice, and says where.
func TestChance(t *testing.T) {
	f := findMistake(t, find(t, "dice")).Findings[0]
	if f.Check != "replay" || !strings.Contains(f.Message, " ConfigMap default/web-") {
		t.Errorf("%s: %s", f.Check, f.Message)
	}
}

// TestUnrepeatable finds the mistake of an operator that throws dice, and says that a replay need not show it.
func TestUnrepeatable(t *testing.T) {
	op, scenario := explored(&animal{name: "thrown", reconcile: func(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
		part := newPart(w, w.Name)
		metav1.SetMetaDataAnnotation(&part.ObjectMeta, "zoo.flyball.dev/dice", fmt.Sprint(rand.Int()))
		if err := ensure(ctx, e, w, part); err != nil {
			return ctrl.Result{}, nil // which is the mistake
		}
		return ctrl.Result{}, setReady(ctx, e, w)
	}}, false)
	report, err := lab.Find(t, op, scenario)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) != 1 {
		t.Fatalf("not found in %d schedules", report.Schedules)
	}
	f := report.Findings[0]
	if f.Check != "convergence" || !strings.Contains(f.Divergence, "zoo.flyball.dev/dice") || !strings.Contains(f.Story, f.Divergence) {
		t.Errorf("%s: %s; a replay differs by %q\n%s", f.Check, f.Message, f.Divergence, f.Story)
	}
}

// TestPanicElsewhere explores an operator with a panic in a goroutine of its own, which ends the process. The next process names the
// schedule, and the one after the mend replays it.
func TestPanicElsewhere(t *testing.T) {
	const mode = "FLYBALL_ZOO_PANIC"
	if kind := os.Getenv(mode); kind != "" {
		op, scenario := explored(&animal{name: "elsewhere", reconcile: func(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
			result, err := quiet(ctx, e, w)
			if err != nil && !e.right {
				done := make(chan struct{})
				go func() { defer close(done); panic("the answer is an error") }()
				<-done
			}
			return result, err
		}}, kind == "mended")
		scenario.Schedules, scenario.Only = 5, []lab.Fault{lab.ServerError}
		lab.Explore(t, op, scenario)
		return
	}
	folder := t.TempDir()
	for _, step := range []struct {
		mode string
		code int
		want string
	}{
		{"fresh", 2, "panic: the answer is an error"},
		{"again", 1, "panic in a goroutine of the operator, which ended the test process: the answer is an error"},
		{"mended", 0, "replaying testdata/lab/TestPanicElsewhere/panic-"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanicElsewhere$", "-test.v")
		cmd.Dir, cmd.Env = folder, append(os.Environ(), mode+"="+step.mode)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != step.code || !strings.Contains(string(out), step.want) {
			t.Fatalf("%s: exit code %d (%v), want %d and %q:\n%s", step.mode, code, err, step.code, step.want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "testdata", "lab", "TestPanicElsewhere", "unfinished")); err == nil {
		t.Error("the journal is left")
	}
}
