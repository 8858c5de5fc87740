// Package controller has the controller of SecureStorages. It creates a storage account in the cloud
// for each, waits for the account's identity, grants it access to a key vault, and enables the key.
//
// Each of these steps looks at what the cloud has and changes it only if it is not as it should be.
// So the controller needs no memory: it can be interrupted anywhere, and the next reconcile goes on.
package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/log"
	storagev1 "flyball.dev/examples/securestorage/api/v1"
	"flyball.dev/examples/securestorage/internal/cloud"
)

// Finalizer keeps a SecureStorage until the cloud is cleaned up.
const Finalizer = "storage.example.com/cloud"

// Options are how often the controller looks at the cloud, which sends no events.
type Options struct {
	// PollInterval is how often, while something in the cloud is awaited.
	PollInterval time.Duration
	// ResyncInterval is how often, when everything is as it should be.
	ResyncInterval time.Duration
}

// SecureStorageReconciler reconciles the storage account of each SecureStorage.
type SecureStorageReconciler struct {
	client.Client
	Cloud    *cloud.Client
	Recorder events.EventRecorder
	Options  Options
}

// +kubebuilder:rbac:groups=storage.example.com,resources=securestorages,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=storage.example.com,resources=securestorages/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to the manager. Slow answers of the cloud for one SecureStorage
// do not hold up the others.
func (r *SecureStorageReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&storagev1.SecureStorage{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Named("securestorage").
		Complete(r)
}

// Reconcile takes one SecureStorage as far as the cloud permits, and updates its status. An error of
// the cloud is retried with backoff; what the cloud takes time for is looked at again after
// PollInterval.
func (r *SecureStorageReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	storage := &storagev1.SecureStorage{}
	if err := r.Get(ctx, req.NamespacedName, storage); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !storage.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, storage)
	}
	// The finalizer comes before anything in the cloud, which may be left behind without it.
	if err := r.addFinalizer(ctx, storage); err != nil {
		return ctrl.Result{}, err
	}
	p := r.secure(ctx, storage)
	if apierrors.IsConflict(p.err) || apierrors.IsNotFound(p.err) {
		return ctrl.Result{}, client.IgnoreNotFound(p.err) // the cache was behind: the next reconcile sees the object
	}
	return r.report(ctx, storage, p)
}

// secure takes the four steps, as far as they go. The status is not read: what has been done
// before is seen in the cloud.
func (r *SecureStorageReconciler) secure(ctx context.Context, storage *storagev1.SecureStorage) progress {
	// 1. The account exists.
	account, err := r.Cloud.Account(ctx, accountName(storage.UID))
	if err != nil && !cloud.IsNotFound(err) {
		return failed(storagev1.PhaseUnknown, nil, err)
	}
	if cloud.IsNotFound(err) {
		if account, err = r.createStorageAccount(ctx, storage); err != nil {
			return failed(storagev1.PhaseCreatingAccount, nil, err)
		}
	}
	// 2. The account has an identity. Only the cloud can help here.
	if account.PrincipalID == "" {
		return waiting(account)
	}
	// 3. The identity may use the vault, and no other of ours.
	if err := r.ensureKeyVaultAccess(ctx, storage, account); err != nil {
		return failed(storagev1.PhaseGrantingAccess, account, err)
	}
	// 4. The account is encrypted with the key.
	if err := r.enableCMK(ctx, storage, account); err != nil {
		return failed(storagev1.PhaseEnablingKey, account, err)
	}
	return ready(storage, account)
}

// accountName returns the name of the storage account. It follows from the UID, so that it is the
// same whenever it is computed, and another one for an object of the same name that is created later.
func accountName(uid types.UID) string {
	const maxLength = 24
	name := "st" + strings.ReplaceAll(string(uid), "-", "")
	return name[:min(len(name), maxLength)]
}

// createStorageAccount creates the storage account.
func (r *SecureStorageReconciler) createStorageAccount(ctx context.Context,
	storage *storagev1.SecureStorage) (*cloud.Account, error) {
	if err := r.confirm(ctx, storage); err != nil {
		return nil, err
	}
	account, err := r.Cloud.PutAccount(ctx, cloud.Account{
		Name:     accountName(storage.UID),
		Owner:    string(storage.UID),
		Location: storage.Spec.Location,
	})
	if err != nil {
		return nil, err
	}
	r.record(ctx, storage, "AccountCreated", "Storage account %s", account.Name)
	return account, nil
}

// confirm fails with a conflict, or because nothing is found, unless the SecureStorage is still as it was read: a patch that changes
// nothing. Nobody would delete accounts of the cloud for a SecureStorage that only an old view still shows.
// A read could come from the same old view.
func (r *SecureStorageReconciler) confirm(ctx context.Context, storage *storagev1.SecureStorage) error {
	return r.Patch(ctx, storage.DeepCopy(), withLock(storage))
}

