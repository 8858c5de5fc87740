package controlplane_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// withoutDeployments is a storage that cannot read Deployments.
type withoutDeployments struct{ storage.Store }

func (s withoutDeployments) Range(ctx context.Context, q storage.Query) (storage.Page, error) {
	if strings.Contains(q.Path, "deployments") {
		return storage.Page{}, errors.New("input/output error")
	}
	return s.Store.Range(ctx, q)
}

// TestFailedControllerIsNotReady makes one controller fail. The log and the readiness endpoint then
// have its name, and the others go on.
func TestFailedControllerIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var logged strings.Builder
		plane := controlplanetest.Start(t, controlplane.Options{
			Storage: withoutDeployments{memory.New(memory.Options{})},
			Logger: funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				logged.WriteString(args + "\n")
			}, funcr.Options{}),
		})
		send := controlplanetest.Sender(t, plane.Config())
		if code, body := send(http.MethodGet, "/readyz?verbose", "", ""); code != http.StatusOK || !strings.Contains(string(body), "[+]controller/deployment-controller ok\n") {
			t.Fatalf("at the start: %d %s", code, body)
		}
		time.Sleep(10 * time.Minute) // virtual
		synctest.Wait()

		code, body := send(http.MethodGet, "/readyz", "", "")
		for _, want := range []string{"[+]shutdown ok\n", "[-]controller/deployment-controller failed: reason withheld\n", "[+]controller/pods ok\n", "[+]controller/replicaset-controller ok\n", "readyz check failed\n"} {
			if !strings.Contains(string(body), want) {
				t.Errorf("%q is missing", want)
			}
		}
		if code != http.StatusInternalServerError || t.Failed() {
			t.Errorf("got %d %s", code, body)
		}
		select {
		case <-plane.Done():
			t.Errorf("the control plane has ended: %v", plane.Err())
		default:
		}
		if code, body := send(http.MethodGet, "/readyz/controller/deployment-controller", "", ""); code != http.StatusInternalServerError || !strings.Contains(string(body), "failed to wait for deployment caches to sync") {
			t.Errorf("the check by itself returns %d %s", code, body)
		}
		for _, path := range []string{"/readyz/controller/pods", "/livez", "/healthz"} {
			if code, body := send(http.MethodGet, path, "", ""); code != http.StatusOK {
				t.Errorf("%s returns %d %s", path, code, body)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if want := `"msg"="Cannot list or watch, trying again"`; !strings.Contains(logged.String(), want) {
			t.Errorf("the log does not have the cause:\n%s", logged.String())
		}
		if want := `"msg"="A controller has ended" "error"="failed to wait for deployment caches to sync`; !strings.Contains(logged.String(), want) || !strings.Contains(logged.String(), `"controller"="deployment"`) {
			t.Errorf("the log does not have the failure:\n%s", logged.String())
		}
	})
}

// TestStaysReady waits longer than every timeout of the start.
func TestStaysReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		send := controlplanetest.Sender(t, plane.Config())
		for range 10 {
			if code, body := send(http.MethodGet, "/readyz", "", ""); code != http.StatusOK || string(body) != "ok" {
				t.Fatalf("got %d %s", code, body)
			}
			time.Sleep(time.Minute) // virtual
		}
	})
}

func TestNothingIsLoggedByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var logged strings.Builder
		plane := controlplanetest.Start(t, controlplane.Options{Logger: funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			logged.WriteString(args + "\n")
		}, funcr.Options{})})
		send := controlplanetest.Sender(t, plane.Config())
		const pods = "/api/v1/namespaces/default/pods"
		if code, body := send(http.MethodPost, pods, "application/json", `{"metadata":{"name":"web"},"spec":{"containers":[{"name":"web","image":"nginx"}]}}`); code != http.StatusCreated {
			t.Fatalf("got %d %s", code, body)
		}
		time.Sleep(time.Minute) // virtual
		if err := plane.Stop(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if logged.Len() > 0 {
			t.Errorf("logged:\n%s", logged.String())
		}
	})
}

func TestUnknownController(t *testing.T) {
	_, err := controlplane.Start(t.Context(), controlplane.Options{Controllers: controllers.Options{Without: []string{"podz"}}})
	if err == nil || !strings.Contains(err.Error(), `"podz" is not in the list of known controllers`) {
		t.Errorf("got %v", err)
	}
}

// TestControllersAsFieldManager checks that the controllers' writes have their own field managers, not this process's.
func TestControllersAsFieldManager(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{})
	c, err := client.NewWithWatch(plane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(t.Context(), &appsv1.ReplicaSetList{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	if err := c.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	event := <-w.ResultChan()
	created, ok := event.Object.(*appsv1.ReplicaSet)
	if !ok || len(created.ManagedFields) != 1 || created.ManagedFields[0].Manager != "kube-controller-manager" {
		t.Errorf("the ReplicaSet is %v", event.Object)
	}
}
