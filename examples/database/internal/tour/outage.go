package tour

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/client"
	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/internal/backup"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/reconciles"
)

// backupDown loses two instances, one of them the primary, while the backup service is down.
func (w *world) backupDown(ctx context.Context) error {
	w.service.Set(backup.Settings{Down: true})
	if err := w.hang(ctx, "orders-0", "orders-1"); err != nil {
		return err
	}
	if err := w.selects(ctx, "orders-2"); err != nil {
		return err
	}
	if _, err := w.condition(ctx, dbv1.ConditionBackupReady, "BackupServiceUnavailable"); err != nil {
		return err
	}
	if err := w.goOn(ctx, "orders-0", "orders-1"); err != nil {
		return err
	}
	return w.ready(ctx, "orders-2")
}

// vaultLost ends the outage. The operator would notice by itself when it retries; a change of the
// Secret makes it reconcile at once.
func (w *world) vaultLost(ctx context.Context) error {
	w.service.DeleteVaults()
	w.service.Set(backup.Settings{})
	if err := w.setSecret(ctx, secretName, "password", "codfish"); err != nil {
		return err
	}
	if _, err := w.condition(ctx, dbv1.ConditionBackupReady, "VaultReady"); err != nil {
		return err
	}
	if _, ok, err := w.vault(ctx); !ok || err != nil {
		return fmt.Errorf("there is no vault: %v", err)
	}
	return w.ready(ctx, "orders-2")
}

// deleteWhileDown deletes the Database, and checks that the delays of the retries double.
func (w *world) deleteWhileDown(ctx context.Context) error {
	w.service.Set(backup.Settings{Down: true})
	n := len(w.Reconciles.Ended())
	db, err := w.read(ctx)
	if err != nil {
		return err
	}
	if err := w.c.Delete(ctx, db); err != nil {
		return err
	}
	message, err := w.condition(ctx, dbv1.ConditionReady, "BackupServiceUnavailable")
	if err != nil {
		return err
	}
	if !strings.Contains(message, "503") {
		return fmt.Errorf("the message is %q", message)
	}
	failed := func(r reconciles.Reconcile) bool { return r.Result == "error" }
	if err := w.countReconciles(ctx, n, 4, "that failed", failed); err != nil {
		return err
	}
	var last time.Time
	delay := 20 * time.Millisecond
	for _, r := range w.Reconciles.Ended()[n:] {
		if !failed(r) {
			continue
		}
		if !last.IsZero() {
			if passed := r.Start.Sub(last); passed < delay {
				return fmt.Errorf("retried after %s, want at least %s", passed, delay)
			}
			delay *= 2
		}
		last = r.Start
	}
	return w.kept(ctx)
}

// kept returns an error if the Database or what it needs is gone.
func (w *world) kept(ctx context.Context) error {
	db, err := w.read(ctx)
	if err != nil {
		return err
	}
	if db.DeletionTimestamp.IsZero() || len(db.Finalizers) != 1 {
		return errors.New("the Database does not wait for its finalizer")
	}
	if _, ok, err := w.vault(ctx); !ok || err != nil {
		return fmt.Errorf("the vault is gone: %v", err)
	}
	return w.c.Get(ctx, key, &appsv1.StatefulSet{})
}

// deleted ends the outage, upon which everything is deleted.
func (w *world) deleted(ctx context.Context) error {
	db, err := w.read(ctx)
	if err != nil {
		return err
	}
	w.service.Set(backup.Settings{})
	if err := await.Gone(ctx, w.c, db); err != nil {
		return err
	}
	if vaults := w.service.Vaults(); len(vaults) > 0 {
		return fmt.Errorf("the vaults %v are left", vaults)
	}
	if err := none[*appsv1.StatefulSet](ctx, w, &appsv1.StatefulSetList{}); err != nil {
		return err
	}
	if err := none[*corev1.Pod](ctx, w, &corev1.PodList{}); err != nil {
		return err
	}
	if err := none[*corev1.PersistentVolumeClaim](ctx, w, &corev1.PersistentVolumeClaimList{}); err != nil {
		return err
	}
	return none[*corev1.Service](ctx, w, &corev1.ServiceList{})
}

// none waits until the Database has no objects of the list's kind.
func none[T client.Object](ctx context.Context, w *world, list client.ObjectList) error {
	return await.Until(ctx, w.c, list, func(all []T) string {
		if len(all) > 0 {
			return fmt.Sprintf("%d %T are left", len(all), all[0])
		}
		return ""
	}, ofDatabase...)
}
