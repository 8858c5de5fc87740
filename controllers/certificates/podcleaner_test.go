package certificates_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func TestMain(m *testing.M) { controllerstest.Main(m) }

// TestPodCleaner: a request for the certificate of a pod is deleted after 15 minutes.
func TestPodCleaner(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		request := e.PodCertificateRequest("r")
		e.CreateAll(request)
		time.Sleep(14 * time.Minute) // virtual
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(request), request))
		time.Sleep(2 * time.Minute) // virtual
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(request), request); !apierrors.IsNotFound(err) {
			t.Errorf("the old request: %v", err)
		}
	})
}
