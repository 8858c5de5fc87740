package envtest_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/envtest"
	"flyball.dev/internal/heaptest"
	_ "flyball.dev/internal/orphans"
	"flyball.dev/internal/testlevel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts an environment, which is stopped after the test.
func start(t testing.TB, env *envtest.Environment) client.Client {
	t.Helper()
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return newClient(t, cfg)
}

func newClient(t testing.TB, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// eventually waits until f returns true.
func eventually(t testing.TB, f func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-deadline:
			t.Fatal("timed out")
		case <-tick.C:
		}
	}
}

// Environments that run one after the other leave no goroutine, file or memory behind.
func TestEnvironmentsLeakNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	once := func() {
		env := &envtest.Environment{}
		cfg, err := env.Start()
		if err != nil {
			t.Fatal(err)
		}
		if err := newClient(t, cfg).Create(t.Context(), configMap("a")); err != nil {
			t.Fatal(err)
		}
		if err := env.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	for range testlevel.Rounds(5, 10) { // the first makes what the others share
		once()
	}
	goroutines := goleak.IgnoreCurrent()
	heap := heaptest.New(t, "flyball.dev/")
	count := testlevel.Rounds(10, 20)
	for range count {
		once()
	}
	eventually(t, func() bool { return goleak.Find(goroutines) == nil })
	var held int64
	eventually(t, func() bool { // timers and finalizers keep memory for a while
		held = heap.Held()
		return held <= int64(count)*20<<10
	})
	t.Logf("%d environments have left %d KiB", count, held>>10)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("files left: %v, error %v", left, err)
	}
}

// Environments that run at the same time do not see each other.
func TestEnvironmentsInParallel(t *testing.T) {
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			env := &envtest.Environment{}
			cfg, err := env.Start()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() {
				if err := env.Stop(); err != nil {
					t.Error(err)
				}
			}()
			c, err := client.New(cfg, client.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				if err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", GenerateName: fmt.Sprintf("of-%d-", n)}}); err != nil {
					t.Error(err)
				}
			}
			list := &corev1.ConfigMapList{}
			if err := c.List(t.Context(), list, client.InNamespace("default")); err != nil {
				t.Error(err)
			}
			if len(list.Items) != 20 {
				t.Errorf("%d objects, want 20", len(list.Items))
			}
		})
	}
	group.Wait()
}

// The same environment can be started again.
func TestRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gadgets.yaml")
	if err := os.WriteFile(file, []byte(strings.NewReplacer("Widget", "Gadget", "widget", "gadget").Replace(validCRD)), 0o600); err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{CRDs: []*crdV1{widgets()}, CRDDirectoryPaths: []string{file}}
	for range 3 {
		cfg, err := env.Start()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(env.CRDs); n != 2 {
			t.Errorf("%d definitions, want 2", n)
		}
		c := newClient(t, cfg)
		if err := c.Create(t.Context(), widget("a")); err != nil {
			t.Fatal(err)
		}
		if err := env.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := env.Stop(); err != nil {
			t.Errorf("second stop: %v", err)
		}
		if err := c.Create(t.Context(), widget("b")); err == nil {
			t.Error("a stopped environment has served a request")
		}
	}
}

// Other processes reach the environment by its socket, with the kubeconfig or by the fields of the
// configuration.
func TestSocket(t *testing.T) {
	env := &envtest.Environment{}
	c := start(t, env)
	if err := c.Create(t.Context(), configMap("a")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	overSocket, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	byFields := rest.CopyConfig(env.Config)
	byFields.WrapTransport = nil
	for name, cfg := range map[string]*rest.Config{"kubeconfig": overSocket, "fields": byFields} {
		h, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		other, err := client.New(cfg, client.Options{HTTPClient: h})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, configMap("")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		h.CloseIdleConnections()
	}
}

// A client in the process is who its configuration says, as over the socket: the configuration may be
// changed after it was copied.
func TestUsersAreAuthenticatedInTheProcess(t *testing.T) {
	env := &envtest.Environment{}
	start(t, env)
	whoAmI := func(cfg *rest.Config) string {
		t.Helper()
		h, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer h.CloseIdleConnections()
		resp, err := h.Post(cfg.Host+"apis/authentication.k8s.io/v1/selfsubjectreviews", "application/json",
			strings.NewReader(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))
		if err != nil {
			return "error: " + err.Error()
		}
		defer resp.Body.Close()
		var body strings.Builder
		if _, err := fmt.Fprint(&body, resp.StatusCode); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 4096)
		n, _ := resp.Body.Read(buffer)
		return body.String() + " " + string(buffer[:n])
	}
	ann, err := env.AddUser(envtest.User{Name: "ann", Groups: []string{"staff"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*rest.Config)
		want   string
	}{
		{"the user", func(*rest.Config) {}, `"username":"ann"`},
		{"a wrong token, without the certificate", func(c *rest.Config) {
			c.CertData, c.KeyData, c.BearerToken = nil, nil, "wrong"
		}, "401"},
		{"anonymous", func(c *rest.Config) { *c = *rest.AnonymousClientConfig(c) }, "403"},
		{"no right to impersonate", func(c *rest.Config) { c.Impersonate.UserName = "bob" }, "403"},
		{"a CA that has not signed", func(c *rest.Config) { c.CAData = otherCA(t) }, "error: "},
	} {
		for _, socket := range []bool{false, true} {
			cfg := rest.CopyConfig(ann.Config())
			test.change(cfg)
			if socket {
				cfg.WrapTransport = nil
			}
			if got := whoAmI(cfg); !strings.Contains(got, test.want) {
				t.Errorf("%s, socket %t: %s", test.name, socket, got)
			}
		}
	}
	c := newClient(t, ann.Config())
	if err := c.Create(t.Context(), configMap("a")); !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights: %v", err)
	}
}

