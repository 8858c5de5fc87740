package controlplane_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a control plane that is stopped when the test ends.
func start(t testing.TB, o controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	plane, err := controlplane.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return plane
}

func fromKubeconfig(t testing.TB, plane *controlplane.ControlPlane) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIdle(t, cfg) })
	return cfg
}

// closeIdle closes the idle connections that client-go keeps for the configuration.
func closeIdle(t testing.TB, cfg *rest.Config) {
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Error(err)
		return
	}
	(&http.Client{Transport: transport}).CloseIdleConnections()
}

func TestInProcessAndHTTPSShareObjects(t *testing.T) {
	plane := start(t, controlplane.Options{Listen: "127.0.0.1:0"})
	inProcess, https := clientFor(t, plane.Config()), clientFor(t, fromKubeconfig(t, plane))
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
	plane := start(t, controlplane.Options{Listen: "127.0.0.1:0"})
	var watches []watch.Interface
	for _, client := range []*kubernetes.Clientset{clientFor(t, plane.Config()), clientFor(t, fromKubeconfig(t, plane))} {
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
	_, err := clientFor(t, plane.Config()).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("a list after Stop gave %v; want that the control plane is stopped", err)
	}
}

func TestAuthentication(t *testing.T) {
	plane := start(t, controlplane.Options{
		Listen: "127.0.0.1:0", WithoutControllers: true,
		Tokens: map[string]*user.DefaultInfo{
			"root-token":  {Name: "root", Groups: []string{user.SystemPrivilegedGroup}},
			"guest-token": {Name: "guest"},
		},
	})
	admin := fromKubeconfig(t, plane)
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
			client := clientFor(t, tc.cfg)
			defer closeIdle(t, tc.cfg)
			var status int
			client.RESTClient().Get().AbsPath(tc.path).Do(t.Context()).StatusCode(&status)
			if status != tc.status {
				t.Errorf("%s returned %d, want %d", tc.path, status, tc.status)
			}
		})
	}
}

func TestTwoControlPlanesShareNothing(t *testing.T) {
	first, second := start(t, controlplane.Options{}), start(t, controlplane.Options{})
	pod := examplePod(1)
	if _, err := clientFor(t, first.Config()).CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := clientFor(t, second.Config()).CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the other control plane returned %v; want NotFound", err)
	}
}

func TestPortInUse(t *testing.T) {
	first := start(t, controlplane.Options{Listen: "127.0.0.1:0", WithoutControllers: true})
	address := strings.TrimPrefix(first.URL(), "https://")
	_, err := controlplane.Start(t.Context(), controlplane.Options{Listen: address})
	if want := "cannot listen on " + address + ": address already in use"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %q", err, want)
	}
}

// TestInVirtualTime runs a control plane with all its controllers for an hour of virtual time.
func TestInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := start(t, controlplane.Options{})
		client := clientFor(t, plane.Config())
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), examplePod(1), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		pod, err := client.CoreV1().Pods("default").Get(t.Context(), examplePod(1).Name, metav1.GetOptions{})
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
