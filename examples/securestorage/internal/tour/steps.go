package tour

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	storagev1 "flyball.dev/examples/securestorage/api/v1"
	"flyball.dev/examples/securestorage/internal/cloud/cloudserver"
	"flyball.dev/examples/securestorage/internal/controller"
)

// archive is the SecureStorage that lives through most of the scenario.
const archive = "archive"

// never is a delay that does not end within the scenario.
const never = time.Hour

func (w *world) create(ctx context.Context) error {
	w.server.SetIdentityDelay(never)
	if err := w.c.Create(ctx, newStorage(archive)); err != nil {
		return err
	}
	s, err := w.inPhase(ctx, archive, storagev1.PhaseWaitingForIdentity, storagev1.ReasonWaiting)
	if err != nil {
		return err
	}
	if err := w.looked(ctx, 3); err != nil {
		return err
	}
	account := w.server.State().Accounts[s.Status.AccountName]
	if account.Owner != string(s.UID) || account.PrincipalID != "" || s.Status.PrincipalID != "" || account.Key != nil {
		return fmt.Errorf("the account is %+v", account)
	}
	return w.event(ctx, archive, corev1.EventTypeNormal, "AccountCreated")
}

func (w *world) becomeReady(ctx context.Context) error {
	w.server.SetIdentityDelay(0)
	if _, err := w.ready(ctx, archive); err != nil {
		return err
	}
	return errors.Join(w.event(ctx, archive, corev1.EventTypeNormal, "AccessGranted"),
		w.event(ctx, archive, corev1.EventTypeNormal, "KeyEnabled"))
}

func (w *world) idle(ctx context.Context) error {
	before, err := w.ResourceVersions(ctx, example.Namespace)
	if err != nil {
		return err
	}
	if err := w.looked(ctx, 10); err != nil {
		return err
	}
	after, err := w.ResourceVersions(ctx, example.Namespace)
	for object := range after {
		if strings.HasPrefix(object, "events") { // of the steps before
			delete(before, object)
			delete(after, object)
		}
	}
	if err == nil && !maps.Equal(before, after) {
		err = fmt.Errorf("from %v to %v", before, after)
	}
	return err
}

func (w *world) wipe(ctx context.Context) error {
	before, err := w.ready(ctx, archive)
	if err != nil {
		return err
	}
	written := w.server.State().Writes()
	if err := w.wipeStatus(ctx, archive); err != nil {
		return err
	}
	after, err := w.ready(ctx, archive)
	if err != nil {
		return err
	}
	if after.Status.PrincipalID != before.Status.PrincipalID || after.Status.AccountName != before.Status.AccountName {
		return fmt.Errorf("the status was %v, and is %v", before.Status, after.Status)
	}
	if n := w.server.State().Writes() - written; n > 0 {
		return fmt.Errorf("%d requests have changed the cloud", n)
	}
	return nil
}

// failing are the operations that must fail for a SecureStorage to remain in a phase.
var failing = map[storagev1.Phase]cloudserver.Operation{
	storagev1.PhaseUnknown:         cloudserver.GetAccount,
	storagev1.PhaseCreatingAccount: cloudserver.PutAccount,
	storagev1.PhaseGrantingAccess:  cloudserver.PutAccess,
	storagev1.PhaseEnablingKey:     cloudserver.PutKey,
}

// interrupted keeps a new SecureStorage in a phase, wipes its status there, and restarts the
// operator. Then nothing keeps it there any more.
func (w *world) interrupted(ctx context.Context, phase storagev1.Phase) error {
	const name = "interrupted"
	reason := storagev1.ReasonCloudUnavailable
	if operation, ok := failing[phase]; ok {
		w.server.Fail(operation, cloudserver.Unavailable)
	} else {
		w.server.SetIdentityDelay(never)
		reason = storagev1.ReasonWaiting
	}
	if err := w.c.Create(ctx, newStorage(name)); err != nil {
		return err
	}
	if _, err := w.inPhase(ctx, name, phase, reason); err != nil {
		return err
	}
	if err := w.wipeStatus(ctx, name); err != nil {
		return err
	}
	if _, err := w.inPhase(ctx, name, phase, reason); err != nil {
		return err
	}
	if err := w.operator.Stop(); err != nil {
		return err
	}
	if err := w.wipeStatus(ctx, name); err != nil {
		return err
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	if _, err := w.inPhase(ctx, name, phase, reason); err != nil {
		return err
	}
	w.server.Fail(failing[phase], cloudserver.None)
	w.server.SetIdentityDelay(0)
	s, err := w.ready(ctx, name)
	if err != nil {
		return err
	}
	return w.delete(ctx, s)
}

// loseAnswers makes all writes fail after they were done, so that each is repeated.
func (w *world) loseAnswers(ctx context.Context) error {
	const name = "lossy"
	writes := []cloudserver.Operation{cloudserver.PutAccount, cloudserver.PutAccess, cloudserver.PutKey}
	deletes := []cloudserver.Operation{cloudserver.DeleteAccount, cloudserver.DeleteAccess}
	before := w.server.State().Requests
	for _, o := range append(writes, deletes...) {
		w.server.Fail(o, cloudserver.Lost)
		defer w.server.Fail(o, cloudserver.None)
	}
	if err := w.c.Create(ctx, newStorage(name)); err != nil {
		return err
	}
	s, err := w.ready(ctx, name)
	if err != nil {
		return err
	}
	if err := w.delete(ctx, s); err != nil {
		return err
	}
	after := w.server.State().Requests
	for _, o := range append(writes, deletes...) {
		if n := after[o] - before[o]; n != 1 {
			return fmt.Errorf("%s was requested %d times, although it was done the first time", o, n)
		}
	}
	return nil
}

func (w *world) revokeByHand(ctx context.Context) error {
	s, err := w.ready(ctx, archive)
	if err != nil {
		return err
	}
	if err := w.cloud.DeleteAccess(ctx, vault, s.Status.PrincipalID); err != nil {
		return err
	}
	return w.server.Await(ctx, func(state cloudserver.State) string { return secured(state, s) })
}

func (w *world) deleteAccountByHand(ctx context.Context) error {
	before, err := w.ready(ctx, archive)
	if err != nil {
		return err
	}
	if err := w.cloud.DeleteAccount(ctx, before.Status.AccountName); err != nil {
		return err
	}
	again := newStorage(archive)
	if err := await.Object(ctx, w.c, again, func(s *storagev1.SecureStorage) string {
		if s.Status.Phase != storagev1.PhaseReady || s.Status.PrincipalID == before.Status.PrincipalID {
			return "the account was not created again"
		}
		return ""
	}); err != nil {
		return err
	}
	if _, err := w.ready(ctx, archive); err != nil {
		return err
	}
	return w.event(ctx, archive, corev1.EventTypeNormal, "AccessRevoked")
}

// change patches the spec of a SecureStorage.
func (w *world) change(ctx context.Context, name string, change func(*storagev1.SecureStorageSpec)) error {
	s := newStorage(name)
	if err := w.c.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
		return err
	}
	before := client.MergeFrom(s.DeepCopy())
	change(&s.Spec)
	return w.c.Patch(ctx, s, before)
}

