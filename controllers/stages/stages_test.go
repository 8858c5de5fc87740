package stages_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/stages"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// stageOf returns a stage with a specification in YAML.
func stageOf(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(stages.Kind)
	u.SetName(name)
	var content map[string]any
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		t.Fatal(err)
	}
	u.Object["spec"] = content
	return u
}

// condition returns the condition of a stage as "STATUS REASON: MESSAGE".
func condition(e controllerstest.Env, name string) string {
	e.Helper()
	u := stageOf(e.T, name, "{}")
	e.Must(e.Get(e.Context(), client.ObjectKey{Name: name}, u))
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range list {
		if c := c.(map[string]any); c["type"] == stages.Valid {
			return fmt.Sprintf("%s %s: %s", c["status"], c["reason"], c["message"])
		}
	}
	return ""
}

// reasons returns the reasons of the events of an object.
func reasons(e controllerstest.Env, kind, name string) (list []string) {
	e.Helper()
	all := &corev1.EventList{}
	e.Must(e.List(e.Context(), all))
	for _, ev := range all.Items {
		if ev.InvolvedObject.Kind == kind && ev.InvolvedObject.Name == name {
			list = append(list, ev.Reason)
		}
	}
	return list
}

const readyStage = `
resourceRef: {apiGroup: v1, kind: Pod}
selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]}
delay: {durationMilliseconds: 5000}
next: {statusTemplate: '{phase: Running, conditions: [{type: Ready, status: "True"}]}'}`

// TestInvalidStages creates stages that cannot work. Each has a condition and an event that say why, and a valid stage plays
// the pods.
func TestInvalidStages(t *testing.T) {
	tests := []struct{ name, spec, want string }{
		{"kind", `{resourceRef: {apiGroup: v1, kind: Nonsense}, selector: {}}`, `False KindNotFound: spec.resourceRef: no matches for kind "Nonsense" in version "v1"`},
		{"group", `{resourceRef: {apiGroup: a/b/c, kind: Pod}, selector: {}}`, "False InvalidStage: spec.resourceRef.apiGroup: unexpected GroupVersion string: a/b/c"},
		{"selector", `{resourceRef: {apiGroup: v1, kind: Pod}}`, "False InvalidStage: spec.selector: a stage without a selector has no effect"},
		{"jq", `{resourceRef: {apiGroup: v1, kind: Pod}, selector: {matchExpressions: [{key: ".a[", operator: Exists}]}}`, "False InvalidStage: spec: unexpected EOF"},
		{"cel", `{resourceRef: {apiGroup: v1, kind: Pod}, selector: {matchExpressions: [{cel: {expression: "self.("}}]}}`, "False InvalidStage: spec: "},
		{"operator", `{resourceRef: {apiGroup: v1, kind: Pod}, selector: {matchExpressions: [{key: ".a", operator: Near}]}}`, `False InvalidStage: spec: operator "Near" is not supported`},
		{"values", `{resourceRef: {apiGroup: v1, kind: Pod}, selector: {matchExpressions: [{key: ".a", operator: In}]}}`, "False InvalidStage: spec: for 'in', 'notin' operators"},
		{"delay", `{resourceRef: {apiGroup: v1, kind: Pod}, selector: {}, delay: {durationFrom: {expressionFrom: "}"}}}`, "False InvalidStage: spec: "},
		{"weight", `{resourceRef: {apiGroup: v1, kind: Pod}, selector: {}, weightFrom: {expressionFrom: "}"}}`, "False InvalidStage: spec: "},
		{"template", `{resourceRef: {apiGroup: v1, kind: Pod}, selector: {}, next: {statusTemplate: "{{ if }}"}}`, "False InvalidStage: spec.steps[0]: build template: "},
		{"function", `{resourceRef: {apiGroup: v1, kind: Pod}, selector: {}, steps: [{patch: {template: "{{ Nonsense }}"}}]}`, `False InvalidStage: spec.steps[0]: build template: template: _:1: function "Nonsense" not defined`},
		{"valid", readyStage, "True Valid: "},
	}
	controllerstest.InVirtualTime(t, controllers.Options{Stages: stages.New()}, func(e controllerstest.Env) {
		for _, test := range tests {
			e.CreateAll(stageOf(t, test.name, test.spec))
		}
		e.CreateAll(controllerstest.PodOn("flyball", "default", "p"))
		e.WaitIdle()
		for _, test := range tests {
			if got := condition(e, test.name); !strings.HasPrefix(got, test.want) {
				t.Errorf("%s: the condition is %q, want %q", test.name, got, test.want)
			}
			got := reasons(e, "Stage", test.name)
			if want := strings.HasPrefix(test.want, "False"); (len(got) == 1) != want || want && !strings.HasPrefix(test.want, "False "+got[0]+": ") {
				t.Errorf("%s: the events are %v", test.name, got)
			}
		}
		if p := e.Pod("p"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("the pod is %s", p.Status.Phase)
		}
	})
}

