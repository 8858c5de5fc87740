package exampletest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/examples/internal/example"
	"flyball.dev/lab"
	"flyball.dev/plan"
	"flyball.dev/record"
)

// planned is an example with a cluster to plan for.
type planned struct {
	*testing.T
	base                      *controlplane.ControlPlane
	start                     func(*rest.Config) (manager.Manager, error)
	primary                   *unstructured.Unstructured
	moment                    *record.Moment
	equal, uncertain, unequal int
	// problems are reported after the bubble has ended.
	problems []string
}

var plannedChanges = flag.Int("plan.changes", 6, "the number of changes, of ten, to plan for each example")

// Plan makes changes on copies of a cluster with the samples of an example, and compares what happens with the plans for them. The
// last sample is changed by a merge patch. If setUp is nil, the one of the example adds the controllers. Without samples, they are the
// ones of the example.
func Plan(t *testing.T, e *example.Example, setUp func(*rest.Config, ctrl.Manager) error, patch string, samples ...*unstructured.Unstructured) {
	t.Helper()
	if samples == nil {
		samples = Objects(t, e, "samples")
	}
	start := starter(t, e, setUp)
	var summary string
	var equal, unequal int
	var problems []string
	synctest.Test(t, func(t *testing.T) {
		p := &planned{T: t, start: start, primary: samples[len(samples)-1]}
		p.prepare(e, samples)
		defer p.must(p.base.Stop)
		for _, change := range chosen(p.changes(patch)) {
			p.compare(change)
		}
		summary = fmt.Sprintf("%d of %d changed objects are as planned, and %d more are uncertain in the plan", p.equal, p.equal+p.unequal, p.uncertain)
		problems, equal, unequal = p.problems, p.equal, p.unequal
	})
	t.Log(summary)
	for _, problem := range problems {
		t.Log(problem)
	}
	if 100*equal < 95*(equal+unequal) {
		t.Error("fewer than 95 % of the changed objects are as planned")
	}
}

// chosen returns the changes that the flag -plan.changes permits.
func chosen(all []lab.Step) []lab.Step { return all[:min(max(*plannedChanges, 0), len(all))] }

// must fails the test if f returns an error.
func (p *planned) must(f func() error) {
	p.Helper()
	if err := f(); err != nil {
		p.Fatal(err)
	}
}

// atRest is how long it takes a cluster to come to rest.
const atRest = 10 * time.Minute

// prepare starts the cluster, with the samples as the operator leaves them, and reads it.
func (p *planned) prepare(e *example.Example, samples []*unstructured.Unstructured) {
	p.Helper()
	var err error
	if p.base, err = controlplane.Start(p.Context(), controlplane.Options{}); err != nil {
		p.Fatal(err)
	}
	c := p.client(p.base)
	for _, d := range Objects(p.T, e, "crd/bases") {
		unstructured.RemoveNestedField(d.Object, "spec", "conversion") // in virtual time, nobody can connect to a webhook
		p.must(func() error { return c.Create(p.Context(), d) })
	}
	time.Sleep(time.Second)
	for _, o := range slices.Concat(Objects(p.T, e, "policy"), samples) {
		p.must(func() error { return c.Create(p.Context(), o.DeepCopy()) })
	}
	stop := p.run(p.base)
	time.Sleep(atRest)
	stop()
	p.moment = p.read(p.base)
}

// client returns a client of a cluster.
func (p *planned) client(plane *controlplane.ControlPlane) client.Client {
	p.Helper()
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		p.Fatal(err)
	}
	return c
}

// read returns the objects of a cluster.
func (p *planned) read(plane *controlplane.ControlPlane) *record.Moment {
	p.Helper()
	m, err := record.ReadCluster(p.Context(), plane.Config(), record.Options{})
	if err != nil {
		p.Fatal(err)
	}
	return m
}

// run runs the operator on a cluster until the returned function is called.
func (p *planned) run(plane *controlplane.ControlPlane) (stop func()) {
	p.Helper()
	mgr, err := p.start(plane.Config())
	if err != nil {
		p.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			p.Error(err)
		}
	}
}

