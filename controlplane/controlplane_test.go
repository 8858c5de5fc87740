package controlplane_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	_ "flyball.dev/internal/orphans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInProcessAndHTTPSShareObjects(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0"})
	inProcess, https := controlplanetest.ClientFor(t, plane.Config()), controlplanetest.ClientFor(t, controlplanetest.FromKubeconfig(t, plane))
	ctx := t.Context()
	events, err := inProcess.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=shared"})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	written, err := https.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Data: map[string]string{"key": "value"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	event := <-events.ResultChan()
	observed, ok := event.Object.(*corev1.ConfigMap)
	if !ok || event.Type != watch.Added || observed.UID != written.UID || observed.Data["key"] != "value" {
		t.Errorf("the watch returned %s %v; want the new ConfigMap", event.Type, event.Object)
	}
}

func TestStopEndsWatchesAndRefusesRequests(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0"})
	var watches []watch.Interface
	for _, client := range []*kubernetes.Clientset{controlplanetest.ClientFor(t, plane.Config()), controlplanetest.ClientFor(t, controlplanetest.FromKubeconfig(t, plane))} {
		w, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		watches = append(watches, w)
	}
	if err := plane.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, w := range watches {
		for range w.ResultChan() {
		}
	}
	_, err := controlplanetest.ClientFor(t, plane.Config()).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("a list after Stop gave %v; want that the control plane is stopped", err)
	}
}

func TestAuthentication(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{
		Listen: "127.0.0.1:0", WithoutControllers: true,
		Tokens: map[string]*user.DefaultInfo{
			"root-token":  {Name: "root", Groups: []string{user.SystemPrivilegedGroup}},
			"guest-token": {Name: "guest"},
		},
	})
	admin := controlplanetest.FromKubeconfig(t, plane)
	bare := rest.AnonymousClientConfig(admin)
	with := func(token string) *rest.Config {
		cfg := rest.CopyConfig(bare)
		cfg.BearerToken = token
		return cfg
	}
	for _, tc := range []struct {
		name   string
		cfg    *rest.Config
		path   string
		status int
	}{
		{"administrator by certificate", admin, "/api/v1/namespaces", http.StatusOK},
		{"administrator by token", with("root-token"), "/api/v1/namespaces", http.StatusOK},
		{"guest by token", with("guest-token"), "/api/v1/namespaces", http.StatusForbidden},
		{"guest reads the version", with("guest-token"), "/version", http.StatusOK},
		{"unknown token", with("wrong"), "/api/v1/namespaces", http.StatusUnauthorized},
		{"unknown token at a public path", with("wrong"), "/healthz", http.StatusUnauthorized},
		{"anonymous", bare, "/api/v1/namespaces", http.StatusForbidden},
		{"anonymous reads discovery", bare, "/apis", http.StatusForbidden},
		{"anonymous reads health", bare, "/readyz", http.StatusOK},
		{"anonymous reads the version", bare, "/version", http.StatusOK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := controlplanetest.ClientFor(t, tc.cfg)
			defer controlplanetest.CloseIdle(t, tc.cfg)
			var status int
			client.RESTClient().Get().AbsPath(tc.path).Do(t.Context()).StatusCode(&status)
			if status != tc.status {
				t.Errorf("%s returned %d, want %d", tc.path, status, tc.status)
			}
		})
	}
}

func TestTwoControlPlanesShareNothing(t *testing.T) {
	first, second := controlplanetest.Start(t, controlplane.Options{}), controlplanetest.Start(t, controlplane.Options{})
	pod := controlplanetest.ExamplePod(1)
	if _, err := controlplanetest.ClientFor(t, first.Config()).CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := controlplanetest.ClientFor(t, second.Config()).CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the other control plane returned %v; want NotFound", err)
	}
}

func TestPortInUse(t *testing.T) {
	first := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0", WithoutControllers: true})
	address := strings.TrimPrefix(first.URL(), "https://")
	_, err := controlplane.Start(t.Context(), controlplane.Options{Listen: address})
	if want := "cannot listen on " + address + ": address already in use"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %q", err, want)
	}
}

// TestInVirtualTime runs a control plane with all its controllers for an hour of virtual time.
func TestInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), controlplanetest.ExamplePod(1), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		pod, err := client.CoreV1().Pods("default").Get(t.Context(), controlplanetest.ExamplePod(1).Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if pod.Status.Phase != corev1.PodRunning {
			t.Errorf("after an hour the pod is %q; want Running", pod.Status.Phase)
		}
		if age := time.Since(pod.CreationTimestamp.Time); age < time.Hour {
			t.Errorf("the pod is %v old; want an hour", age)
		}
	})
}
