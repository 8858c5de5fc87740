package tour

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/internal/backup"
	"flyball.dev/examples/internal/await"
)

// hang deletes pods on a node that does not answer: they remain, and are not ready.
func (w *world) hang(ctx context.Context, pods ...string) error {
	for _, pod := range pods {
		if err := w.setFinalizers(ctx, pod, "example.com/node"); err != nil {
			return err
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}}
		if err := w.c.Delete(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// goOn ends what hang began, and waits until other pods with these names are ready.
func (w *world) goOn(ctx context.Context, pods ...string) error {
	for _, pod := range pods {
		if err := w.setFinalizers(ctx, pod); err != nil {
			return err
		}
	}
	return await.Until(ctx, w.c, &corev1.PodList{}, func(all []*corev1.Pod) string {
		returned := 0
		for _, p := range all {
			if slices.Contains(pods, p.Name) && isReady(p) {
				returned++
			}
		}
		if returned < len(pods) {
			return fmt.Sprintf("%d of the Pods %q have returned", returned, pods)
		}
		return ""
	}, ofDatabase...)
}

// setFinalizers sets the finalizers of a pod.
func (w *world) setFinalizers(ctx context.Context, pod string, finalizers ...string) error {
	p := &corev1.Pod{}
	if err := w.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod}, p); err != nil {
		return err
	}
	before := client.MergeFrom(p.DeepCopy())
	p.Finalizers = finalizers
	return w.c.Patch(ctx, p, before)
}

func (w *world) failOver(ctx context.Context) error {
	if err := w.hang(ctx, "orders-0"); err != nil {
		return err
	}
	if err := w.selects(ctx, "orders-1"); err != nil {
		return err
	}
	if err := w.goOn(ctx, "orders-0"); err != nil {
		return err
	}
	if _, err := w.actions(ctx, 1, "FailedOver"); err != nil {
		return err
	}
	return w.ready(ctx, "orders-1")
}

// snapshot raises the version while snapshots do not complete, and restarts the operator.
func (w *world) snapshot(ctx context.Context) (err error) {
	w.service.Set(backup.Settings{Hold: true})
	if err := w.change(ctx, func(s *dbv1.DatabaseSpec) { s.Version = "17.6" }); err != nil {
		return err
	}
	if err := w.untouched(ctx); err != nil {
		return err
	}
	if err := w.operator.Stop(); err != nil {
		return err
	}
	n := len(w.Reconciles.Ended())
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	db, err := w.read(ctx)
	if err != nil {
		return err
	}
	if err := w.Reconciles.AwaitCausedBy(ctx, w.c, n, key, db); err != nil {
		return err
	}
	return w.untouched(ctx)
}

// untouched checks that the Database waits for the only snapshot, and that nothing has the new
// version.
func (w *world) untouched(ctx context.Context) error {
	if _, err := w.condition(ctx, dbv1.ConditionReady, "TakingSnapshot"); err != nil {
		return err
	}
	snapshots, _, err := w.vault(ctx)
	if err != nil {
		return err
	}
	if state := snapshots["17.5-to-17.6"]; len(snapshots) != 1 || state != backup.Pending {
		return fmt.Errorf("the snapshots are %v", snapshots)
	}
	set := &appsv1.StatefulSet{}
	if err := w.c.Get(ctx, key, set); err != nil {
		return err
	}
	if image := set.Spec.Template.Spec.Containers[0].Image; image != "postgres:17.5" {
		return fmt.Errorf("the StatefulSet has the image %s before the snapshot is complete", image)
	}
	if db, err := w.read(ctx); err != nil || db.Status.ReadyReplicas != 3 || db.Status.Version != "17.5" {
		return fmt.Errorf("the status is %+v: %v", db.Status, err)
	}
	return nil
}

// upgrade lets the snapshot complete, and follows the upgrade.
func (w *world) upgrade(ctx context.Context) error {
	w.service.Set(backup.Settings{})
	if err := w.oneAtATime(ctx, 3, func(p *corev1.Pod) bool { return runs(p, "17.6") }); err != nil {
		return err
	}
	if err := w.ready(ctx, "orders-0"); err != nil {
		return err
	}
	want := []string{
		"SnapshotRequested",
		"InstanceStopped orders-2", "InstanceStopped orders-0", "Promoted orders-0", "InstanceStopped orders-1",
	}
	got, err := w.actions(ctx, len(want), "SnapshotRequested", "InstanceStopped", "Promoted")
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("the operator did %q, want %q", got, want)
	}
	return err
}