// compare makes a change on a copy of the cluster, and compares what happens with the plan.
func (p *planned) compare(change lab.Step) {
	p.Helper()
	made, err := plan.Make(p.Context(), plan.Options{Moment: p.moment, Operator: plan.Operator{Start: p.start}, Change: []lab.Step{change},
		Rest: 5 * time.Minute, Limit: time.Hour})
	if err != nil {
		p.Errorf("%s: %v", change.Name, err)
		return
	}
	var happened []plan.Change
	var reason metav1.StatusReason
	p.onCopy(func(copied *controlplane.ControlPlane) {
		before, began := p.read(copied), time.Now()
		reason = apierrors.ReasonForError(change.Do(p.Context(), p.client(copied)))
		time.Sleep(atRest)
		var err error
		if happened, err = plan.Between(before, p.read(copied), began); err != nil {
			p.Fatal(err)
		}
	})
	if got := made.Steps[0]; got.Reason != string(reason) && (got.Error != "" || reason != metav1.StatusReasonUnknown) {
		p.Errorf("%s: the plan has the error %q, and the cluster %q", change.Name, got.Error, reason)
	}
	for _, c := range made.Changes {
		i := slices.IndexFunc(happened, func(other plan.Change) bool { return matches(p.decoded(c), p.decoded(other)) })
		switch {
		case i >= 0:
			happened = slices.Delete(happened, i, i+1)
			p.equal++
		case !c.Uncertain:
			p.differ(change, made, "only planned", c)
		}
	}
	for _, c := range happened {
		if slices.ContainsFunc(made.Changes, func(other plan.Change) bool { return other.Uncertain && sameObject(&c, &other) }) {
			p.uncertain++
			continue
		}
		p.differ(change, made, "only happened", c)
	}
	for _, l := range made.Loops {
		p.Errorf("%s: %+v", change.Name, l)
	}
}

// problemf adds a problem.
func (p *planned) problemf(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// onCopy calls f with a copy of the cluster on which the operator runs.
func (p *planned) onCopy(f func(*controlplane.ControlPlane)) {
	p.Helper()
	copied, err := p.base.Fork(p.Context(), controlplane.ForkOptions{})
	if err != nil {
		p.Fatal(err)
	}
	defer p.must(copied.Stop)
	p.must(copied.StartControllers)
	stop := p.run(copied)
	defer stop()
	time.Sleep(atRest)
	f(copied)
}

// differ notes a change that has not both happened and been planned.
func (p *planned) differ(change lab.Step, made *plan.Plan, what string, c plan.Change) {
	content, err := json.Marshal(p.decoded(c))
	if err != nil {
		p.Fatal(err)
	}
	if !explained(made) {
		p.unequal++
		p.problemf("%s: %s, and the plan does not say why: %s", change.Name, what, content)
	}
}

// decoded returns the content of a change, without its authors.
func (p *planned) decoded(c plan.Change) (content any) {
	p.Helper()
	c.Writes, c.Owner, c.Uncertain = nil, "", false
	text, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(text, &content)
	}
	if err != nil {
		p.Fatal(err)
	}
	return content
}

// matches reports whether something happened as planned. What the plan does not know may be anything.
func matches(planned, happened any) bool {
	if planned == plan.UnknownValue {
		return true
	}
	switch planned := planned.(type) {
	case map[string]any:
		happened, ok := happened.(map[string]any)
		for key, value := range planned {
			other, known := happened[key]
			ok = ok && matches(value, other) && (known || value == plan.UnknownValue)
		}
		for key := range happened {
			_, known := planned[key]
			ok = ok && known
		}
		return ok
	case []any:
		happened, ok := happened.([]any)
		return ok && slices.EqualFunc(planned, happened, matches)
	case string:
		prefix, generated := strings.CutSuffix(planned, "*")
		happened, ok := happened.(string)
		return ok && (planned == happened || generated && strings.HasPrefix(happened, prefix))
	}
	return planned == happened
}