// otherCA returns the certificate of an unrelated authority.
func otherCA(t *testing.T) []byte {
	t.Helper()
	o := envtest.WebhookInstallOptions{}
	if err := o.PrepWithoutInstalling(); err != nil {
		t.Fatal(err)
	}
	if err := o.Cleanup(); err != nil {
		t.Fatal(err)
	}
	return o.LocalServingCAData
}

// The garbage collector and the namespace controller run, workloads do not.
func TestControllers(t *testing.T) {
	owner := configMap("owner")
	owned := func() *corev1.ConfigMap {
		o := configMap("owned")
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}
		return o
	}
	namespace := func() *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	}
	gone := func(c client.Client, obj client.Object) func() bool {
		return func() bool {
			return apierrors.IsNotFound(c.Get(context.Background(), client.ObjectKeyFromObject(obj), obj))
		}
	}
	t.Run("default", func(t *testing.T) {
		owner = configMap("owner")
		c := start(t, &envtest.Environment{})
		create(t, c, owner, namespace())
		create(t, c, owned())
		remove(t, c, owner, namespace())
		eventually(t, gone(c, configMap("owned")))
		eventually(t, gone(c, namespace()))
	})
	t.Run("none", func(t *testing.T) {
		t.Setenv("FLYBALL_CONTROLLERS", "none")
		c := start(t, &envtest.Environment{Controllers: "*"})
		create(t, c, namespace())
		remove(t, c, namespace())
		n := namespace()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(n), n); err != nil || n.Status.Phase != corev1.NamespaceTerminating {
			t.Errorf("namespace in phase %q, error %v", n.Status.Phase, err)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		t.Setenv("FLYBALL_CONTROLLERS", "garbagecollector,-namespace,typo") // as the stand-in has it
		_, err := (&envtest.Environment{}).Start()
		if err == nil || !strings.Contains(err.Error(), `"typo"`) || !strings.Contains(err.Error(), "namespace") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("workloads", func(t *testing.T) {
		c := start(t, &envtest.Environment{Controllers: "*"})
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}}},
		}
		eventually(t, func() bool { return c.Create(t.Context(), pod.DeepCopy()) == nil }) // once its service account is there
		eventually(t, func() bool {
			return c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.Status.Phase == corev1.PodRunning
		})
	})
}

func create(t testing.TB, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := c.Create(context.Background(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t testing.TB, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := c.Delete(context.Background(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// Flags of the API server act, by Configure and by Args.
func TestFlags(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("secret,ann,1,\"system:masters,staff\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{}
	env.ControlPlane.GetAPIServer().Configure().
		Set("authorization-mode", "AlwaysAllow").
		Append("enable-admission-plugins", "NamespaceAutoProvision", "AlwaysPullImages").
		Set("token-auth-file", tokens).Set("event-ttl", "1h")
	c := start(t, env)
	obj := configMap("a")
	obj.Namespace = "made-by-admission"
	create(t, c, obj)
	bob, err := env.AddUser(envtest.User{Name: "bob"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	create(t, newClient(t, bob.Config()), configMap("anybody"))
	byToken := rest.AnonymousClientConfig(env.Config)
	byToken.BearerToken = "secret"
	h, err := rest.HTTPClientFor(byToken)
	if err != nil {
		t.Fatal(err)
	}
	defer h.CloseIdleConnections()
	resp, err := h.Get(byToken.Host + "api/v1/namespaces")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("by token: %s", resp.Status)
	}

	withArgs := &envtest.Environment{}
	withArgs.ControlPlane.GetAPIServer().Args = append(envtest.DefaultKubeAPIServerFlags,
		"--enable-admission-plugins=NamespaceAutoProvision")
	obj = configMap("a")
	obj.Namespace = "made-by-admission"
	create(t, start(t, withArgs), obj)
}

func BenchmarkStartToFirstWrite(b *testing.B) {
	for b.Loop() {
		env := &envtest.Environment{}
		cfg, err := env.Start()
		if err != nil {
			b.Fatal(err)
		}
		create(b, newClient(b, cfg), configMap("a"))
		if err := env.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReset(b *testing.B) {
	env := &envtest.Environment{}
	c := start(b, env)
	for b.Loop() {
		b.StopTimer()
		for n := range 100 {
			create(b, c, configMap(fmt.Sprint(n)))
		}
		b.StartTimer()
		if err := env.Reset(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestIntegers: a default in the file of a definition may be an integer that a float64 cannot hold.
func TestIntegers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(path, []byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget}
  versions:
  - name: v1
    schema: {openAPIV3Schema: {type: integer, format: int64, default: 9223372036854775807}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	o := envtest.CRDInstallOptions{Paths: []string{path}}
	if err := envtest.ReadCRDFiles(&o); err != nil {
		t.Fatal(err)
	}
	if got := string(o.CRDs[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Default.Raw); got != "9223372036854775807" {
		t.Errorf("the default is %s", got)
	}
}
