package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
	storagev1 "flyball.dev/examples/securestorage/api/v1"
	"flyball.dev/examples/securestorage/internal/cloud"
)

// progress is how far a reconcile has come. All of the status follows from it.
type progress struct {
	phase   storagev1.Phase
	account *cloud.Account // nil if it is not known
	reason  string         // of the condition Ready
	message string
	err     error // to be retried with backoff
}

// ready is the progress when all is done.
func ready(storage *storagev1.SecureStorage, account *cloud.Account) progress {
	return progress{phase: storagev1.PhaseReady, account: account, reason: storagev1.ReasonEncrypted,
		message: fmt.Sprintf("Storage account %s is encrypted with %s", account.Name, storage.Spec.Key)}
}

// waiting is the progress while the account has no identity.
func waiting(account *cloud.Account) progress {
	return progress{phase: storagev1.PhaseWaitingForIdentity, account: account, reason: storagev1.ReasonWaiting,
		message: fmt.Sprintf("Storage account %s has no identity yet", account.Name)}
}

// failed is the progress if a request failed in a phase. If it was refused, repeating it soon and
// ever more rarely is of no use: it is repeated regularly, as in a wait.
func failed(phase storagev1.Phase, account *cloud.Account, err error) progress {
	p := progress{phase: phase, account: account, reason: storagev1.ReasonRefused, message: err.Error()}
	if !cloud.IsRefused(err) {
		p.reason, p.err = storagev1.ReasonCloudUnavailable, err
	}
	return p
}

// report writes the progress to the status, if it differs, and returns when to go on.
func (r *SecureStorageReconciler) report(ctx context.Context, storage *storagev1.SecureStorage,
	p progress) (ctrl.Result, error) {
	if err := ctx.Err(); err != nil {
		return ctrl.Result{}, err // the operator stops: that a request was canceled says nothing of the cloud
	}
	before := storage.DeepCopy()
	p.writeTo(storage)
	if !equality.Semantic.DeepEqual(before.Status, storage.Status) {
		if err := r.Status().Patch(ctx, storage, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		r.recordChange(ctx, before, storage)
	}
	switch {
	case p.err != nil:
		return ctrl.Result{}, p.err
	case p.phase == storagev1.PhaseReady:
		return ctrl.Result{RequeueAfter: r.Options.ResyncInterval}, nil
	}
	return ctrl.Result{RequeueAfter: r.Options.PollInterval}, nil
}

// writeTo sets the status. Nothing of the old one is left, but for the time of the condition.
func (p progress) writeTo(storage *storagev1.SecureStorage) {
	status := storagev1.SecureStorageStatus{
		Phase:              p.phase,
		AccountName:        accountName(storage.UID),
		ObservedGeneration: storage.Generation,
		Conditions:         storage.Status.Conditions,
	}
	if p.account != nil {
		status.PrincipalID = p.account.PrincipalID
	}
	condition := metav1.Condition{Type: storagev1.ConditionReady, Status: metav1.ConditionFalse, Reason: p.reason,
		Message: p.message, ObservedGeneration: storage.Generation}
	switch p.phase {
	case storagev1.PhaseReady:
		condition.Status = metav1.ConditionTrue
	case storagev1.PhaseUnknown:
		condition.Status = metav1.ConditionUnknown
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	storage.Status = status
}

// recordChange logs a change of the phase or of the reason. If the cloud fails or refuses a request,
// an event is recorded.
func (r *SecureStorageReconciler) recordChange(ctx context.Context, before, after *storagev1.SecureStorage) {
	was := meta.FindStatusCondition(before.Status.Conditions, storagev1.ConditionReady)
	is := meta.FindStatusCondition(after.Status.Conditions, storagev1.ConditionReady)
	if was != nil && was.Reason == is.Reason && before.Status.Phase == after.Status.Phase {
		return
	}
	log.FromContext(ctx).Info(string(after.Status.Phase)+": "+is.Reason+".", "because", is.Message)
	if is.Reason == storagev1.ReasonRefused || is.Reason == storagev1.ReasonCloudUnavailable {
		r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, is.Reason, string(after.Status.Phase), "%s", is.Message)
	}
}
