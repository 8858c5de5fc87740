package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("two.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: shop}\n")
	path := write("scenario.yaml", `
rest: 2s
controllers: [pods]
steps:
- apply: two.yaml
- name: grow
  patch: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {size: "3"}}
- delete: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
invariants:
- name: few
  expression: all("ConfigMap").size() < 9
  atRest: true
`)
	s, err := Read(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, step := range s.Steps {
		names = append(names, step.Name)
	}
	if got, want := strings.Join(names, ", "), "apply ConfigMap a, apply ConfigMap shop/b, grow, delete ConfigMap a"; got != want {
		t.Errorf("steps %s, want %s", got, want)
	}
	if s.Rest != 2*time.Second || len(s.Controllers) != 1 || len(s.Invariants) != 1 || !s.Invariants[0].AtRest {
		t.Errorf("got %+v", s)
	}
}

// TestIntegers: the steps apply and patch with integers that a float64 cannot hold.
func TestIntegers(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	c, err := client.New(plane.Config(), client.Options{Scheme: clientscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scenario.yaml")
	const content = `
steps:
- apply:
    apiVersion: batch/v1
    kind: Job
    metadata: {name: a}
    spec: {activeDeadlineSeconds: 9007199254740993, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
- patch: {apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {activeDeadlineSeconds: 9007199254740995}}
`
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Read(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{9007199254740993, 9007199254740995} {
		job := &batchv1.Job{}
		err := errors.Join(s.Steps[i].Do(t.Context(), c), c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, job))
		if err != nil || *job.Spec.ActiveDeadlineSeconds != want {
			t.Fatalf("%s: %v, %v, want %d", s.Steps[i].Name, err, job.Spec, want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for _, tc := range []struct{ name, content, want string }{
		{"no steps", "rest: 2s", "there are no steps"},
		{"unknown field", "step: []", `unknown field "step"`},
		{"two verbs", "steps:\n- {apply: a.yaml, delete: {kind: Pod}}", "steps[0]: a step has exactly one of apply, patch and delete"},
		{"no identity", "steps:\n- delete: {kind: Pod}", "steps[0]: an object needs apiVersion, kind and metadata.name"},
		{"no file", "steps:\n- apply: nowhere.yaml", "nowhere.yaml: no such file"},
		{"a number", "steps:\n- apply: 3", "apply: neither the path of a file nor an object"},
		{"short rest", "rest: 1ms\nsteps:\n- apply: {apiVersion: v1, kind: Pod, metadata: {name: a}}", "the world must be at rest for at least 1s"},
		{"expression", "steps:\n- apply: {apiVersion: v1, kind: Pod, metadata: {name: a}}\ninvariants:\n- {name: x, expression: all(3)}", `invariants[0]: the invariant "x"`},
		{"no bool", "steps:\n- apply: {apiVersion: v1, kind: Pod, metadata: {name: a}}\ninvariants:\n- {name: x, expression: all(\"Pod\").size()}", "is of type int, want bool"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.yaml")
			if err := os.WriteFile(path, []byte(tc.content), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(t.Context(), path); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
