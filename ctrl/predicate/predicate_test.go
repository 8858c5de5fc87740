package predicate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/predicate"
)

// decisions are the results of a predicate for the four types of events.
type decisions struct{ create, update, remove, generic bool }

func decide(p predicate.Predicate, before, after client.Object) decisions {
	return decisions{
		p.Create(event.CreateEvent{Object: after}),
		p.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}),
		p.Delete(event.DeleteEvent{Object: after}),
		p.Generic(event.GenericEvent{Object: after}),
	}
}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", ResourceVersion: "1", Generation: 1,
		Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"},
	}}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestChanged(t *testing.T) {
	changes := map[string]*corev1.Pod{
		"nothing":    pod(),
		"version":    pod(func(p *corev1.Pod) { p.ResourceVersion = "2" }),
		"generation": pod(func(p *corev1.Pod) { p.Generation = 2 }),
		"label":      pod(func(p *corev1.Pod) { p.Labels["l"] = "2" }),
		"annotation": pod(func(p *corev1.Pod) { p.Annotations["a"] = "2" }),
		"missing":    nil,
	}
	predicates := map[string]predicate.Predicate{
		"version":    predicate.ResourceVersionChangedPredicate{},
		"generation": predicate.GenerationChangedPredicate{},
		"label":      predicate.LabelChangedPredicate{},
		"annotation": predicate.AnnotationChangedPredicate{},
	}
	for what, p := range predicates {
		for change, after := range changes {
			want := decisions{true, what == change, true, true}
			if got := decide(p, pod(), after); got != want {
				t.Errorf("%s predicate on change of %s: %+v", what, change, got)
			}
		}
		if decide(p, nil, pod()).update {
			t.Errorf("the %s predicate passes an update without an old object", what)
		}
	}
}

func TestLogic(t *testing.T) {
	yes := predicate.NewPredicateFuncs(func(client.Object) bool { return true })
	no := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	all, none := decisions{true, true, true, true}, decisions{}
	mixed := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
	tests := []struct {
		name string
		p    predicate.Predicate
		want decisions
	}{
		{"funcs of nothing", predicate.Funcs{}, all},
		{"yes", yes, all},
		{"no", no, none},
		{"mixed", mixed, decisions{update: true, generic: true}},
		{"not mixed", predicate.Not(predicate.Predicate(mixed)), decisions{create: true, remove: true}},
		{"and of none", predicate.And[client.Object](), all},
		{"yes and no", predicate.And[client.Object](yes, no), none},
		{"yes and mixed", predicate.And[client.Object](yes, mixed), decisions{update: true, generic: true}},
		{"or of none", predicate.Or[client.Object](), none},
		{"no or yes", predicate.Or[client.Object](no, yes), all},
		{"no or mixed", predicate.Or[client.Object](no, mixed), decisions{update: true, generic: true}},
	}
	for _, test := range tests {
		if got := decide(test.p, pod(), pod()); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestFilterSeesTheNewObject(t *testing.T) {
	p := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetResourceVersion() == "2" })
	if got := decide(p, pod(), pod(func(p *corev1.Pod) { p.ResourceVersion = "2" })); got != (decisions{true, true, true, true}) {
		t.Errorf("got %+v", got)
	}
}

func TestLabelSelector(t *testing.T) {
	p, err := predicate.LabelSelectorPredicate(metav1.LabelSelector{MatchLabels: map[string]string{"l": "2"}})
	if err != nil {
		t.Fatal(err)
	}
	if decide(p, pod(), pod()).create || !decide(p, pod(), pod(func(p *corev1.Pod) { p.Labels["l"] = "2" })).update {
		t.Error("the selector is not heeded")
	}
	invalid := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "l", Operator: "Like"}}}
	if _, err := predicate.LabelSelectorPredicate(invalid); err == nil {
		t.Error("no error for a selector that is not valid")
	}
}