func (w *world) changeKey(ctx context.Context) error {
	before, err := w.ready(ctx, archive)
	if err != nil {
		return err
	}
	if err := w.change(ctx, archive, func(s *storagev1.SecureStorageSpec) { s.Key = "key-2" }); err != nil {
		return err
	}
	after, err := w.ready(ctx, archive)
	if err == nil && (after.Spec.Key != "key-2" || after.Status.PrincipalID != before.Status.PrincipalID) {
		err = fmt.Errorf("the account was replaced: %v", after.Status)
	}
	return err
}

func (w *world) refused(ctx context.Context) error {
	s := newStorage("refused")
	s.Spec.KeyVault, s.Spec.Key = "other", "key-9"
	if err := w.c.Create(ctx, s); err != nil {
		return err
	}
	if _, err := w.inPhase(ctx, s.Name, storagev1.PhaseGrantingAccess, storagev1.ReasonRefused); err != nil {
		return err
	}
	if err := w.event(ctx, s.Name, corev1.EventTypeWarning, storagev1.ReasonRefused); err != nil {
		return err
	}
	w.server.AddVault("other", "key-8")
	if _, err := w.inPhase(ctx, s.Name, storagev1.PhaseEnablingKey, storagev1.ReasonRefused); err != nil {
		return err
	}
	if err := w.change(ctx, s.Name, func(s *storagev1.SecureStorageSpec) { s.Key = "key-8" }); err != nil {
		return err
	}
	_, err := w.ready(ctx, s.Name)
	return err
}

func (w *world) rejectMove(ctx context.Context) error {
	err := w.change(ctx, archive, func(s *storagev1.SecureStorageSpec) { s.Location = "eastus" })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `spec.location: Invalid value: "eastus": is immutable`) {
		return fmt.Errorf("the patch returned %v", err)
	}
	return nil
}

func (w *world) deleteWhileDown(ctx context.Context) error {
	s, err := w.ready(ctx, archive)
	if err != nil {
		return err
	}
	w.server.SetDown(true)
	if err := w.c.Delete(ctx, s); err != nil {
		return err
	}
	waiting, err := w.inPhase(ctx, archive, storagev1.PhaseDeleting, storagev1.ReasonCloudUnavailable)
	if err != nil {
		return err
	}
	if len(waiting.Finalizers) != 1 || waiting.Finalizers[0] != controller.Finalizer {
		return fmt.Errorf("its finalizers are %v", waiting.Finalizers)
	}
	w.server.SetDown(false)
	return w.gone(ctx, s)
}

// deleteWhatIsGone deletes a SecureStorage after its account and its vault.
func (w *world) deleteWhatIsGone(ctx context.Context) error {
	s, err := w.ready(ctx, "refused")
	if err != nil {
		return err
	}
	if err := w.operator.Stop(); err != nil {
		return err
	}
	if err := w.cloud.DeleteAccount(ctx, s.Status.AccountName); err != nil {
		return err
	}
	w.server.DeleteVault(s.Spec.KeyVault)
	if err := w.c.Delete(ctx, s); err != nil {
		return err
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	if err := w.gone(ctx, s); err != nil {
		return err
	}
	if state := w.server.State(); len(state.Accounts) > 0 || len(state.Vaults[vault].Access) > 0 {
		return fmt.Errorf("the cloud has %v and %v", state.Accounts, state.Vaults)
	}
	return nil
}
