// Package tour executes Migrations, deletes and loses what there is to be lost, and checks against
// the API that nothing is executed twice. Crashes between any two writes are in the tests of the
// example.
package tour

import (
	"context"
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	migrationv1 "flyball.dev/examples/batch/api/v1"
	"flyball.dev/examples/batch/internal/controller"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
)

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World) []example.Step {
	w := &world{World: shared}
	step := example.NewStep
	return []example.Step{
		step("a Migration is created: its Job is executed, and its result recorded", w.create),
		step("the operator is restarted: nothing is written", w.restarted),
		step("its Job is deleted: it is not executed again", w.jobDeleted),
		step("its status is lost: it comes back, and nothing is executed", w.statusLost),
		step("a Job ends while the operator is stopped, and is deleted by its TTL: kept until it is recorded", w.ttl),
		step("a Migration fails: it is not retried, also not after a restart", w.failed),
		step("its image is changed: rejected without another attempt, executed with one", w.retried),
		step("another attempt of what has succeeded is rejected", w.rejected),
		step("one that comes after two others waits for both", w.after),
		step("a suspended one starts when it is resumed", w.suspended),
		step("a Job is deleted while it runs: failed, and not executed again", w.aborted),
		step("a Job of somebody else has the name: left alone", w.nameTaken),
		step("the Migration is deleted: its Job is garbage collected", w.collected),
	}
}

// world is the state that the steps share.
type world struct {
	*example.World
	operator *example.Operator
	first    *migrationv1.Migration
	broken   *migrationv1.Migration
}

