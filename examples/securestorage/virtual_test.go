package main

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
	storagev1 "flyball.dev/examples/securestorage/api/v1"
	"flyball.dev/examples/securestorage/internal/cloud"
	"flyball.dev/examples/securestorage/internal/cloud/cloudserver"
	"flyball.dev/examples/securestorage/internal/controller"
)

// virtual is a control plane and a cloud in virtual time, with an operator that polls twice a minute
// and looks for changes in the cloud every ten minutes.
type virtual struct {
	*testing.T
	client client.Client
	server *cloudserver.Server
}

// inVirtualTime runs a test in a bubble, with the operator running.
func inVirtualTime(t *testing.T, test func(v virtual)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		server := cloudserver.New()
		e := newExample(server, cloud.NewClient("http://cloud", exampletest.InProcess{Handler: server}), "",
			&controller.Options{PollInterval: 30 * time.Second, ResyncInterval: 10 * time.Minute})
		w, err := example.NewWorld(t.Context(), e, plane.Config())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if err := w.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: example.Namespace}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(virtual{t, w.Client, server})
	})
}

// create creates a SecureStorage.
func (v virtual) create() *storagev1.SecureStorage {
	v.Helper()
	s := &storagev1.SecureStorage{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "archive"},
		Spec: storagev1.SecureStorageSpec{Location: "westeurope", KeyVault: "vault", Key: "key-1"}}
	if err := v.client.Create(v.Context(), s); err != nil {
		v.Fatal(err)
	}
	return s
}

// after lets time pass, and then checks the phase.
func (v virtual) after(d time.Duration, s *storagev1.SecureStorage, want storagev1.Phase) {
	v.Helper()
	time.Sleep(d)
	synctest.Wait()
	if err := v.client.Get(v.Context(), client.ObjectKeyFromObject(s), s); err != nil {
		v.Fatal(err)
	}
	if s.Status.Phase != want {
		v.Fatalf("after %v the phase is %s, want %s: %v", d, s.Status.Phase, want, s.Status.Conditions)
	}
}

// requests checks that there were between least and most requests since the state before.
func (v virtual) requests(before cloudserver.State, least, most int) {
	v.Helper()
	now := v.server.State()
	if n := now.Reads() + now.Writes() - before.Reads() - before.Writes(); n < least || n > most {
		v.Errorf("%d requests, want %d to %d", n, least, most)
	}
}

// TestSlowIdentity waits an hour for an identity, and polls at the interval.
func TestSlowIdentity(t *testing.T) {
	inVirtualTime(t, func(v virtual) {
		v.server.SetIdentityDelay(time.Hour)
		before := v.server.State()
		s := v.create()
		v.after(59*time.Minute, s, storagev1.PhaseWaitingForIdentity)
		v.requests(before, 118, 122)
		v.after(2*time.Minute, s, storagev1.PhaseReady)
	})
}

// TestCloudIsDown checks that an outage is not made worse by retries, and that it ends by
// itself.
func TestCloudIsDown(t *testing.T) {
	inVirtualTime(t, func(v virtual) {
		v.server.SetDown(true)
		before := v.server.State()
		s := v.create()
		v.after(6*time.Hour, s, storagev1.PhaseUnknown)
		v.requests(before, 30, 60)
		v.server.SetDown(false)
		const maxBackoff = 1000 * time.Second
		v.after(maxBackoff+time.Minute, s, storagev1.PhaseReady)
	})
}

// TestChangesInTheCloud looks for changes in the cloud at the interval, and restores what was
// deleted.
func TestChangesInTheCloud(t *testing.T) {
	inVirtualTime(t, func(v virtual) {
		s := v.create()
		v.after(time.Minute, s, storagev1.PhaseReady)
		before, identity := v.server.State(), s.Status.PrincipalID
		v.after(6*time.Hour, s, storagev1.PhaseReady)
		v.requests(before, 2*35, 2*38)
		v.server.SetIdentityDelay(time.Hour)
		if err := cloud.NewClient("http://cloud", exampletest.InProcess{Handler: v.server}).DeleteAccount(v.Context(), s.Status.AccountName); err != nil {
			v.Fatal(err)
		}
		v.after(11*time.Minute, s, storagev1.PhaseWaitingForIdentity)
		v.after(time.Hour, s, storagev1.PhaseReady)
		if s.Status.PrincipalID == identity {
			v.Error("the account has its old identity")
		}
	})
}

// TestDeletionSurvivesAnOutage deletes a SecureStorage while the cloud is down for hours.
func TestDeletionSurvivesAnOutage(t *testing.T) {
	inVirtualTime(t, func(v virtual) {
		s := v.create()
		v.after(time.Minute, s, storagev1.PhaseReady)
		v.server.SetDown(true)
		if err := v.client.Delete(v.Context(), s); err != nil {
			v.Fatal(err)
		}
		v.after(6*time.Hour, s, storagev1.PhaseDeleting)
		v.server.SetDown(false)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if err := v.client.Get(v.Context(), client.ObjectKeyFromObject(s), s); !apierrors.IsNotFound(err) {
			v.Errorf("it still exists: %v", err)
		}
		if state := v.server.State(); len(state.Accounts) > 0 || len(state.Vaults["vault"].Access) > 0 {
			v.Errorf("the cloud has %v and %v", state.Accounts, state.Vaults)
		}
	})
}