// TestFailingStages creates stages that fail for a pod. Conditions and events say so, other pods go on, and the condition is
// true again when the stage is corrected.
func TestFailingStages(t *testing.T) {
	failing := func(next string) string {
		return "resourceRef: {apiGroup: v1, kind: Pod}\nselector: {matchLabels: {test: failing}, matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]}\n" + next
	}
	for _, test := range []struct{ name, spec, want, event string }{
		{"template", failing(`next: {statusTemplate: '{{ index .spec.containers 7 }}'}`), "False StageFailed: Pod default/p: ", "StageFailed"},
		{"not YAML", failing(`next: {statusTemplate: '{a: ]'}`), "False StageFailed: Pod default/p: ", "StageFailed"},
		{"refused", failing(`next: {statusTemplate: '{podIP: nonsense}'}`), "False StageFailed: Pod default/p: Pod \"p\" is invalid: ", "StageFailed"},
		{"expression", "resourceRef: {apiGroup: v1, kind: Pod}\nselector: {matchLabels: {test: failing}, matchExpressions: [{cel: {expression: 'self.metadata.labels[\"none\"] == \"x\"'}}]}",
			"False StageFailed: Pod default/p: spec: ", "StageFailed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			controllerstest.InVirtualTime(t, controllers.Options{Stages: stages.New()}, func(e controllerstest.Env) {
				failing, other := controllerstest.PodOn("flyball", "default", "p"), controllerstest.PodOn("flyball", "default", "q")
				failing.Labels = map[string]string{"test": "failing"}
				others := strings.Replace(readyStage, "selector: {", "selector: {matchLabels: {test: other}, ", 1)
				other.Labels = map[string]string{"test": "other"}
				e.CreateAll(stageOf(t, "tested", test.spec), stageOf(t, "ready", others))
				e.WaitIdle()
				e.CreateAll(failing, other)
				e.WaitIdle()
				if got := condition(e, "tested"); !strings.HasPrefix(got, test.want) {
					t.Errorf("the condition is %q, want %q", got, test.want)
				}
				if got := reasons(e, "Pod", "p"); len(got) != 1 || got[0] != test.event {
					t.Errorf("the events of the pod are %v", got)
				}
				if p := e.Pod("q"); p.Status.Phase != corev1.PodRunning {
					t.Errorf("the other pod is %s", p.Status.Phase)
				}
				s := stageOf(t, "tested", "{}")
				e.Must(e.Get(e.Context(), client.ObjectKey{Name: "tested"}, s))
				s.Object["spec"] = stageOf(t, "", readyStage).Object["spec"]
				e.Must(e.Update(e.Context(), s))
				e.WaitIdle()
				if got, p := condition(e, "tested"), e.Pod("p"); got != "True Valid: " || p.Status.Phase != corev1.PodRunning {
					t.Errorf("corrected: %q, %s", got, p.Status.Phase)
				}
			})
		})
	}
}

// TestLeaseDespiteFailure: a node with a stage that fails for an hour stays alive.
func TestLeaseDespiteFailure(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Stages: stages.New()}, func(e controllerstest.Env) {
		e.CreateAll(stageOf(t, "failing", `
resourceRef: {apiGroup: v1, kind: Node}
selector: {matchLabels: {test: x}}
steps: [{apply: {template: '{apiVersion: example.com/v1, kind: Missing, metadata: {name: x}}'}}]`))
		e.WaitIdle()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "flyball"}}
		e.Must(e.Patch(e.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"test":"x"}}}`))))
		e.WaitIdle()
		if got := condition(e, "failing"); !strings.HasPrefix(got, "False StageFailed: ") {
			t.Errorf("the condition is %q", got)
		}
		for range 60 {
			time.Sleep(time.Minute) // virtual
			lease := &coordinationv1.Lease{}
			e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "kube-node-lease", Name: "flyball"}, lease))
			if since := time.Since(lease.Spec.RenewTime.Time); since > 40*time.Second {
				e.Fatalf("the lease was renewed %s ago", since)
			}
		}
	})
}

// TestCycleOfStages has two stages that follow each other without a delay. They stop, and say why.
func TestCycleOfStages(t *testing.T) {
	flip := func(from, to string) string {
		return fmt.Sprintf(`
