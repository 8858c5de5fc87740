package tour

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	storagev1 "flyball.dev/examples/securestorage/api/v1"
	"flyball.dev/examples/securestorage/internal/cloud"
	"flyball.dev/examples/securestorage/internal/cloud/cloudserver"
)

// vault is the key vault of the scenario.
const vault = "vault"

// world is the state that the steps share.
type world struct {
	*example.World
	c        client.WithWatch
	cloud    *cloud.Client       // as a person uses it
	server   *cloudserver.Server // the cloud itself
	operator *example.Operator
}

// start starts the operator.
func (w *world) start(ctx context.Context) (err error) {
	w.operator, err = w.Start(ctx)
	return err
}

// newStorage returns a SecureStorage.
func newStorage(name string) *storagev1.SecureStorage {
	return &storagev1.SecureStorage{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name},
		Spec:       storagev1.SecureStorageSpec{Location: "westeurope", KeyVault: vault, Key: "key-1"},
	}
}

// inPhase waits until a SecureStorage is in a phase for a reason, and returns it.
func (w *world) inPhase(ctx context.Context, name string, phase storagev1.Phase, reason string) (*storagev1.SecureStorage, error) {
	storage := newStorage(name)
	return storage, await.Object(ctx, w.c, storage, func(s *storagev1.SecureStorage) string {
		condition := meta.FindStatusCondition(s.Status.Conditions, storagev1.ConditionReady)
		isReady := condition != nil && condition.Status == metav1.ConditionTrue
		switch {
		case condition == nil || s.Status.ObservedGeneration != s.Generation || condition.ObservedGeneration != s.Generation:
			return name + " was not observed"
		case s.Status.Phase != phase || condition.Reason != reason:
			return fmt.Sprintf("%s is %s, %s: %s", name, s.Status.Phase, condition.Reason, condition.Message)
		case isReady != (phase == storagev1.PhaseReady):
			return fmt.Sprintf("%s is %s, and Ready is %s", name, s.Status.Phase, condition.Status)
		}
		return ""
	})
}

// ready waits until a SecureStorage is ready, and checks what the cloud has for it.
func (w *world) ready(ctx context.Context, name string) (*storagev1.SecureStorage, error) {
	s, err := w.inPhase(ctx, name, storagev1.PhaseReady, storagev1.ReasonEncrypted)
	if err != nil {
		return nil, err
	}
	if missing := secured(w.server.State(), s); missing != "" {
		return nil, fmt.Errorf("%s is ready, but %s", name, missing)
	}
	return s, nil
}

// secured returns "" if the cloud has exactly what belongs to a SecureStorage, and else what differs.
func secured(state cloudserver.State, s *storagev1.SecureStorage) string {
	var accounts []cloud.Account
	for _, a := range state.Accounts {
		if a.Owner == string(s.UID) {
			accounts = append(accounts, a)
		}
	}
	var access []string
	for _, a := range state.Vaults[s.Spec.KeyVault].Access {
		if a.Owner == string(s.UID) {
			access = append(access, a.PrincipalID)
		}
	}
	switch {
	case len(accounts) != 1 || accounts[0].Name != s.Status.AccountName || accounts[0].Location != s.Spec.Location:
		return fmt.Sprintf("its accounts are %v", accounts)
	case accounts[0].PrincipalID != s.Status.PrincipalID || !slices.Equal(access, []string{s.Status.PrincipalID}):
		return fmt.Sprintf("access is granted to %v", access)
	case accounts[0].Key == nil || *accounts[0].Key != cloud.Key{Vault: s.Spec.KeyVault, Name: s.Spec.Key}:
		return fmt.Sprintf("its key is %v", accounts[0].Key)
	}
	return ""
}

// empty returns "" if the cloud has nothing of a SecureStorage, and else what there is.
func empty(state cloudserver.State, s *storagev1.SecureStorage) string {
	for _, a := range state.Accounts {
		if a.Owner == string(s.UID) {
			return "account " + a.Name + " is left"
		}
	}
	for _, v := range state.Vaults {
		for _, a := range v.Access {
			if a.Owner == string(s.UID) {
				return a.PrincipalID + " still has access to " + v.Name
			}
		}
	}
	return ""
}

// gone waits until a SecureStorage, which is being deleted, does not exist any more, and checks that
// the cloud is cleaned up.
func (w *world) gone(ctx context.Context, s *storagev1.SecureStorage) error {
	if err := await.Gone(ctx, w.c, s); err != nil {
		return err
	}
	if left := empty(w.server.State(), s); left != "" {
		return fmt.Errorf("%s is gone, but %s", s.Name, left)
	}
	return nil
}

// delete deletes a SecureStorage and waits until it is gone.
func (w *world) delete(ctx context.Context, s *storagev1.SecureStorage) error {
	if err := w.c.Delete(ctx, s); err != nil {
		return err
	}
	return w.gone(ctx, s)
}

// wipeStatus empties the status, as nobody should.
func (w *world) wipeStatus(ctx context.Context, name string) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))
	return w.c.Status().Patch(ctx, newStorage(name), patch)
}

// looked waits until the operator has looked at the cloud a number of times, and returns an error if
// it has written anything there.
func (w *world) looked(ctx context.Context, times int) error {
	before := w.server.State()
	return w.server.Await(ctx, func(s cloudserver.State) string {
		if s.Writes() != before.Writes() {
			return fmt.Sprintf("the operator has written %d times", s.Writes()-before.Writes())
		}
		if s.Reads() < before.Reads()+times {
			return "the operator does not look at the cloud"
		}
		return ""
	})
}

// event waits for an event about a SecureStorage.
func (w *world) event(ctx context.Context, name, eventType, reason string) error {
	return await.Event(ctx, w.c, example.Namespace, func(e *corev1.Event) bool {
		return e.InvolvedObject.Name == name && e.Type == eventType && e.Reason == reason
	})
}
