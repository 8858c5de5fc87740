package zoo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/internal/testlevel"
	"flyball.dev/lab"
)

// program returns an operator of the zoo that speaks HTTPS with the lab, in a process that is a goroutine here.
func program(a *animal, right bool) lab.Program {
	op := operator(a, right, &external{buckets: map[string]int{}})
	return lab.Program{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition()}, Scheme: scheme, Start: func(access lab.Access) (lab.Running, error) {
		mgr, err := op.Start(access.Config)
		if err != nil {
			return nil, err
		}
		ctx, stop := context.WithCancel(context.Background())
		r := &running{stop: stop, done: make(chan struct{})}
		go func() {
			defer close(r.done)
			r.err = mgr.Start(ctx)
		}()
		return r, nil
	}}
}

type running struct {
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func (r *running) Terminate()            { r.stop() }
func (r *running) Kill()                 { r.stop() }
func (r *running) Done() <-chan struct{} { return r.done }
func (r *running) Err() error            { return r.err }

// TestPrograms replays a crash in real time: the operator with the mistake makes a second part, and its twin does not.
func TestPrograms(t *testing.T) {
	testlevel.NeedsFull(t, "runs an operator in real time")
	a := find(t, "double create")
	crash := lab.Schedule{{At: lab.Point{Action: "operator create configmaps default/web-*"}, Do: lab.CrashAfter}}
	scenario := a.scenarioOf(nil)
	scenario.Rest = time.Second
	for _, right := range []bool{false, true} {
		report, err := lab.ExploreProgram(t.Context(), program(a, right), scenario, lab.LiveOptions{Replay: crash, View: time.Second, Progress: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		if report.Schedules != 1 && !right {
			t.Fatalf("%d runs, want 1", report.Schedules)
		}
		if found := len(report.Findings) > 0; found == right {
			t.Errorf("right: %v, findings: %v", right, report.Findings)
		}
	}
}

func find(t *testing.T, name string) *animal {
	for i := range animals {
		if strings.EqualFold(animals[i].name, name) {
			return &animals[i]
		}
	}
	t.Fatalf("there is no animal %q", name)
	return nil
}

// budgets keeps a budget of policy/v1beta1 for each Widget, as operators did before 2021.
func budgets(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	budget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget"}}
	err := e.Get(ctx, client.ObjectKeyFromObject(w), budget)
	if err == nil && budget.GetAPIVersion() != "policy/v1beta1" {
		return ctrl.Result{}, reconcile.TerminalError(fmt.Errorf("the budget is of %s", budget.GetAPIVersion()))
	}
	if !apierrors.IsNotFound(err) {
		return ctrl.Result{}, errors.Join(err, setReady(ctx, e, w))
	}
	budget.SetNamespace(w.Namespace)
	budget.SetName(w.Name)
	budget.Object["spec"] = map[string]any{"minAvailable": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"widget": w.Name}}}
	if err := ctrl.SetControllerReference(w, budget, scheme); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: time.Second / 2}, e.Create(ctx, budget)
}

// TestRemovedVersions: an operator of an older year comes to rest, also after a crash, on a server that still has its API versions, and
// on no other.
func TestRemovedVersions(t *testing.T) {
	testlevel.NeedsFull(t, "runs an operator in real time")
	old := &animal{name: "budgets", reconcile: budgets}
	crash := lab.Schedule{{At: lab.Point{Action: "operator create poddisruptionbudgets.policy default/web"}, Do: lab.CrashAfter}}
	scenario := old.scenarioOf(nil)
	scenario.Rest = time.Second
	for _, served := range []bool{true, false} {
		p := program(old, true)
		p.RemovedVersions = served
		report, err := lab.ExploreProgram(t.Context(), p, scenario, lab.LiveOptions{Replay: crash, View: time.Second, Progress: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Findings) > 0 || (report.Schedules == 1) != served {
			t.Errorf("served: %v: %d runs with the crash, findings: %v", served, report.Schedules, report.Findings)
		}
	}
}
