package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/examples/internal/loopback"
	storagev1 "flyball.dev/examples/securestorage/api/v1"
	"flyball.dev/examples/securestorage/internal/cloud"
	"flyball.dev/examples/securestorage/internal/cloud/cloudserver"
	"flyball.dev/examples/securestorage/internal/controller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secureStorage returns the example with a cloud on loopback.
func secureStorage(t *testing.T) *example.Example {
	t.Helper()
	server := cloudserver.New()
	url, stop, err := loopback.Serve(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return newExample(server, cloud.NewClient(url, nil), url, &controller.Options{})
}

func TestTour(t *testing.T) { exampletest.Tour(t, secureStorage(t)) }

func TestLocally(t *testing.T) {
	exampletest.Locally(t, secureStorage(t), "kubectl get securestorages", "AccountCreated: Storage account st",
		"WaitingForIdentity: Waiting.")
}

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, secureStorage(t), func(ctx context.Context, w *example.World) error {
		sample := &storagev1.SecureStorage{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "archive"}}
		return await.Object(ctx, w.Client, sample, func(s *storagev1.SecureStorage) string {
			if s.Status.Phase != storagev1.PhaseWaitingForIdentity {
				return "the sample is " + string(s.Status.Phase)
			}
			return ""
		})
	})
}
