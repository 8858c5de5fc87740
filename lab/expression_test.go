package lab

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestExpression(t *testing.T) {
	pod := func(name, role string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"role": role}}}}
	}
	state := &State{objects: map[string]*unstructured.Unstructured{"a": pod("a", "primary"), "b": pod("b", "primary"), "c": pod("c", "replica")}}
	for expression, want := range map[string]string{
		`all("Pod").size() == 3`:                                               "",
		`all("Deployment.apps").size() == 0`:                                   "",
		`all("Pod").exists(p, p.metadata.name == "c")`:                         "",
		`all("Pod").filter(p, p.metadata.labels.role == "primary").size() < 2`: "is false",
		`all("Pod").filter(p, p.?status.phase.orValue("") == "Running") == []`: "",
		`all("Pod").all(p, p.spec.nodeName != "")`:                             "no such key: spec",
	} {
		invariant, err := Expression("x", expression)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		if err := invariant.Check(state); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", expression, err, want)
		}
	}
}

func TestNormalize(t *testing.T) {
	until := &Point{Action: "operator create pods default/a"}
	for _, tc := range []struct {
		name   string
		choice Choice
		want   string
	}{
		{"right", Choice{Do: TimeTravel, At: Point{Action: "operator see pods default/a added", When: "object.spec.replicas == 3"}, Until: until}, ""},
		{"fault", Choice{Do: "explode"}, `there is no fault "explode"`},
		{"no end", Choice{Do: TimeTravel}, "needs the point until"},
		{"condition", Choice{Do: Hold, At: Point{Action: "x", When: "object."}}, "Syntax error"},
		{"at rest", Choice{Do: Conflict, At: Point{Action: atRest, N: 1}}, "cannot happen at rest"},
		{"failure of a request", Choice{Do: Fail, At: Point{Action: "operator create pods default/a"}},
			`external failure has no effect at "operator create pods default/a": it needs a call of an external system`},
		{"crash after an event", Choice{Do: CrashAfter, At: Point{Action: "operator see pods default/a added"}}, "it needs a request or a call"},
		{"change at an action", Choice{Do: Change, At: Point{Action: "operator create pods default/a"}}, "it needs a rest"},
		{"no bool", Choice{Do: Hold, At: Point{Action: "x", When: "1 + 1"}}, "is of type int"},
	} {
		err := Schedule{tc.choice}.normalize(&conditions{})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
	if until.N != 1 {
		t.Errorf("a point without a number has the number %d, want 1", until.N)
	}
}

func TestPatterns(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"operator create pods *", "operator create pods default/a", true},
		{"operator create pods *", "operator create pods default/web-*2", true},
		{"operator create pods *", "operator create pods/binding default/a", false},
		{"operator create pods *", "operator see pods default/a", false},
		{"operator see pods * modified", "operator see pods default/a modified", true},
		{"operator see pods * modified", "operator see pods default/a deleted", false},
		{"operator list pods", "operator list pods", true},
		{"operator list pods *", "operator list pods", false},
		{"operator create pods default/web-*", "operator create pods default/web-*", true},
		{"operator create pods default/web-*", "operator create pods default/web-x", false},
		{"server changed Widget.zoo *", "server changed Widget.zoo default/a", true},
	} {
		if got := (&counter{action: tc.pattern}).matches(tc.name); got != tc.want {
			t.Errorf("%s matches %s: %v, want %v", tc.pattern, tc.name, got, tc.want)
		}
	}
	points := Schedule{{At: Point{Action: "operator create pods *"}}, {At: Point{Action: "operator create pods default/web-*"}}}.counters()
	if len(points) != 1 {
		t.Errorf("%d points are counted by a pattern, want 1", len(points))
	}
}

// TestPatternPoints counts the actions that a pattern stands for, whatever their names.
func TestPatternPoints(t *testing.T) {
	second := Point{Action: "operator create pods *", N: 2}
	w := &world{counters: Schedule{{At: second}}.counters()}
	for n, name := range []string{"default/a", "default/b", "default/a"} {
		a := &action{process: &process{name: "operator"}, verb: "create", resource: "pods", object: name}
		w.matchAction(a)
		if got, want := a.is(second), n == 1; got != want {
			t.Errorf("action %d is %s: %v, want %v", n+1, second, got, want)
		}
	}
}

// TestHidesLife leaves out schedules at which no operator can be right.
func TestHidesLife(t *testing.T) {
	added := func(name string) Point { return Point{Action: "operator see secrets default/" + name + " added"} }
	gone := Choice{Do: Delete, At: Point{Action: "operator create secrets default/a"}, Object: "Secret default/a"}
	for _, tc := range []struct {
		name string
		s    Schedule
		want bool
	}{
		{"deleted", Schedule{gone}, false},
		{"never seen", Schedule{gone, {Do: Miss, At: added("a")}}, true},
		{"listed after its end", Schedule{{Do: Expire, At: added("a")}, gone}, true},
		{"another one is missed", Schedule{gone, {Do: Miss, At: added("b")}}, false},
		{"seen before", Schedule{gone, {Do: Miss, At: Point{Action: "operator see secrets default/a modified"}}}, false},
		{"late", Schedule{gone, {Do: Hold, At: added("a")}}, false},
		{"bookmarks", Schedule{gone, {Do: Bookmarks, At: added("b")}}, true},
		{"down meanwhile", Schedule{{Do: CrashAfter, At: gone.At, Object: gone.Object}, {Do: Miss, At: added("a")}}, false},
	} {
		if got := tc.s.hidesLife(); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