// oneAtATime waits until n pods are ready and new. All the time, all but one must be ready.
func (w *world) oneAtATime(ctx context.Context, n int, isNew func(*corev1.Pod) bool) error {
	fewest := n
	err := await.Until(ctx, w.c, &corev1.PodList{}, func(all []*corev1.Pod) string {
		ready, replaced := 0, 0
		for _, p := range all {
			if isReady(p) {
				ready++
				if isNew(p) {
					replaced++
				}
			}
		}
		fewest = min(fewest, ready)
		if replaced < n {
			return fmt.Sprintf("%d instances are replaced and ready, want %d", replaced, n)
		}
		return ""
	}, ofDatabase...)
	if err == nil && fewest < n-1 {
		err = fmt.Errorf("only %d instances were ready at a time, want %d", fewest, n-1)
	}
	return err
}

// drift changes what the operator has applied, by hand. No instance is replaced because of that.
func (w *world) drift(ctx context.Context) error {
	set := &appsv1.StatefulSet{}
	if err := w.c.Get(ctx, key, set); err != nil {
		return err
	}
	before := client.MergeFrom(set.DeepCopy())
	set.Spec.Template.Spec.Containers[0].Image = "intruder:1"
	if err := w.c.Patch(ctx, set, before); err != nil {
		return err
	}
	if err := await.Object(ctx, w.c, set, func(s *appsv1.StatefulSet) string {
		if image := s.Spec.Template.Spec.Containers[0].Image; image != "postgres:17.6" {
			return "the StatefulSet has the image " + image
		}
		return ""
	}); err != nil {
		return err
	}
	service := &corev1.Service{}
	if err := w.c.Get(ctx, key, service); err != nil {
		return err
	}
	if err := w.c.Delete(ctx, service); err != nil {
		return err
	}
	old := service.UID
	if err := await.Until(ctx, w.c, &corev1.ServiceList{}, func(all []*corev1.Service) string {
		for _, s := range all {
			if s.Name == name && s.UID != old {
				return ""
			}
		}
		return "the Service was not created again"
	}, ofDatabase...); err != nil {
		return err
	}
	return w.ready(ctx, "orders-0")
}

// scaleDown removes the instance that is the primary.
func (w *world) scaleDown(ctx context.Context) error {
	promoted, err := w.actions(ctx, 1, "Promoted")
	if err != nil {
		return err
	}
	if err := w.change(ctx, func(s *dbv1.DatabaseSpec) { s.Replicas = 2 }); err != nil {
		return err
	}
	if err := w.oneAtATime(ctx, 2, func(p *corev1.Pod) bool { return p.Name != "orders-2" }); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders-2"}}); err != nil {
		return err
	}
	if err := w.ready(ctx, "orders-0"); err != nil {
		return err
	}
	_, err = w.actions(ctx, len(promoted)+1, "Promoted")
	return err
}

// changeSecret makes the Database use another Secret, after which the first one is another's.
func (w *world) changeSecret(ctx context.Context) error {
	if err := w.c.Create(ctx, newSecret(secondSecret, map[string]string{"password": "tunafish"})); err != nil {
		return err
	}
	if err := w.change(ctx, func(s *dbv1.DatabaseSpec) { s.SecretName = secondSecret }); err != nil {
		return err
	}
	if err := w.oneAtATime(ctx, 2, func(p *corev1.Pod) bool { return secretOf(p) == secondSecret }); err != nil {
		return err
	}
	if err := w.ready(ctx, "orders-1"); err != nil {
		return err
	}
	n := len(w.Reconciles.Ended())
	if err := w.setSecret(ctx, secretName, "password", "unused"); err != nil {
		return err
	}
	if err := w.setSecret(ctx, secondSecret, "password", "catfish"); err != nil {
		return err
	}
	if err := w.countReconciles(ctx, n, 1, "caused by the Secret", causedBySecret(secondSecret)); err != nil {
		return err
	}
	if slices.ContainsFunc(w.Reconciles.Ended()[n:], causedBySecret(secretName)) {
		return errors.New("the former Secret has caused a reconcile")
	}
	return nil
}
