package statefulset

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/google/go-cmp/cmp"

	"flyball.dev/controllers/internal/podtemplate"
)

// revisionWith returns a revision of a template with an image.
func revisionWith(t *testing.T, image string, number int64) *appsv1.ControllerRevision {
	t.Helper()
	template := templateWith(image)
	data, err := podtemplate.Patch(&template)
	if err != nil {
		t.Fatal(err)
	}
	return &appsv1.ControllerRevision{Revision: number, Data: runtime.RawExtension{Raw: data},
		ObjectMeta: metav1.ObjectMeta{Name: image, CreationTimestamp: metav1.NewTime(now.Add(time.Duration(number) * time.Second))}}
}

func TestHistory(t *testing.T) {
	a, b, c := revisionWith(t, "a", 1), revisionWith(t, "b", 2), revisionWith(t, "c", 3)
	same := b.DeepCopy()
	same.Name, same.Revision = "same", 9
	same.Data.Raw = []byte(strings.ReplaceAll(string(b.Data.Raw), `"resources":{}`, `"resources":{"limits":{}}`) + " ")
	for _, tt := range []struct {
		name     string
		has      []*appsv1.ControllerRevision
		status   string // the current revision
		current  string
		update   string
		number   int64
		create   bool
		renumber bool
	}{
		{name: "the first", current: "new", update: "new", number: 1, create: true},
		{name: "unchanged", has: []*appsv1.ControllerRevision{b, a}, status: "b", current: "b", update: "b", number: 2},
		{name: "changed", has: []*appsv1.ControllerRevision{c, a}, status: "c", current: "c", update: "new", number: 4, create: true},
		{name: "changed back", has: []*appsv1.ControllerRevision{a, b, c}, status: "c", current: "c", update: "b", number: 4, renumber: true},
		{name: "changed back to the current one", has: []*appsv1.ControllerRevision{a, b, c}, status: "b", current: "b", update: "b", number: 4, renumber: true},
		{name: "encoded in another way", has: []*appsv1.ControllerRevision{a, same}, status: "same", current: "same", update: "same", number: 9},
		{name: "the current one is unknown", has: []*appsv1.ControllerRevision{a, b}, status: "gone", current: "b", update: "b", number: 2},
	} {
		set := setOf(1)
		set.Status.CurrentRevision = tt.status
		h, err := historyOf(set, tt.has)
		if err != nil {
			t.Fatal(err)
		}
		name := func(r *appsv1.ControllerRevision) string {
			if strings.HasPrefix(r.Name, "web-") {
				return "new"
			}
			return r.Name
		}
		if name(h.current) != tt.current || name(h.update) != tt.update || h.update.Revision != tt.number ||
			h.create != tt.create || h.renumber != tt.renumber {
			t.Errorf("%s: current %s, update %s, number %d, create %v, renumber %v", tt.name, h.current.Name, h.update.Name,
				h.update.Revision, h.create, h.renumber)
		}
	}
	if b.Revision != 2 {
		t.Error("the revision in the cache was changed")
	}
}

func TestHistoryLimit(t *testing.T) {
	var all []*appsv1.ControllerRevision
	for i, image := range []string{"a", "b", "c", "d", "e", "f"} {
		all = append(all, revisionWith(t, image, int64(i+1)))
	}
	set := setOf(1, func(set *appsv1.StatefulSet) { set.Spec.Template = templateWith("f") })
	set.Status.CurrentRevision = "e"
	pods := []*corev1.Pod{podIn(set, "0 a ready")}
	for limit, want := range map[int32]string{0: "bcd", 1: "bc", 2: "b", 3: "", 10: ""} {
		set.Spec.RevisionHistoryLimit = &limit
		h, err := historyOf(set, all)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, r := range h.beyondLimit(set, pods) {
			got += r.Name
		}
		if got != want {
			t.Errorf("limit %d: %q are deleted, want %q", limit, got, want)
		}
	}
}

// TestRevisionData compares the data of a revision with kubectl's, and restores the template from it.
func TestRevisionData(t *testing.T) {
	set := setOf(1)
	seconds := int64(30)
	set.Spec.Template.Annotations = map[string]string{"html": "<&>"}
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = &seconds
	set.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}
	encoded, err := runtime.Encode(scheme.Codecs.LegacyCodec(appsv1.SchemeGroupVersion), set)
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]any
	if err := json.Unmarshal(encoded, &raw); err != nil {
		t.Fatal(err)
	}
	template := raw["spec"].(map[string]any)["template"].(map[string]any)
	template["$patch"] = "replace"
	want, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := historyOf(set, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(h.update.Data.Raw); got != string(want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	restored, err := templateOf(setOf(1), h.update)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(set.Spec.Template, *restored); d != "" {
		t.Error(d)
	}
}

// TestRevisionNames checks that the name has the hash of the label, and changes with the collisions.
func TestRevisionNames(t *testing.T) {
	names := map[string]bool{}
	for _, name := range []string{"web", strings.Repeat("x", 250)} {
		for collisions := range int32(3) {
			set := setOf(1, func(set *appsv1.StatefulSet) {
				set.Name, set.Status.CollisionCount = name, &collisions
			})
			h, err := historyOf(set, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := h.update
			if want := fmt.Sprintf("%.223s-%s", name, r.Labels["controller.kubernetes.io/hash"]); r.Name != want || names[r.Name] || len(r.Name) > 253 {
				t.Errorf("%s, want %s", r.Name, want)
			}
			if r.Labels["app"] != "web" || !metav1.IsControlledBy(r, set) {
				t.Errorf("labels %v, owners %v", r.Labels, r.OwnerReferences)
			}
			names[r.Name] = true
		}
	}
}
