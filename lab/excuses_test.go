package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"flyball.dev/ctrl/client"
)

// TestCorrects: a deletion takes back what an old view has made if a clean run has something else there, and also had when it was made.
func TestCorrects(t *testing.T) {
	const key = "PersistentVolumeClaim default/data"
	claim := func(size string) []fields {
		return []fields{{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata.namespace": "default", "spec.size": size,
			"spec.volumeName": "pv", "status.phase": "Bound"}} // the binder has written the last two
	}
	small, large := outcome{key: claim("1")}, outcome{key: claim("2")}
	for _, tc := range []struct {
		name  string
		rests []outcome
		made  int // the steps done then
		old   bool
		want  bool
	}{
		{"another size", []outcome{{}, large, large}, 2, true, true},
		{"no object", []outcome{{}, {}, {}}, 2, true, true},
		{"a new view", []outcome{{}, large, large}, 2, false, false},
		{"not bound yet", []outcome{{}, small, small}, 2, true, false},
		{"right when made", []outcome{{}, small, large}, 1, true, false},
		{"right in the end", []outcome{{}, large, small}, 1, true, false},
	} {
		w := newWorld(&explorer{known: &knowledge{rests: tc.rests, steps: 9}}, nil)
		if w.done = 2; tc.old {
			w.hasty["7"] = tc.made
		}
		deletion := &change{before: []byte(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","spec":{"size":1},"status":{"phase":"Pending"},
			"metadata":{"namespace":"default","name":"data","uid":"7"}}`)}
		if got := w.corrects(deletion); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestLossAfterOldView: an operator that deletes what it has made on an old view, and made as the clean run has it, loses the data. Once it
// has seen everything, it does not act on an old view any more.
func TestLossAfterOldView(t *testing.T) {
	late := false // the Secret took long
	scenario := copied()
	scenario.Begin = func() { late = false }
	original := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	scenario.Steps = append(scenario.Steps, Update(original, func(c *corev1.ConfigMap) { c.Data = map[string]string{"size": "2"} }))
	e := learned(t, operatorOf(func(ctx context.Context, c client.Client, original *corev1.ConfigMap) error {
		wanted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"size": original.Data["size"]}}}
		secret, began := &corev1.Secret{}, time.Now()
		err := c.Get(ctx, client.ObjectKeyFromObject(wanted), secret)
		switch {
		case apierrors.IsNotFound(err):
			err = c.Create(ctx, wanted)
			late = time.Since(began) > 10*time.Second
			return err
		case err != nil || secret.Labels["size"] == original.Data["size"]:
			return err
		case late:
			return errors.Join(c.Delete(ctx, secret), c.Create(ctx, wanted))
		}
		secret.Labels = wanted.Labels
		return c.Update(ctx, secret)
	}), scenario)
	r := e.run(Schedule{{Do: Hold, At: Point{Action: "operator create secrets default/web", N: 1}, For: time.Minute}}, clean{})
	if r.finding == nil || r.finding.Check != dataLoss {
		t.Errorf("finding: %+v, want one of the check %q\n%s", r.finding, dataLoss, r.world.story(nil))
	}
	if r.world.all[0].old {
		t.Error("the view is old after the next step")
	}
}

// TestRenew: the view of a process stays old as long as the fault lasts.
func TestRenew(t *testing.T) {
	for _, tc := range []struct {
		name   string
		do     Fault
		ended  bool
		frozen map[string]uint64
		want   bool
	}{
		{"open", Miss, false, nil, true},
		{"ended", Miss, true, nil, false},
		{"another fault", Close, false, nil, false},
		{"frozen by a time travel", TimeTravel, false, map[string]uint64{"": 7}, true},
	} {
		w := newWorld(&explorer{}, Schedule{{Do: tc.do}})
		p := &process{old: true, frozen: tc.frozen}
		w.processes, w.states[0] = []*process{p}, choiceState{begun: true, ended: tc.ended, process: p}
		if w.renew(); p.old != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, p.old, tc.want)
		}
	}
}

// TestLossBesideRandomNames: an object with a fixed name lasts although others of its kind have random names.
func TestLossBesideRandomNames(t *testing.T) {
	original := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	scenario := copied()
	scenario.Steps = append(scenario.Steps,
		Step{Name: "another Secret", Do: func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other-" + utilrand.String(5)}})
		}},
		Update(original, func(c *corev1.ConfigMap) { c.Labels = map[string]string{"tier": "front"} }),
		Update(original, func(c *corev1.ConfigMap) { c.Data = map[string]string{"secret": "yes"} }))
	e := learned(t, operatorOf(switched), scenario)
	r := e.run(Schedule{{Do: TimeTravel, At: Point{Action: "operator see configmaps default/web modified", N: 1},
		Until: &Point{Action: "operator create secrets default/web", N: 1}}}, clean{})
	if r.finding == nil || r.finding.Check != dataLoss {
		t.Errorf("finding: %+v, want one of the check %q\n%s", r.finding, dataLoss, r.world.story(nil))
	}
	for object := range e.known.outcome {
		if got, want := e.known.lasts(deletion{object, 4}), !strings.Contains(object, "/other-"); got != want {
			t.Errorf("%s lasts: %v, want %v", object, got, want)
		}
	}
}

// TestMayBeGone: nobody needs to create an object with a random name again that had finished, unless a later step changes such an object.
func TestMayBeGone(t *testing.T) {
	job := func(size string) outcome { return outcome{"Job.batch default/web-x7k2p": {{"spec.size": size}}} }
	n := noise{"Job.batch name": true}
	for _, tc := range []struct {
		name        string
		finished    string
		object      string
		then, after outcome
		want        bool
	}{
		{"unchanged", "Job.batch default/web-b4f9z", "Job.batch default/*", job("1"), job("1"), true},
		{"changed", "Job.batch default/web-b4f9z", "Job.batch default/*", job("1"), job("2"), false},
		{"another namespace", "Job.batch other/web-b4f9z", "Job.batch default/*", job("1"), job("1"), false},
		{"another kind", "Job.batch default/web-b4f9z", "Pod default/web", job("1"), job("1"), false},
	} {
		w := newWorld(&explorer{known: &knowledge{rests: []outcome{tc.then}}}, nil)
		w.finished[tc.finished] = 0
		if got := w.mayBeGone(tc.object, tc.after, n); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
