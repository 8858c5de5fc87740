// Package scenario reads the scenarios of flyball lab from files.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"flyball.dev/cmd/flyball/internal/apply"
	"flyball.dev/ctrl/client"
	"flyball.dev/lab"
)

// file is the content of a scenario's file.
type file struct {
	// Rest is how long nothing must change until the next step begins.
	Rest *metav1.Duration `json:"rest,omitempty"`
	// Controllers are the cluster's controllers, by the names of kube-controller-manager.
	Controllers []string    `json:"controllers,omitempty"`
	Steps       []step      `json:"steps"`
	Invariants  []invariant `json:"invariants,omitempty"`
}

// step is one of apply, patch and delete.
type step struct {
	Name string `json:"name,omitempty"`
	// Apply is the path of a file with objects, relative to the scenario's file, or an object.
	Apply exact[any] `json:"apply,omitempty"`
	// Patch has the identity of an object and the fields to change: a JSON merge patch.
	Patch exact[map[string]any] `json:"patch,omitempty"`
	// Delete has the identity of an object.
	Delete exact[map[string]any] `json:"delete,omitempty"`
	// Rest is how long nothing must change after the step, if not as long as after the other steps.
	Rest *metav1.Duration `json:"rest,omitempty"`
}

// exact is a value with the numbers of an unstructured object: integers are no float64.
type exact[T any] struct{ value T }

// UnmarshalJSON implements [json.Unmarshaler].
func (e *exact[T]) UnmarshalJSON(text []byte) error { return utiljson.Unmarshal(text, &e.value) }

// invariant is an expression of CEL over the state of the cluster.
type invariant struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
	AtRest     bool   `json:"atRest,omitempty"`
}

// Read reads a scenario from a file.
func Read(ctx context.Context, path string) (s lab.Scenario, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	var f file
	if err := yaml.UnmarshalStrict(content, &f); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	s.Controllers = f.Controllers
	if s.Rest, err = restOf(f.Rest); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	for i, st := range f.Steps {
		steps, err := st.steps(ctx, filepath.Dir(path))
		if err != nil {
			return s, fmt.Errorf("%s: steps[%d]: %w", path, i, err)
		}
		s.Steps = append(s.Steps, steps...)
	}
	if len(s.Steps) == 0 {
		return s, fmt.Errorf("%s: there are no steps", path)
	}
	for i, in := range f.Invariants {
		compiled, err := lab.Expression(in.Name, in.Expression)
		if err != nil {
			return s, fmt.Errorf("%s: invariants[%d]: %w", path, i, err)
		}
		compiled.AtRest = in.AtRest
		s.Invariants = append(s.Invariants, compiled)
	}
	return s, nil
}

// restOf returns how long the world must be at rest, or zero if the file does not say.
func restOf(d *metav1.Duration) (time.Duration, error) {
	switch {
	case d == nil:
		return 0, nil
	case d.Duration < time.Second:
		return 0, fmt.Errorf("rest: %v is too short: the world must be at rest for at least 1s", d.Duration)
	}
	return d.Duration, nil
}

// steps returns the steps of an entry of the file: one for each object of a file to apply.
func (s *step) steps(ctx context.Context, dir string) ([]lab.Step, error) {
	given := 0
	for _, is := range []bool{s.Apply.value != nil, s.Patch.value != nil, s.Delete.value != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, errors.New("a step has exactly one of apply, patch and delete")
	}
	if _, err := restOf(s.Rest); err != nil {
		return nil, err
	}
	switch {
	case s.Patch.value != nil:
		return s.one(s.Patch.value, Patch)
	case s.Delete.value != nil:
		return s.one(s.Delete.value, Delete)
	}
	switch what := s.Apply.value.(type) {
	case map[string]any:
		return s.one(what, Apply)
	case string:
		objects, err := Objects(ctx, filepath.Join(dir, what))
		if err != nil {
			return nil, err
		}
		steps := make([]lab.Step, len(objects))
		for i, o := range objects {
			steps[i] = s.named(Apply(o))
		}
		return steps, nil
	}
	return nil, errors.New("apply: neither the path of a file nor an object")
}

