// Package write has the ways to write to an object that others write to as well, side by side. Each
// function makes a container of a Deployment as wanted, and begins with a copy of the Deployment that
// was read before, from a cache or a while ago:
//
//	                  a stale copy         lists                      fields of others
//	Update            409 Conflict         all is as in the copy      all are as in the copy
//	UpdateWithRetry   read again           all is as in the new copy  all are as in the new copy
//	Merge             not noticed          replaced by the copy's     kept
//	MergeWithLock     409 Conflict         replaced by the copy's     kept
//	StrategicMerge    not noticed          merged by key              kept
//	JSON              a test fails: 422    by index                   kept
//	Apply             there is no copy     merged by key              kept; 409 if the values differ
//
// Only Apply removes fields that are not wanted any more: the server knows what this manager has applied
// before. With the others, the writer would have to know it.
package write

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/retry"

	"flyball.dev/ctrl/client"
)

// Manager is the field manager of all writes.
const Manager = client.FieldOwner("override")

// Container is the wanted part of a container. Whatever else it has is left alone.
type Container struct {
	Name  string
	Image string
	Env   map[string]string
}

// Update replaces the whole object by the copy with the changes. If anything has changed since the
// copy was read, the server answers 409 Conflict: the copy has its resource version.
func Update(ctx context.Context, c client.Client, copied *appsv1.Deployment, wanted Container) error {
	wanted.setIn(copied)
	return c.Update(ctx, copied, Manager)
}

// UpdateWithRetry is Update, and after a conflict it reads the object again and repeats the change. The
// reader must not be a cache, which may still have the copy that was in conflict.
func UpdateWithRetry(ctx context.Context, c client.Client, live client.Reader, copied *appsv1.Deployment,
	wanted Container) error {
	current := copied
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if current == nil {
			current = &appsv1.Deployment{}
			if err := live.Get(ctx, client.ObjectKeyFromObject(copied), current); err != nil {
				return err
			}
		}
		attempt := current
		current = nil
		return Update(ctx, c, attempt, wanted)
	})
}

// Merge sends the difference to the copy as a JSON merge patch (RFC 7386). It knows no lists: the list of
// the containers is sent whole, as it was in the copy, and overwrites what others have changed in it.
func Merge(ctx context.Context, c client.Client, copied *appsv1.Deployment, wanted Container) error {
	before := copied.DeepCopy()
	wanted.setIn(copied)
	return c.Patch(ctx, copied, client.MergeFrom(before), Manager)
}

// MergeWithLock is Merge with the resource version of the copy in the patch, for which the server
// answers 409 Conflict if anything has changed.
func MergeWithLock(ctx context.Context, c client.Client, copied *appsv1.Deployment, wanted Container) error {
	before := copied.DeepCopy()
	wanted.setIn(copied)
	return c.Patch(ctx, copied, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), Manager)
}

// StrategicMerge sends the difference to the copy as a strategic merge patch, which merges lists by
// the keys that the Go types declare: containers and variables by name. Custom resources do not
// support it.
func StrategicMerge(ctx context.Context, c client.Client, copied *appsv1.Deployment, wanted Container) error {
	before := copied.DeepCopy()
	wanted.setIn(copied)
	return c.Patch(ctx, copied, client.StrategicMergeFrom(before), Manager)
}

// JSON sends operations as a JSON patch (RFC 6902). It knows no keys: a changed element is where it was
// in the copy, which the operations test. If a test fails, nothing is written and the server answers
// 422.
func JSON(ctx context.Context, c client.Client, copied *appsv1.Deployment, wanted Container) error {
	patch, err := json.Marshal(wanted.operations(copied))
	if err != nil {
		return err
	}
	return c.Patch(ctx, copied, client.RawPatch(types.JSONPatchType, patch), Manager)
}