resourceRef: {apiGroup: v1, kind: Pod}
selector: {matchLabels: {test: cycle}, matchExpressions: [{key: .status.reason, operator: %s}]}
next: {statusTemplate: '{reason: "%s", phase: Pending}'}`, from, to)
	}
	controllerstest.InVirtualTime(t, controllers.Options{Stages: stages.New()}, func(e controllerstest.Env) {
		e.CreateAll(stageOf(t, "there", flip("NotIn, values: [there]", "there")), stageOf(t, "back", flip("In, values: [there]", "back")))
		e.WaitIdle()
		p := controllerstest.PodOn("flyball", "default", "p")
		p.Labels = map[string]string{"test": "cycle"}
		e.CreateAll(p)
		e.WaitIdle()
		before := e.Pod("p").ResourceVersion
		e.WaitIdle()
		if after := e.Pod("p").ResourceVersion; after != before {
			t.Error("the pod goes on")
		}
		got := condition(e, "there") + condition(e, "back")
		if want := "False StageCycle: Pod default/p: Pod default/p goes in circles: "; !strings.Contains(got, want) || !strings.Contains(got, "there → back → there") {
			t.Errorf("the conditions are %q, want %q", got, want)
		}
		if got := reasons(e, "Pod", "p"); len(got) != 1 || got[0] != "StageCycle" {
			t.Errorf("the events of the pod are %v", got)
		}
	})
}

// TestStagesAtRunTime creates, changes and deletes stages while pods run. A pod with a script of its own keeps it.
func TestStagesAtRunTime(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Stages: stages.New()}, func(e controllerstest.Env) {
		phase := func(name string, want corev1.PodPhase) {
			t.Helper()
			e.WaitIdle()
			if p := e.Pod(name); p.Status.Phase != want {
				t.Errorf("%s is %s, want %s", name, p.Status.Phase, want)
			}
		}
		e.CreateAll(controllerstest.PodOn("flyball", "default", "before"))
		phase("before", corev1.PodRunning)
		fail := stageOf(t, "fail", `
resourceRef: {apiGroup: v1, kind: Pod}
selector: {matchExpressions: [{key: .status.phase, operator: NotIn, values: [Failed]}]}
next: {statusTemplate: '{phase: Failed}', event: {type: Warning, reason: Staged, message: it fails}}`)
		e.CreateAll(fail)
		phase("before", corev1.PodFailed)
		if got := reasons(e, "Pod", "before"); got[len(got)-1] != "Staged" {
			t.Errorf("the events are %v", got)
		}
		scripted := controllerstest.PodOn("flyball", "default", "scripted")
		scripted.Annotations = map[string]string{pods.OutcomeAnnotation: pods.Running}
		e.CreateAll(controllerstest.PodOn("flyball", "default", "staged"), scripted)
		phase("staged", corev1.PodFailed)
		phase("scripted", corev1.PodRunning)
		e.Must(e.Delete(e.Context(), fail))
		e.WaitIdle()
		e.CreateAll(controllerstest.PodOn("flyball", "default", "after"))
		phase("after", corev1.PodRunning)
	})
}

// TestDelayGoesOn creates a stage of another kind while a pod waits for its stage.
func TestDelayGoesOn(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Stages: stages.New()}, func(e controllerstest.Env) {
		e.CreateAll(stageOf(t, "ready", readyStage))
		e.WaitIdle()
		e.CreateAll(controllerstest.PodOn("flyball", "default", "p"))
		time.Sleep(3 * time.Second) // virtual
		e.CreateAll(stageOf(t, "node", `
resourceRef: {apiGroup: v1, kind: Node}
selector: {matchLabels: {test: x}}
next: {statusTemplate: '{phase: Running}'}`))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if phase := e.Pod("p").Status.Phase; phase != corev1.PodRunning {
			t.Errorf("the pod is %s after its delay", phase)
		}
	})
}

// TestStagesOfOtherKinds plays stages of ConfigMaps, which need a role.
func TestStagesOfOtherKinds(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Stages: stages.New()}, func(e controllerstest.Env) {
		e.CreateAll(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "patch", "delete"}},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments/status"}, Verbs: []string{"patch"}}}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "more"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "more"},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system", Name: "kwok-controller"}}})
		e.WaitIdle()
		e.CreateAll(stageOf(t, "label", `
resourceRef: {apiGroup: v1, kind: ConfigMap}
selector: {matchLabels: {test: x}, matchExpressions: [{key: .data.seen, operator: DoesNotExist}]}
delay: {durationMilliseconds: 60000}
steps:
- patch: {template: '{data: {seen: "yes"}}'}
- finalizers: {add: [{value: example.com/stage}]}
- apply: {template: '{apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .metadata.name }}-copy"}, data: {of: "{{ .metadata.name }}"}}'}`),
			stageOf(t, "end", `
resourceRef: {apiGroup: v1, kind: ConfigMap}
selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}
steps: [{finalizers: {empty: true}}]`),
			stageOf(t, "deployment", `
