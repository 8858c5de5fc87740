package controllerruntime_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// An environment behaves as kube-apiserver and etcd alone: nothing collects owned objects, ends
// namespaces or removes finalizers, and a deletion takes a while. The fields choose otherwise.
func TestEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name        string
		env         *envtest.Environment
		deletion    time.Duration
		controllers bool
	}{
		{name: "default", env: &envtest.Environment{}, deletion: 5 * time.Millisecond},
		{name: "fields", env: &envtest.Environment{Controllers: "garbagecollector,namespace", DeletionDelay: -1}, controllers: true},
		{name: "longer", env: &envtest.Environment{DeletionDelay: time.Second}, deletion: time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.env.InMemory = true
				cfg, err := tt.env.Start()
				if err != nil {
					t.Fatal(err)
				}
				defer stop(t, tt.env)
				clients := kubernetes.NewForConfigOrDie(cfg)
				if took := deletionOfPod(t, clients); took != tt.deletion {
					t.Errorf("a deletion took %s, want %s", took, tt.deletion)
				}
				if got := collected(t, clients); got != tt.controllers {
					t.Errorf("an owned object was collected: %t", got)
				}
				claim, err := clients.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), &corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Name: "a"},
					Spec: corev1.PersistentVolumeClaimSpec{
						AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
					},
				}, metav1.CreateOptions{})
				if err != nil || len(claim.Finalizers) != 1 {
					t.Errorf("a claim has the finalizers %v, error %v", claim.Finalizers, err)
				}
			})
		})
	}
}

// deletionOfPod returns how long it takes to delete a pod without a grace period.
func deletionOfPod(t *testing.T, clients kubernetes.Interface) time.Duration {
	pods := clients.CoreV1().Pods("default")
	_, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := pods.Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

// collected deletes an object that owns another one, and reports whether that is gone.
func collected(t *testing.T, clients kubernetes.Interface) bool {
	maps := clients.CoreV1().ConfigMaps("default")
	owner, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned"}}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}
	if _, err := maps.Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute) // of the bubble
	list, err := maps.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=owned"})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items) == 0
}

// The requests of a suite take the time of HTTPS, and have the user of the configuration.
func TestSocket(t *testing.T) {
	env := &envtest.Environment{}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, env)
	user, err := env.AddUser(envtest.User{Name: "nobody"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cfg  *rest.Config
		want int
	}{{cfg, http.StatusOK}, {user.Config(), http.StatusForbidden}} {
		client, err := rest.HTTPClientFor(tt.cfg)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Get(tt.cfg.Host + "api/v1/pods")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.TLS == nil || response.StatusCode != tt.want {
			t.Errorf("GET %s: %s, TLS %v, want the code %d over TLS", response.Request.URL, response.Status, response.TLS != nil, tt.want)
		}
	}
}

// The environment variable overrides the field, and a control plane that is started without an
// Environment has the same defaults.
func TestSelectedControllers(t *testing.T) {
	start := func() *rest.Config {
		plane := &envtest.ControlPlane{}
		if err := plane.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, plane) })
		admin, err := plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return admin.Config()
	}
	if checks := readyz(t, start()); strings.Contains(checks, "controller/") {
		t.Errorf("controllers run without being selected:\n%s", checks)
	}
	t.Setenv("FLYBALL_CONTROLLERS", "garbagecollector,namespace")
	env := &envtest.Environment{Controllers: "none"}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, env) })
	for _, cfg := range []*rest.Config{cfg, start()} {
		if checks := readyz(t, cfg); strings.Count(checks, "controller/") != 2 {
			t.Errorf("the controllers are not those that the variable selects:\n%s", checks)
		}
	}
}

// readyz returns the checks of an API server. Each controller has one of them.
func readyz(t *testing.T, cfg *rest.Config) string {
	out, err := kubernetes.NewForConfigOrDie(cfg).Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func stop(t *testing.T, s interface{ Stop() error }) {
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
