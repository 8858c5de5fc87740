package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/internal/backup"
)

// updateStatus updates the status from what was observed and is being done.
func (r *DatabaseReconciler) updateStatus(ctx context.Context, db *dbv1.Database, o *observed, p *plan) error {
	before := db.DeepCopy()
	db.Status.Primary = ""
	if o.set {
		db.Status.Primary = p.primary
	}
	db.Status.Version = ""
	available := condition(dbv1.ConditionAvailable, metav1.ConditionFalse, "PrimaryNotReady", "the primary is not ready")
	if primary := o.instance(p.primary); primary != nil {
		db.Status.Version = primary.version
		if primary.ready {
			available = condition(available.Type, metav1.ConditionTrue, "PrimaryReady", p.primary+" is ready")
		}
	}
	db.Status.ReadyReplicas = o.readyInstances()
	ready := notReady(p.reason, p.message)
	if p.reason == "" {
		ready = condition(ready.Type, metav1.ConditionTrue, "AllInstancesReady", "all instances are ready and as specified")
	}
	return r.patchStatus(ctx, before, db, ready, available, backupReady(o))
}

// updateReady updates the condition Ready alone.
func (r *DatabaseReconciler) updateReady(ctx context.Context, db *dbv1.Database, ready metav1.Condition) error {
	return r.patchStatus(ctx, db.DeepCopy(), db, ready)
}

// patchStatus patches the status if it has changed, and reports a change of the condition Ready,
// which is the first.
func (r *DatabaseReconciler) patchStatus(ctx context.Context, before, db *dbv1.Database,
	conditions ...metav1.Condition) error {
	db.Status.ObservedGeneration = db.Generation
	for _, c := range conditions {
		c.ObservedGeneration = db.Generation
		meta.SetStatusCondition(&db.Status.Conditions, c)
	}
	if equality.Semantic.DeepEqual(before.Status, db.Status) {
		return nil
	}
	if err := r.Status().Patch(ctx, db, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	ready := conditions[0]
	was := meta.FindStatusCondition(before.Status.Conditions, ready.Type)
	if was == nil || was.Reason != ready.Reason {
		log.FromContext(ctx).Info("Ready is "+string(ready.Status)+".", "reason", ready.Reason, "because", ready.Message)
		kind := corev1.EventTypeNormal
		switch ready.Reason {
		case "BackupServiceUnavailable", "NameTaken", "ReconcileFailed":
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(db, nil, kind, ready.Reason, "Observe", "%s", ready.Message)
	}
	return nil
}

// backupReady returns the condition BackupReady.
func backupReady(o *observed) metav1.Condition {
	c := condition(dbv1.ConditionBackupReady, metav1.ConditionFalse, "VaultPending", "the vault is being created")
	switch {
	case o.backupErr != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "BackupServiceUnavailable", o.backupErr.Error()
	case o.vault == backup.Ready:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "VaultReady", "the vault is ready"
	case o.vault == backup.Absent:
		c.Reason, c.Message = "NoVault", "there is no vault yet"
	}
	return c
}

func notReady(reason, message string) metav1.Condition {
	return condition(dbv1.ConditionReady, metav1.ConditionFalse, reason, message)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
