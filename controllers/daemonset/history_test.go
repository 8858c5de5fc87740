package daemonset

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podtemplate"
)

// revisionOf returns a revision of a template with an image.
func revisionOf(t *testing.T, name, image string, number int64) *appsv1.ControllerRevision {
	t.Helper()
	data, err := podtemplate.Patch(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}})
	if err != nil {
		t.Fatal(err)
	}
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{hashLabel: name}},
		Revision: number, Data: runtime.RawExtension{Raw: data}}
}

func names(list []*appsv1.ControllerRevision) string {
	var all []string
	for _, r := range list {
		all = append(all, r.Name)
	}
	return strings.Join(all, " ")
}

func TestHistory(t *testing.T) {
	a, b, c := revisionOf(t, "a", "a", 1), revisionOf(t, "b", "b", 2), revisionOf(t, "c", "c", 3)
	again := revisionOf(t, "again", "a", 4)
	for _, tt := range []struct {
		name             string
		image            string
		has              []*appsv1.ControllerRevision
		current          string
		number           int64
		create, renumber bool
		duplicates, old  string
	}{
		{name: "the first", image: "a", number: 1, create: true},
		{name: "the same", image: "b", has: []*appsv1.ControllerRevision{b, a}, current: "b", number: 2, old: "a"},
		{name: "another", image: "d", has: []*appsv1.ControllerRevision{b, c, a}, number: 4, create: true, old: "a b c"},
		{name: "back", image: "a", has: []*appsv1.ControllerRevision{c, b, a}, current: "a", number: 4, renumber: true, old: "b c"},
		{name: "duplicates", image: "a", has: []*appsv1.ControllerRevision{again, c, b, a}, current: "again", number: 4, duplicates: "a", old: "b c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := newSet(func(s *appsv1.DaemonSet) { s.Spec.Template.Spec.Containers = []corev1.Container{{Image: tt.image}} })
			h, err := historyOf(set, tt.has)
			if err != nil {
				t.Fatal(err)
			}
			if h.create {
				hash := podtemplate.Hash(&set.Spec.Template, nil)
				if h.current.Name != "agent-"+hash || h.current.Labels[hashLabel] != hash || !metav1.IsControlledBy(h.current, set) {
					t.Errorf("the new revision is %+v", h.current)
				}
			} else if h.current.Name != tt.current {
				t.Errorf("the current revision is %s, want %s", h.current.Name, tt.current)
			}
			if h.current.Revision != tt.number || h.create != tt.create || h.renumber != tt.renumber {
				t.Errorf("number %d, create %v, renumber %v", h.current.Revision, h.create, h.renumber)
			}
			if got := names(h.duplicates); got != tt.duplicates {
				t.Errorf("duplicates %q, want %q", got, tt.duplicates)
			}
			if got := names(h.old); got != tt.old {
				t.Errorf("old %q, want %q", got, tt.old)
			}
		})
	}
	if a.Revision != 1 {
		t.Error("a revision that was given was changed")
	}
}

func TestBeyondLimit(t *testing.T) {
	h := history{old: []*appsv1.ControllerRevision{revisionOf(t, "a", "a", 1), revisionOf(t, "b", "b", 2), revisionOf(t, "c", "c", 3)}}
	for _, tt := range []struct {
		name  string
		limit *int32
		pods  []string
		want  string
	}{
		{"none", nil, nil, ""},
		{"more than there are", ptr.To[int32](5), nil, ""},
		{"the oldest go", ptr.To[int32](1), nil, "a b"},
		{"no old ones", ptr.To[int32](0), nil, "a b c"},
		{"revisions of pods stay, and count", ptr.To[int32](1), []string{"x b"}, "a c"},
		{"also of pods that are being deleted", ptr.To[int32](0), []string{"x a failed deleted", "x c"}, "b"},
	} {
		set := newSet(func(s *appsv1.DaemonSet) { s.Spec.RevisionHistoryLimit = tt.limit })
		if got := names(h.beyondLimit(set, newPods(tt.pods...))); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
