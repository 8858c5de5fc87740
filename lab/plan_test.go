package lab

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/reconcile"
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

// switched creates a Secret for a ConfigMap that wants one, and deletes the Secret of any other, also on a stale view.
func switched(ctx context.Context, c client.Client, original *corev1.ConfigMap) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: original.Namespace, Name: original.Name}}
	if original.Data["secret"] == "" {
		return client.IgnoreNotFound(c.Delete(ctx, secret))
	}
	return client.IgnoreAlreadyExists(c.Create(ctx, secret))
}

// leased creates two Secrets for a ConfigMap, the first one while it holds a Lease. It gives up when it cannot take the Lease, and when it
// finds that somebody else has taken the Lease meanwhile.
func leased(ctx context.Context, c client.Client, original *corev1.ConfigMap) error {
	create := func(name string) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: original.Namespace, Name: name}}
		return client.IgnoreAlreadyExists(c.Create(ctx, secret))
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: original.Namespace, Name: "work"}}
	err := c.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To("operator"), ptr.To[int32](15)
	if apierrors.IsNotFound(err) {
		err = c.Create(ctx, lease)
	}
	if err != nil {
		return err
	}
	if err := c.Update(ctx, lease); err != nil {
		return reconcile.TerminalError(err)
	}
	if err := errors.Join(create(original.Name), c.Get(ctx, client.ObjectKeyFromObject(lease), lease)); err != nil {
		return err
	}
	if holder := *lease.Spec.HolderIdentity; holder != "operator" {
		return reconcile.TerminalError(errors.New(holder + " has the Lease"))
	}
	for _, holder := range []string{"operator", ""} { // renewed, and let go of
		lease.Spec.HolderIdentity = &holder
		if err := c.Update(ctx, lease); err != nil {
			return err
		}
	}
	return create(original.Name + "-2")
}

// TestReduce: the faults that are left out, because they are like others, would find nothing else.
func TestReduce(t *testing.T) {
	wants := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	want := Update(wants, func(c *corev1.ConfigMap) { c.Data = map[string]string{"secret": "yes"} })
	label := Update(wants, func(c *corev1.ConfigMap) { c.Labels = map[string]string{"tier": "front"} })
	for _, tc := range []struct {
		name string
		op   Operator
		more []Step
		only []Fault
		want int // findings
	}{
		{"crashes", copier(ignore), nil, []Fault{CrashBefore, CrashAfter}, 1},
		{"time travels", operatorOf(switched), []Step{label, want}, []Fault{TimeTravel, TimeTravelKind}, 1},
		{"Leases", operatorOf(leased), nil, []Fault{Depose}, 2},
	} {
		scenario := copied(tc.only...)
		scenario.Steps = append(scenario.Steps, tc.more...)
		e := learned(t, tc.op, scenario)
		found := func(p *points) (all map[string]bool, runs int) {
			all = map[string]bool{}
			for _, c := range slices.Concat(e.families(p)...) {
				r := e.run(Schedule{c}, clean{})
				if runs++; r.finding != nil && r.counts {
					all[r.finding.Check+": "+r.finding.Message] = true
				}
			}
			return all, runs
		}
		everything := e.points()
		everything.moments = nil // without which no two faults are alike
		fewer, runs := found(e.points())
		all, most := found(everything)
		if !maps.Equal(fewer, all) {
			t.Errorf("%s: %d schedules find %v, and all %d find %v", tc.name, runs, fewer, most, all)
		}
		if len(all) != tc.want || runs >= most {
			t.Errorf("%s: %d of %d schedules are left, and find %v, want %d", tc.name, runs, most, all, tc.want)
		}
	}
}

// TestChildren: somebody else may delete an object with a generated name, and the lab plans nothing for what the server has made beside
// an object of the operator.
func TestChildren(t *testing.T) {
	e := learned(t, operatorOf(func(ctx context.Context, c client.Client, original *corev1.ConfigMap) error {
		if original.Annotations["served"] != "" {
			return nil
		}
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: original.Namespace, GenerateName: original.Name + "-"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		if err := c.Create(ctx, service); err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&original.ObjectMeta, "served", "yes")
		return c.Update(ctx, original)
	}), copied())
	all := e.points().disturbances(Delete)
	if len(all) == 0 {
		t.Fatal("there is nothing to delete")
	}
	for _, c := range all {
		if r := e.run(Schedule{c}, clean{}); c.Object != "Service default/web-*1" || !r.counts {
			t.Errorf("%s: the schedule counts: %v", c, r.counts)
		}
	}
}

// TestReleased: nobody needs to create an object again that the operator has let go of before somebody else deletes it.
func TestReleased(t *testing.T) {
	wants := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	scenario := copied()
	scenario.Steps = append(scenario.Steps, Update(wants, func(c *corev1.ConfigMap) { c.Data = map[string]string{"release": "yes"} }))
	e := learned(t, operatorOf(func(ctx context.Context, c client.Client, original *corev1.ConfigMap) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: original.Namespace, Name: original.Name}}
		err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		switch {
		case original.Data["release"] != "" && err == nil && metav1.GetControllerOf(secret) != nil:
			secret.OwnerReferences = nil
			return c.Update(ctx, secret)
		case original.Data["release"] != "" || err == nil:
			return client.IgnoreNotFound(err)
		case client.IgnoreNotFound(err) != nil:
			return err
		}
		secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(original, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
		return c.Create(ctx, secret)
	}), scenario)
	r := e.run(Schedule{{Do: CrashAfter, At: Point{Action: "operator update secrets default/web", N: 1}, Object: "Secret default/web"}}, clean{})
	if !r.counts || r.finding != nil {
		t.Errorf("the schedule counts: %v, finding: %+v", r.counts, r.finding)
	}
}
