package tour

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	migrationv1 "flyball.dev/examples/batch/api/v1"
	"flyball.dev/examples/batch/internal/controller"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
)

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
	if err := w.operator.Stop(); err != nil {
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
	if err := w.operator.Stop(); err != nil {
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

// after creates a Migration before the two that it waits for. One of these fails at first.
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