// operations returns the JSON patch that makes the container as wanted.
func (wanted Container) operations(copied *appsv1.Deployment) []operation {
	const containers = "/spec/template/spec/containers"
	i := wanted.indexIn(copied)
	if i < 0 {
		changed := copied.DeepCopy()
		wanted.setIn(changed)
		added := changed.Spec.Template.Spec.Containers[wanted.indexIn(changed)]
		return []operation{{"add", containers + "/-", added}}
	}
	at, present := fmt.Sprintf("%s/%d", containers, i), copied.Spec.Template.Spec.Containers[i].Env
	all := []operation{{"test", at + "/name", wanted.Name}, {"replace", at + "/image", wanted.Image}}
	if len(present) == 0 && len(wanted.Env) > 0 {
		// An absent value is null to a test.
		all = append(all, operation{"test", at + "/env", nil}, operation{"add", at + "/env", []any{}})
	}
	for _, name := range wanted.names() {
		variable := corev1.EnvVar{Name: name, Value: wanted.Env[name]}
		j := slices.IndexFunc(present, func(e corev1.EnvVar) bool { return e.Name == name })
		if j < 0 {
			all = append(all, operation{"add", at + "/env/-", variable})
			continue
		}
		place := fmt.Sprintf("%s/env/%d", at, j)
		all = append(all, operation{"test", place + "/name", name}, operation{"replace", place, variable})
	}
	return all
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Apply sends the wanted fields, and nothing else, by server-side apply. What this manager has applied
// before and does not any more is removed. If other managers have set a field to another value, the
// server answers 409 Conflict with their names (see [IsFieldConflict]); with force, the fields become
// this manager's.
func Apply(ctx context.Context, c client.Client, key client.ObjectKey, wanted Container, force bool) error {
	options := []client.ApplyOption{Manager}
	if force {
		options = append(options, client.ForceOwnership)
	}
	return c.Apply(ctx, wanted.configuration(key), options...)
}

// IsFieldConflict reports whether an apply has failed because other managers own the fields. Unlike a
// conflict of versions, it remains if the request is repeated.
func IsFieldConflict(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// IsIn reports whether the container is as wanted.
func (wanted Container) IsIn(d *appsv1.Deployment) bool {
	changed := d.DeepCopy()
	wanted.setIn(changed)
	return equality.Semantic.DeepEqual(d, changed)
}

// IsApplied reports whether the wanted fields are exactly the fields that this manager has applied.
func (wanted Container) IsApplied(d *appsv1.Deployment) (bool, error) {
	applied, err := appsv1ac.ExtractDeployment(d, string(Manager))
	if err != nil || applied.Spec == nil || applied.Spec.Template == nil || applied.Spec.Template.Spec == nil {
		return false, err
	}
	for _, c := range applied.Spec.Template.Spec.Containers {
		slices.SortFunc(c.Env, func(a, b corev1ac.EnvVarApplyConfiguration) int { return strings.Compare(*a.Name, *b.Name) })
	}
	return equality.Semantic.DeepEqual(applied, wanted.configuration(client.ObjectKeyFromObject(d))), nil
}

// indexIn returns the index of the container, or -1.
func (wanted Container) indexIn(d *appsv1.Deployment) int {
	return slices.IndexFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == wanted.Name })
}

// setIn makes the container as wanted, and adds it if there is none.
func (wanted Container) setIn(d *appsv1.Deployment) {
	containers := &d.Spec.Template.Spec.Containers
	i := wanted.indexIn(d)
	if i < 0 {
		i = len(*containers)
		*containers = append(*containers, corev1.Container{Name: wanted.Name})
	}
	container := &(*containers)[i]
	container.Image = wanted.Image
	for _, name := range wanted.names() {
		variable := corev1.EnvVar{Name: name, Value: wanted.Env[name]}
		at := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == name })
		if at < 0 {
			container.Env = append(container.Env, variable)
		} else {
			container.Env[at] = variable
		}
	}
}

// configuration returns the fields that are applied.
func (wanted Container) configuration(key client.ObjectKey) *appsv1ac.DeploymentApplyConfiguration {
	container := corev1ac.Container().WithName(wanted.Name).WithImage(wanted.Image)
	for _, name := range wanted.names() {
		container.WithEnv(corev1ac.EnvVar().WithName(name).WithValue(wanted.Env[name]))
	}
	return appsv1ac.Deployment(key.Name, key.Namespace).
		WithSpec(appsv1ac.DeploymentSpec().
			WithTemplate(corev1ac.PodTemplateSpec().
				WithSpec(corev1ac.PodSpec().
					WithContainers(container))))
}

// names returns the names of the variables, sorted.
func (wanted Container) names() []string { return slices.Sorted(maps.Keys(wanted.Env)) }