// ensureKeyVaultAccess grants the account access to the vault. It ends the access of earlier accounts,
// which were deleted by somebody else.
func (r *SecureStorageReconciler) ensureKeyVaultAccess(ctx context.Context, storage *storagev1.SecureStorage,
	account *cloud.Account) error {
	vault, err := r.Cloud.Vault(ctx, storage.Spec.KeyVault)
	if err != nil {
		return err
	}
	granted := false
	for _, access := range vault.Access {
		switch {
		case access.PrincipalID == account.PrincipalID:
			granted = true
		case access.Owner == string(storage.UID):
			if err := r.revoke(ctx, storage, access.PrincipalID); err != nil {
				return err
			}
		}
	}
	if granted {
		return nil
	}
	if err := r.confirm(ctx, storage); err != nil {
		return err
	}
	access := cloud.Access{PrincipalID: account.PrincipalID, Owner: string(storage.UID)}
	if err := r.Cloud.PutAccess(ctx, vault.Name, access); err != nil {
		return err
	}
	r.record(ctx, storage, "AccessGranted", "%s may use vault %s", account.PrincipalID, vault.Name)
	return nil
}

// enableCMK encrypts the account with the key, a customer-managed key (CMK).
func (r *SecureStorageReconciler) enableCMK(ctx context.Context, storage *storagev1.SecureStorage,
	account *cloud.Account) error {
	key := cloud.Key{Vault: storage.Spec.KeyVault, Name: storage.Spec.Key}
	if account.Key != nil && *account.Key == key {
		return nil
	}
	if err := r.confirm(ctx, storage); err != nil {
		return err
	}
	if err := r.Cloud.PutKey(ctx, account.Name, key); err != nil {
		return err
	}
	r.record(ctx, storage, "KeyEnabled", "Storage account %s is encrypted with %s", account.Name, key.Name)
	return nil
}

// finalize cleans the cloud up, and then removes the finalizer. While the cloud fails, the
// SecureStorage remains, with the reason in its status.
func (r *SecureStorageReconciler) finalize(ctx context.Context, storage *storagev1.SecureStorage) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(storage, Finalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.cleanUp(ctx, storage); err != nil {
		return r.report(ctx, storage, failed(storagev1.PhaseDeleting, nil, err))
	}
	before := storage.DeepCopy()
	controllerutil.RemoveFinalizer(storage, Finalizer)
	return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, storage, withLock(before)))
}

// cleanUp deletes the account, and ends all access that was granted for it. What is not there any
// more has been deleted by an earlier attempt, or by somebody else.
func (r *SecureStorageReconciler) cleanUp(ctx context.Context, storage *storagev1.SecureStorage) error {
	name := accountName(storage.UID)
	account, err := r.Cloud.Account(ctx, name)
	if err == nil && account.Owner == string(storage.UID) {
		if err = r.Cloud.DeleteAccount(ctx, name); err == nil {
			r.record(ctx, storage, "AccountDeleted", "Storage account %s", name)
		}
	}
	if err != nil && !cloud.IsNotFound(err) {
		return err
	}
	vault, err := r.Cloud.Vault(ctx, storage.Spec.KeyVault)
	if cloud.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, access := range vault.Access {
		if access.Owner != string(storage.UID) {
			continue
		}
		if err := r.revoke(ctx, storage, access.PrincipalID); err != nil {
			return err
		}
	}
	return nil
}

// revoke ends the access of an identity to the vault.
func (r *SecureStorageReconciler) revoke(ctx context.Context, storage *storagev1.SecureStorage, principal string) error {
	err := r.Cloud.DeleteAccess(ctx, storage.Spec.KeyVault, principal)
	if err != nil && !cloud.IsNotFound(err) {
		return err
	}
	r.record(ctx, storage, "AccessRevoked", "%s may not use vault %s any more", principal, storage.Spec.KeyVault)
	return nil
}

// addFinalizer adds the finalizer, if it is missing.
func (r *SecureStorageReconciler) addFinalizer(ctx context.Context, storage *storagev1.SecureStorage) error {
	before := storage.DeepCopy()
	if !controllerutil.AddFinalizer(storage, Finalizer) {
		return nil
	}
	return r.Patch(ctx, storage, withLock(before))
}

// withLock returns the patch from an earlier state of an object to the present one. It replaces
// whole lists, such as the finalizers, so it must fail if the object has changed.
func withLock(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// record logs what was done in the cloud, and records it as an event.
func (r *SecureStorageReconciler) record(ctx context.Context, storage *storagev1.SecureStorage, reason, format string,
	args ...any) {
	log.FromContext(ctx).Info(reason + ": " + fmt.Sprintf(format, args...) + ".")
	r.Recorder.Eventf(storage, nil, corev1.EventTypeNormal, reason, "Reconcile", format, args...)
}