// newMigration returns a Migration whose Pods have an outcome, or succeed if that is "".
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
	if w.operator != nil {
		if _, err := manager.WaitIdle(ctx, w.operator.Manager); err != nil {
			return err
		}
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

// stop stops the operator.
func (w *world) stop() error {
	o := w.operator
	w.operator = nil
	return o.Stop()
}

// start starts the operator, and waits until it has nothing to do.
func (w *world) start(ctx context.Context) (err error) {
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	_, err = manager.WaitIdle(ctx, w.operator.Manager)
	return err
}

// restart stops the operator and starts it again.
func (w *world) restart(ctx context.Context) error {
	if err := w.stop(); err != nil {
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

func (w *world) create(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	w.first = newMigration("first", "")
	if err := w.Client.Create(ctx, w.first); err != nil {
		return err
	}
	if err := w.reason(ctx, w.first, controller.ReasonSucceeded); err != nil {
		return err
	}
	if err := w.released(ctx, "first-1"); err != nil {
		return err
	}
	return w.jobs(ctx, w.first, "first-1")
}

func (w *world) restarted(ctx context.Context) error {
	before, err := w.ResourceVersions(ctx, example.Namespace)
	if err != nil {
		return err
	}
	if err := w.restart(ctx); err != nil {
		return err
	}
	return w.Unchanged(ctx, example.Namespace, before)
}

func (w *world) jobDeleted(ctx context.Context) error {
	if err := w.deleteJob(ctx, "first-1"); err != nil {
		return err
	}
	if err := w.jobs(ctx, w.first); err != nil {
		return err
	}
	if err := w.restart(ctx); err != nil {
		return err
	}
	return w.jobs(ctx, w.first)
}

func (w *world) statusLost(ctx context.Context) error {
	if err := w.stop(); err != nil {
		return err
	}
	before := client.MergeFrom(w.first.DeepCopy())
	w.first.Status = migrationv1.MigrationStatus{}
	if err := w.Client.Status().Patch(ctx, w.first, before); err != nil {
		return err
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	if err := w.reason(ctx, w.first, controller.ReasonSucceeded); err != nil {
		return err
	}
	return w.jobs(ctx, w.first)
}

// ttl lets a Job end, and be deleted, while the operator is stopped.
func (w *world) ttl(ctx context.Context) error {
	m := newMigration("short", "Running")
	m.Spec.TTLSecondsAfterFinished = new(int32(0))
	if err := w.Client.Create(ctx, m); err != nil {
		return err
	}
	if err := w.reason(ctx, m, controller.ReasonRunning); err != nil {
		return err
	}
	if err := w.stop(); err != nil {
		return err
	}
	if err := w.succeed(ctx, "short-1"); err != nil {
		return err
	}
	if err := await.Object(ctx, w.Client, job("short-1"), func(j *batchv1.Job) string {
		if j.DeletionTimestamp.IsZero() {
			return "the Job is not being deleted"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.Client, job("short-1")); err != nil {
		return err
	}
	if err := w.reason(ctx, m, controller.ReasonSucceeded); err != nil {
		return err
	}
	return w.jobs(ctx, m)
}

// succeed waits until a Job has a Pod, and makes its container succeed.
func (w *world) succeed(ctx context.Context, job string) error {
	var pod *corev1.Pod
	err := await.Until(ctx, w.Client, &corev1.PodList{}, func(all []*corev1.Pod) string {
		if len(all) == 0 {
			return "the Job has no Pod"
		}
		pod = all[0].DeepCopy()
		return ""
	}, client.InNamespace(example.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job})
	if err != nil {
		return err
	}
	before := client.MergeFrom(pod.DeepCopy())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "flyball.dev/outcome", "Succeeded")
	return w.Client.Patch(ctx, pod, before)
}

func (w *world) failed(ctx context.Context) error {
	w.broken = newMigration("broken", "Failed")
	if err := w.Client.Create(ctx, w.broken); err != nil {
		return err
	}
	if err := w.reason(ctx, w.broken, controller.ReasonFailed); err != nil {
		return err
	}
	if err := w.restart(ctx); err != nil {
		return err
	}
	if err := w.released(ctx, "broken-1"); err != nil {
		return err
	}
	if err := w.deleteJob(ctx, "broken-1"); err != nil {
		return err
	}
	return w.jobs(ctx, w.broken)
}

func (w *world) retried(ctx context.Context) error {
	repaired := func(s *migrationv1.MigrationSpec) {
		s.Image, s.PodAnnotations = "example.com/migrate:2", nil
	}
	if err := w.change(ctx, w.broken.DeepCopy(), repaired); !apierrors.IsInvalid(err) {
		return fmt.Errorf("the API server answered %v", err)
	}
	if err := w.change(ctx, w.broken, func(s *migrationv1.MigrationSpec) {
		repaired(s)
		s.Attempt = 2
	}); err != nil {
		return err
	}
	if err := w.reason(ctx, w.broken, controller.ReasonSucceeded); err != nil {
		return err
	}
	if w.broken.Status.Attempt != 2 {
		return fmt.Errorf("attempt %d has succeeded, want 2", w.broken.Status.Attempt)
	}
	return w.jobs(ctx, w.broken, "broken-2")
}

func (w *world) rejected(ctx context.Context) error {
	err := w.change(ctx, w.broken.DeepCopy(), func(s *migrationv1.MigrationSpec) { s.Attempt = 3 })
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("the API server answered %v", err)
	}
	return nil
}

// after creates a Migration before those that it waits for, of which one fails at first.
func (w *world) after(ctx context.Context) error {
	last := newMigration("last", "")
	last.Spec.After = []string{"middle", "first"}
	middle := newMigration("middle", "Failed")
	if err := w.Client.Create(ctx, last); err != nil {
		return err
	}
	if err := w.reason(ctx, last, controller.ReasonWaiting); err != nil {
		return err
	}
	if err := w.Client.Create(ctx, middle); err != nil {
		return err
	}
	if err := w.reason(ctx, middle, controller.ReasonFailed); err != nil {
		return err
	}
	if err := w.jobs(ctx, last); err != nil {
		return err
	}
	if err := w.change(ctx, middle, func(s *migrationv1.MigrationSpec) { s.Attempt, s.PodAnnotations = 2, nil }); err != nil {
		return err
	}
	if err := w.reason(ctx, last, controller.ReasonSucceeded); err != nil {
		return err
	}
	return w.jobs(ctx, last, "last-1")
}

func (w *world) suspended(ctx context.Context) error {
	m := newMigration("later", "")
	m.Spec.Suspend = true
	if err := w.Client.Create(ctx, m); err != nil {
		return err
	}
	if err := w.reason(ctx, m, controller.ReasonSuspended); err != nil {
		return err
	}
	if err := w.jobs(ctx, m); err != nil {
		return err
	}
	if err := w.change(ctx, m, func(s *migrationv1.MigrationSpec) { s.Suspend = false }); err != nil {
		return err
	}
	return w.reason(ctx, m, controller.ReasonSucceeded)
}

func (w *world) aborted(ctx context.Context) error {
	m := newMigration("long", "Running")
	if err := w.Client.Create(ctx, m); err != nil {
		return err
	}
	if err := w.reason(ctx, m, controller.ReasonRunning); err != nil {
		return err
	}
	if err := w.deleteJob(ctx, "long-1"); err != nil {
		return err
	}
	if err := w.reason(ctx, m, controller.ReasonFailed); err != nil {
		return err
	}
	return w.jobs(ctx, m)
}

func (w *world) nameTaken(ctx context.Context) error {
	theirs := job("theirs-1")
	theirs.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "task", Image: "example.com/task:1"}}}
	theirs.Spec.Suspend = new(true)
	m := newMigration("theirs", "")
	for _, obj := range []client.Object{theirs, m} {
		if err := w.Client.Create(ctx, obj); err != nil {
			return err
		}
	}
	if err := w.reason(ctx, m, controller.ReasonNameTaken); err != nil {
		return err
	}
	now := &batchv1.Job{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(theirs), now); err != nil {
		return err
	}
	if now.UID != theirs.UID || now.Generation != theirs.Generation || len(now.OwnerReferences) > 0 {
		return fmt.Errorf("the Job was changed: %v", now)
	}
	return nil
}

func (w *world) collected(ctx context.Context) error {
	m := newMigration("unwanted", "Running")
	if err := w.Client.Create(ctx, m); err != nil {
		return err
	}
	if err := w.reason(ctx, m, controller.ReasonRunning); err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, m); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.Client, m); err != nil {
		return err
	}
	return await.Gone(ctx, w.Client, job("unwanted-1"))
}