// sameObject reports whether two changes are about one object.
func sameObject(a, b *plan.Change) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name
}

// explained reports whether a plan says that an external system is missing.
func explained(made *plan.Plan) bool {
	return slices.ContainsFunc(made.Unknown, func(u plan.Unknown) bool { return strings.HasPrefix(u.What, "call ") })
}

// changes returns ten changes. The first ones are the most different.
func (p *planned) changes(patch string) []lab.Step {
	gvk := p.primary.GroupVersionKind()
	key := client.ObjectKeyFromObject(p.primary)
	object := func() *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(gvk)
		o.SetNamespace(key.Namespace)
		o.SetName(key.Name)
		return o
	}
	merge := func(patch string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, object(), client.RawPatch(types.MergePatchType, []byte(patch)))
		}
	}
	pods := func(ctx context.Context, c client.Client) error {
		return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault))
	}
	return []lab.Step{
		{Name: "a change of the specification", Do: merge(patch)},
		{Name: "a deletion, with garbage collection", Do: func(ctx context.Context, c client.Client) error { return c.Delete(ctx, object()) }},
		{Name: "the deletion of what the operator has made", Do: p.deleteChildren},
		{Name: "a conflict of server-side apply", Do: func(ctx context.Context, c client.Client) error {
			o := object()
			var content map[string]any
			if err := json.Unmarshal([]byte(patch), &content); err != nil {
				return err
			}
			maps.Copy(o.Object, content)
			o.SetNamespace(key.Namespace)
			o.SetName(key.Name)
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("intruder"))
		}},
		{Name: "pods that a quota stops", Do: func(ctx context.Context, c client.Client) error {
			none := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "none"},
				Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("0")}}}
			if err := c.Create(ctx, none); err != nil {
				return err
			}
			for len(none.Status.Hard) == 0 { // before, the quota stops nothing
				time.Sleep(time.Second)
				if err := c.Get(ctx, client.ObjectKeyFromObject(none), none); err != nil {
					return err
				}
			}
			return pods(ctx, c)
		}},
		{Name: "a change that a policy refuses", Do: func(ctx context.Context, c client.Client) error {
			policy, binding := denying(p.resourceOf(gvk.Group, gvk.Kind))
			for _, o := range []client.Object{policy, binding} {
				if err := c.Create(ctx, o); err != nil {
					return err
				}
			}
			return merge(patch)(ctx, c)
		}},
		{Name: "a label", Do: merge(`{"metadata":{"labels":{"example.com/planned":"true"}}}`)},
		{Name: "a deletion with orphans", Do: func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, object(), client.PropagationPolicy(metav1.DeletePropagationOrphan))
		}},
		{Name: "the deletion of all pods", Do: pods},
		{Name: "a second object", Do: func(ctx context.Context, c client.Client) error {
			o := p.primary.DeepCopy()
			o.SetName("second")
			return c.Create(ctx, o)
		}},
	}
}

// resourceOf returns the plural name of a kind.
func (p *planned) resourceOf(group, kind string) string {
	for _, r := range p.moment.Resources {
		if r.Group == group && r.Kind == kind {
			return r.Name
		}
	}
	p.Fatalf("no resource of %s", kind)
	return ""
}

// deleteChildren deletes the objects that the primary controls.
func (p *planned) deleteChildren(ctx context.Context, c client.Client) error {
	byKey := func(a, b record.Key) int { return strings.Compare(a.String(), b.String()) }
	for _, key := range slices.SortedFunc(maps.Keys(p.moment.Objects), byKey) {
		content := p.moment.Objects[key]
		var o unstructured.Unstructured
		if err := json.Unmarshal(content, &o.Object); err != nil {
			return err
		}
		if owner := metav1.GetControllerOf(&o); owner == nil || owner.Kind != p.primary.GetKind() || owner.Name != p.primary.GetName() {
			continue
		}
		if err := c.Delete(ctx, &o, client.Preconditions{UID: new(o.GetUID())}); err != nil {
			return fmt.Errorf("%s: %w", o.GetName(), err)
		}
	}
	return nil
}