resourceRef: {apiGroup: apps/v1, kind: Deployment}
selector: {matchExpressions: [{key: .status.collisionCount, operator: DoesNotExist}]}
next: {statusTemplate: '{collisionCount: 7}'}`))
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m", Labels: map[string]string{"test": "x"}}}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0),
			Selector: metav1.SetAsLabelSelector(map[string]string{"a": "b"}), Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec: controllerstest.PodOn("", "", "").Spec}}}
		e.CreateAll(m, d)
		e.WaitIdle()
		key := client.ObjectKeyFromObject(m)
		if e.Must(e.Get(e.Context(), key, m)); m.Data["seen"] != "" {
			t.Error("the delay is too short")
		}
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		e.Must(e.Get(e.Context(), key, m))
		if m.Data["seen"] != "yes" || len(m.Finalizers) != 1 {
			t.Errorf("the stage did not play: %v %v; %s", m.Data, m.Finalizers, condition(e, "label"))
		}
		c := &corev1.ConfigMap{}
		if e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "m-copy"}, c)); c.Data["of"] != "m" {
			t.Errorf("the copy has %v", c.Data)
		}
		if e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(d), d)); ptr.Deref(d.Status.CollisionCount, 0) != 7 {
			t.Errorf("the Deployment's status is %v", d.Status)
		}
		e.Must(e.Delete(e.Context(), m))
		e.WaitIdle()
		if err := e.Get(e.Context(), key, m); !apierrors.IsNotFound(err) {
			t.Errorf("the object stays: %v", err)
		}
	})
}

// TestHostIsOutOfReach renders functions that would read the environment or the network of the process.
func TestHostIsOutOfReach(t *testing.T) {
	t.Setenv("FLYBALL_SECRET", "hunter2")
	controllerstest.InVirtualTime(t, controllers.Options{Stages: stages.New()}, func(e controllerstest.Env) {
		e.CreateAll(stageOf(t, "spy", `
resourceRef: {apiGroup: v1, kind: Pod}
selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]}
next: {statusTemplate: '{phase: Running, message: "got {{ env "FLYBALL_SECRET" }}{{ expandenv "$FLYBALL_SECRET" }}{{ getHostByName "localhost" }}"}'}`),
			controllerstest.PodOn("flyball", "default", "p"))
		e.WaitIdle()
		if got := e.Pod("p").Status.Message; got != "got " {
			t.Errorf("the message is %q; %s", got, condition(e, "spy"))
		}
	})
}

// TestLoad loads stages from files.
func TestLoad(t *testing.T) {
	const one = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: %s}\nspec: {resourceRef: {kind: Pod}}\n"
	inJSON := func(name string) string {
		return `{"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": "` + name + `"}, "spec": {"resourceRef": {"kind": "Pod"}}}`
	}
	a, b := fmt.Sprintf(one, "a"), fmt.Sprintf(one, "b")
	for _, test := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"s.yaml": a + "---\n" + b}, "a b"},
		{map[string]string{"2.yml": a, "1.yaml": b, "kustomization.yaml": "resources: []", "README.md": "x"}, "b a"},
		{map[string]string{"s.yaml": "# nothing\n---\n" + a}, "a"},
		{map[string]string{"l.json": `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": "j"}, "spec": {"resourceRef": {"kind": "Pod"}}}]}`}, "j"},
		{map[string]string{"s.json": inJSON("a") + "\n" + inJSON("b") + inJSON("c") + "\n"}, "a b c"},
		{map[string]string{"s.json": inJSON("a") + "\n---\n" + inJSON("b")}, "a b"},
		{map[string]string{"s.json": inJSON("a") + "\n" + `{"kind": "Pod"}`}, "error: DIR/s.json: a manifest has the kind Pod"},
		{map[string]string{"s.json": inJSON("a") + "\n" + `{"kind":`}, "error: DIR/s.json: "},
		{map[string]string{"x.txt": a}, "error: DIR: there is no Stage"},
		{map[string]string{"s.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}"}, "error: DIR/s.yaml: a manifest has the kind Pod of v1; want Stage of kwok.x-k8s.io/v1alpha1"},
		{map[string]string{"s.yaml": a + "  nonsense: 1\n"}, "error: DIR/s.yaml: error converting YAML to JSON"},
		{map[string]string{"s.yaml": "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\nspec: {nonsense: 1}\n"}, `error: DIR/s.yaml: stage "a": error unmarshaling JSON: while decoding JSON: json: unknown field "nonsense"`},
	} {
		dir := t.TempDir()
		for name, content := range test.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		list, err := stages.Load(dir)
		var names []string
		for _, s := range list {
			names = append(names, s.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = "error: " + strings.ReplaceAll(err.Error(), dir, "DIR")
		}
		if !strings.HasPrefix(got, test.want) || err == nil && got != test.want {
			t.Errorf("%v: %q, want %q", test.files, got, test.want)
		}
	}
}