// one returns the step for a single object.
func (s *step) one(content map[string]any, do func(*unstructured.Unstructured) lab.Step) ([]lab.Step, error) {
	o := &unstructured.Unstructured{Object: content}
	if o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "" {
		return nil, errors.New("an object needs apiVersion, kind and metadata.name")
	}
	return []lab.Step{s.named(do(o))}, nil
}

func (s *step) named(l lab.Step) lab.Step {
	if s.Name != "" {
		l.Name = s.Name
	}
	l.Rest, _ = restOf(s.Rest) // steps has checked it
	return l
}

// Objects reads the objects of files and directories. Objects without a namespace are in the namespace default, unless
// their kind has none.
func Objects(ctx context.Context, paths ...string) ([]*unstructured.Unstructured, error) {
	documents, err := apply.Read(ctx, nil, false, paths...)
	if err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, len(documents))
	for i, d := range documents {
		objects[i] = d.Object
	}
	return objects, nil
}

// Apply returns the step that applies an object with server-side apply, as kubectl does with --force-conflicts.
func Apply(o *unstructured.Unstructured) lab.Step {
	return Manifest{Namespace: metav1.NamespaceDefault, Force: true}.Apply(o)
}

// Manifest makes steps of the objects of manifests.
type Manifest struct {
	// Namespace is the namespace of objects that have none and need one.
	Namespace string
	// Force takes fields from other field managers. Otherwise such a field is a conflict.
	Force bool
}

// fieldManager is the field manager of kubectl apply --server-side.
const fieldManager = "kubectl"

// Apply returns the step that applies an object as kubectl apply --server-side does. What kubectl has applied at the client
// belongs to it, too.
func (m Manifest) Apply(o *unstructured.Unstructured) lab.Step {
	return lab.Step{Name: "apply " + describe(o), Do: func(ctx context.Context, c client.Client) error {
		o, err := m.inNamespace(c, o)
		if err == nil {
			err = takeOver(ctx, c, o)
		}
		if err != nil {
			return err
		}
		options := []client.ApplyOption{client.FieldOwner(fieldManager)}
		if m.Force {
			options = append(options, client.ForceOwnership)
		}
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), options...)
	}}
}

// takeOver gives the fields that kubectl has applied at the client to server-side apply, if the object exists.
//
//upstream:k8s.io/kubectl/pkg/cmd/apply.ApplyOptions.migrateToSSAIfNecessary
func takeOver(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(o.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New("kubectl-client-side-apply"), fieldManager)
	if err != nil || patch == nil {
		return err
	}
	return c.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch))
}

// Delete returns the step that deletes an object.
func (m Manifest) Delete(o *unstructured.Unstructured) lab.Step {
	return lab.Step{Name: "delete " + describe(o), Do: func(ctx context.Context, c client.Client) error {
		o, err := m.inNamespace(c, o)
		if err != nil {
			return err
		}
		return c.Delete(ctx, o)
	}}
}

// Patch returns the step that changes some fields of an object.
func Patch(o *unstructured.Unstructured) lab.Step {
	return lab.Step{Name: "patch " + describe(o), Do: func(ctx context.Context, c client.Client) error {
		o, err := Manifest{Namespace: metav1.NamespaceDefault}.inNamespace(c, o)
		if err != nil {
			return err
		}
		content, err := o.MarshalJSON()
		if err != nil {
			return err
		}
		return c.Patch(ctx, o, client.RawPatch(types.MergePatchType, content), client.FieldOwner("kubectl-patch"))
	}}
}

// Delete returns the step that deletes an object.
func Delete(o *unstructured.Unstructured) lab.Step {
	return Manifest{Namespace: metav1.NamespaceDefault}.Delete(o)
}

// inNamespace returns a copy of an object in the namespace of the manifest, if it needs a namespace and has none.
func (m Manifest) inNamespace(c client.Client, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o = o.DeepCopy()
	namespaced, err := c.IsObjectNamespaced(o)
	if err == nil && namespaced && o.GetNamespace() == "" {
		o.SetNamespace(m.Namespace)
	}
	return o, err
}

func describe(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + klog.KObj(o).String()
}
