package tour

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"flyball.dev/ctrl/client"
	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/internal/backup"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/reconciles"
)

// start starts the operator and creates Databases that are invalid.
func (w *world) start(ctx context.Context) (err error) {
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	for want, change := range map[string]func(*dbv1.Database){
		"spec.engine":   func(db *dbv1.Database) { db.Spec.Engine = "dbase" },
		"spec.version":  func(db *dbv1.Database) { db.Spec.Version = "latest" },
		"spec.replicas": func(db *dbv1.Database) { db.Spec.Replicas = 1 },
		"spec.storage":  func(db *dbv1.Database) { db.Spec.Storage = resource.MustParse("-1Gi") },
		"the name must": func(db *dbv1.Database) { db.Name = strings.Repeat("a", 53) },
	} {
		db := newDatabase()
		change(db)
		if err := w.c.Create(ctx, db); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("it was not rejected because of %s: %v", want, err)
		}
	}
	return nil
}

func (w *world) awaitSecret(ctx context.Context) error {
	if err := w.c.Create(ctx, newDatabase()); err != nil {
		return err
	}
	message, err := w.condition(ctx, dbv1.ConditionReady, "SecretNotReady")
	if err != nil {
		return err
	}
	if want := "there is no Secret " + secretName; message != want {
		return fmt.Errorf("the message is %q, want %q", message, want)
	}
	if err := w.countReconciles(ctx, 0, 1, "that end with RequeueAfter: 30s", func(r reconciles.Reconcile) bool {
		return r.RequeueAfter == "30s"
	}); err != nil {
		return err
	}
	return w.nothingCreated(ctx)
}

// nothingCreated returns an error if there is a StatefulSet or a vault.
func (w *world) nothingCreated(ctx context.Context) error {
	if err := w.c.Get(ctx, key, &appsv1.StatefulSet{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("there is a StatefulSet: %v", err)
	}
	if _, ok, err := w.vault(ctx); ok || err != nil {
		return fmt.Errorf("there is a vault: %v", err)
	}
	return nil
}

// otherSecrets changes another Secret and then creates the one that the Database names. Their
// events arrive in order, so when the event of the second has caused a reconcile, the events
// of the first have been handled.
func (w *world) otherSecrets(ctx context.Context) error {
	const other = "other-credentials"
	n := len(w.Reconciles.Ended())
	secret := newSecret(other, map[string]string{"password": "p"})
	if err := w.c.Create(ctx, secret); err != nil {
		return err
	}
	for _, value := range []string{"q", "r"} {
		if err := w.setSecret(ctx, other, "password", value); err != nil {
			return err
		}
	}
	if err := w.c.Delete(ctx, secret); err != nil {
		return err
	}
	if err := w.c.Create(ctx, newSecret(secretName, map[string]string{"user": "admin"})); err != nil {
		return err
	}
	if err := w.countReconciles(ctx, n, 1, "caused by the Secret", causedBySecret(secretName)); err != nil {
		return err
	}
	for _, r := range w.Reconciles.Ended()[n:] {
		if causedBySecret(other)(r) {
			return fmt.Errorf("the other Secret has caused a reconcile: %q", r.Causes)
		}
	}
	if err := await.Object(ctx, w.c, newDatabase(), func(db *dbv1.Database) string {
		if want := "the Secret " + secretName + " has no key password"; db.Status.Conditions[0].Message != want {
			return fmt.Sprintf("the status is %+v, want the message %q", db.Status, want)
		}
		return ""
	}); err != nil {
		return err
	}
	return w.nothingCreated(ctx)
}

// awaitVault adds the key while vaults do not become ready.
func (w *world) awaitVault(ctx context.Context) error {
	w.service.Set(backup.Settings{Hold: true})
	n := len(w.Reconciles.Ended())
	if err := w.setSecret(ctx, secretName, "password", "swordfish"); err != nil {
		return err
	}
	if _, err := w.condition(ctx, dbv1.ConditionReady, "VaultPending"); err != nil {
		return err
	}
	if _, ok, err := w.vault(ctx); !ok || err != nil {
		return fmt.Errorf("there is no vault: %v", err)
	}
	if err := w.countReconciles(ctx, n, 3, "that poll", func(r reconciles.Reconcile) bool {
		return len(r.Causes) == 1 && strings.HasPrefix(r.Causes[0], "requeue-after")
	}); err != nil {
		return err
	}
	if err := w.c.Get(ctx, key, &appsv1.StatefulSet{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("there is a StatefulSet before the vault is ready: %v", err)
	}
	return nil
}

// create lets the vault become ready, and checks the created objects.
func (w *world) create(ctx context.Context) error {
	w.service.Set(backup.Settings{})
	var order []string
	err := await.Until(ctx, w.c, &corev1.PodList{}, func(all []*corev1.Pod) string {
		ready := 0
		for _, p := range all {
			if isReady(p) {
				ready++
			}
		}
		if len(all) > ready+1 {
			order = append(order, fmt.Sprintf("%d Pods, of which %d are ready", len(all), ready))
		}
		if ready < 3 {
			return fmt.Sprintf("%d Pods are ready, want 3", ready)
		}
		return ""
	}, ofDatabase...)
	if err != nil {
		return err
	}
	if len(order) > 0 {
		return fmt.Errorf("the instances were not started one after the other: %q", order)
	}
	if err := w.ready(ctx, "orders-0"); err != nil {
		return err
	}
	db, err := w.read(ctx)
	if err != nil {
		return err
	}
	if len(db.Finalizers) != 1 {
		return fmt.Errorf("the finalizers are %q", db.Finalizers)
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := w.c.List(ctx, claims, ofDatabase...); err != nil {
		return err
	}
	size := resource.MustParse("1Gi")
	if len(claims.Items) != 3 || claims.Items[0].Spec.Resources.Requests.Storage().Cmp(size) != 0 {
		return fmt.Errorf("the claims are %+v", claims.Items)
	}
	return nil
}

// restart restarts the operator, which then reconciles everything once.
func (w *world) restart(ctx context.Context) (err error) {
	if err := w.operator.Stop(); err != nil {
		return err
	}
	before, err := w.ResourceVersions(ctx, namespace)
	if err != nil {
		return err
	}
	n := len(w.Reconciles.Ended())
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	for _, o := range []client.Object{&dbv1.Database{}, &appsv1.StatefulSet{}, &corev1.Service{}} {
		if err := w.c.Get(ctx, key, o); err != nil {
			return err
		}
		if err := w.Reconciles.AwaitCausedBy(ctx, w.c, n, key, o); err != nil {
			return err
		}
	}
	return w.Unchanged(ctx, namespace, before)
}

// immutable makes changes that are rejected.
func (w *world) immutable(ctx context.Context) error {
	before, err := w.read(ctx)
	if err != nil {
		return err
	}
	for want, change := range map[string]func(*dbv1.DatabaseSpec){
		"engine is immutable":       func(s *dbv1.DatabaseSpec) { s.Engine = dbv1.MariaDB },
		"storage is immutable":      func(s *dbv1.DatabaseSpec) { s.Storage = resource.MustParse("2Gi") },
		"version cannot be lowered": func(s *dbv1.DatabaseSpec) { s.Version = "17.4" },
	} {
		if err := w.change(ctx, change); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("the change was not rejected with %q: %v", want, err)
		}
	}
	after, err := w.read(ctx)
	if err == nil && after.ResourceVersion != before.ResourceVersion {
		err = errors.New("the Database has changed")
	}
	return err
}
