package tour

import (
	"context"
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	migrationv1 "flyball.dev/examples/batch/api/v1"
	"flyball.dev/examples/batch/internal/controller"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
)

// world is the state that the steps share.
type world struct {
	*example.World
	operator *example.Operator
	first    *migrationv1.Migration
	broken   *migrationv1.Migration
}

// newMigration returns a Migration with Pods that have an outcome, or succeed if that is "".
func newMigration(name, outcome string) *migrationv1.Migration {
	m := &migrationv1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name},
		Spec:       migrationv1.MigrationSpec{Image: "example.com/migrate:1"},
	}
	if outcome != "" {
		m.Spec.PodAnnotations = map[string]string{"flyball.dev/outcome": outcome}
	}
	return m
}

// reason waits until the condition Complete has that reason, of this generation.
func (w *world) reason(ctx context.Context, m *migrationv1.Migration, reason string) error {
	generation := m.Generation
	return await.Object(ctx, w.Client, m, func(m *migrationv1.Migration) string {
		c := meta.FindStatusCondition(m.Status.Conditions, migrationv1.ConditionComplete)
		succeeded := reason == controller.ReasonSucceeded
		if c == nil || c.Reason != reason || (c.Status == metav1.ConditionTrue) != succeeded ||
			m.Status.ObservedGeneration < generation {
			return fmt.Sprintf("Complete of %s is %+v, want the reason %s", m.Name, c, reason)
		}
		return ""
	})
}

// jobs waits until the operator has nothing to do, and checks that a Migration has these Jobs.
func (w *world) jobs(ctx context.Context, m *migrationv1.Migration, names ...string) error {
	if err := w.operator.Idle(ctx); err != nil {
		return err
	}
	list := &batchv1.JobList{}
	if err := w.Client.List(ctx, list, client.InNamespace(example.Namespace)); err != nil {
		return err
	}
	want, have := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		want[name] = true
	}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], m) {
			have[list.Items[i].Name] = true
		}
	}
	if !maps.Equal(want, have) {
		return fmt.Errorf("%s has the Jobs %v, want %v", m.Name, have, want)
	}
	return nil
}

// job returns a Job by its name.
func job(name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name}}
}

// deleteJob deletes a Job and waits until it is gone.
func (w *world) deleteJob(ctx context.Context, name string) error {
	if err := w.Client.Delete(ctx, job(name), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	return await.Gone(ctx, w.Client, job(name))
}

// change patches the spec of a Migration.
func (w *world) change(ctx context.Context, m *migrationv1.Migration, change func(*migrationv1.MigrationSpec)) error {
	before := client.MergeFrom(m.DeepCopy())
	change(&m.Spec)
	return w.Client.Patch(ctx, m, before)
}

// start starts the operator, and waits until it has nothing to do.
func (w *world) start(ctx context.Context) (err error) {
	w.operator, err = w.StartIdle(ctx)
	return err
}

// restart stops the operator and starts it again.
func (w *world) restart(ctx context.Context) error {
	if err := w.operator.Stop(); err != nil {
		return err
	}
	return w.start(ctx)
}

// released waits until a Job does not have the finalizer of the operator any more.
func (w *world) released(ctx context.Context, name string) error {
	return await.Object(ctx, w.Client, job(name), func(j *batchv1.Job) string {
		for _, f := range j.Finalizers {
			if f == controller.Finalizer {
				return "the Job " + name + " has a finalizer"
			}
		}
		return ""
	})
}
