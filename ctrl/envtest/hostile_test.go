package envtest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/envtest"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/internal/testlevel"
)

// A second Start is refused, and the environment that runs goes on.
func TestStartTwice(t *testing.T) {
	env := &envtest.Environment{}
	c := start(t, env)
	create(t, c, configMap("a"))
	dir := env.WebhookInstallOptions.LocalServingCertDir
	if _, err := env.Start(); err == nil {
		t.Error("no error")
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(configMap("a")), configMap("")); err != nil {
		t.Errorf("after the second Start: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	if err := env.Stop(); err != nil {
		t.Error(err)
	}
	if err := env.Stop(); err != nil {
		t.Error(err)
	}
}

// A directory that the test has set is not the environment's to remove.
func TestDirectoryOfTheTestIsKept(t *testing.T) {
	for name, prepare := range map[string]func(env *envtest.Environment){
		"started": func(*envtest.Environment) {},
		"refused": func(env *envtest.Environment) { env.ControlPlane.GetAPIServer().Configure().Set("x", "y") },
		"memory":  func(env *envtest.Environment) { env.InMemory = true },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			env := &envtest.Environment{WebhookInstallOptions: envtest.WebhookInstallOptions{LocalServingCertDir: dir}}
			prepare(env)
			_, _ = env.Start()
			if err := env.Stop(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "precious")); err != nil {
				t.Error(err)
			}
		})
	}
}

// Reset and AddUser may be called while the environment stops: they succeed, or return an error.
func TestResetDuringStop(t *testing.T) {
	for range 20 {
		env := &envtest.Environment{}
		if _, err := env.Start(); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		begun := make(chan struct{})
		group.Go(func() {
			close(begun)
			for env.Reset() == nil {
			}
		})
		group.Go(func() {
			for {
				if _, err := env.AddUser(envtest.User{Name: "ann"}, nil); err != nil {
					return
				}
			}
		})
		<-begun
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
		group.Wait()
	}
}

// hangingWebhook is a webhook that answers when its client has gone, and a configuration of it for
// config maps.
func hangingWebhook(t *testing.T, entered chan<- struct{}) *admissionv1.ValidatingWebhookConfiguration {
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client has gone
		entered <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	none := admissionv1.SideEffectClassNone
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hangs"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "hangs.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none,
			ClientConfig: admissionv1.WebhookClientConfig{URL: &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
}

// Stop and Reset do not wait for webhooks that do not answer.
func TestHangingWebhook(t *testing.T) {
	for name, end := range map[string]func(*envtest.Environment) error{
		"stop": (*envtest.Environment).Stop, "reset": (*envtest.Environment).Reset,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testHangingWebhook(t, end) })
		})
	}
}

func testHangingWebhook(t *testing.T, end func(*envtest.Environment) error) {
	env := &envtest.Environment{InMemory: true, WebhookInstallOptions: envtest.WebhookInstallOptions{
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{validatingConfiguration()},
	}}
	c := start(t, env)
	entered := make(chan struct{})
	defer serveWebhook(t, env, func(r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})()
	if err := env.Reset(); err != nil { // requests know of it since then
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- c.Create(t.Context(), configMap("a")) }()
	<-entered
	began := time.Now()
	if err := end(env); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Second { // the webhook has 10 s
		t.Errorf("it took %s", took)
	}
	if err := <-result; err == nil {
		t.Error("the object was created")
	}
}

// serveWebhook serves the webhook of [validatingConfiguration] until stop is called.
func serveWebhook(t *testing.T, env *envtest.Environment, f func(*http.Request)) (stop func()) {
	t.Helper()
	server := webhook.NewServer(env.WebhookInstallOptions.ServerOptions()).(*webhook.DefaultServer)
	server.Register("/validate", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { f(r) }))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	if !server.WaitForReady(ctx) {
		t.Fatal("the webhook server did not start")
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// The garbage collector knows that Reset has brought back an owner that it has seen deleted.
func TestResetBringsBackOwners(t *testing.T) {
	env := &envtest.Environment{}
	c := start(t, env)
	owner := &rbacv1.ClusterRole{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "view"}, owner); err != nil {
		t.Fatal(err)
	}
	owned := func(name string) *corev1.ConfigMap {
		m := configMap(name)
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "view", UID: owner.UID}}
		return m
	}
	for round := range 5 {
		create(t, c, owned("a"))
		remove(t, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}})
		eventually(t, gone(c, configMap("a")))
		create(t, c, owned("b")) // its owner is known to be absent
		eventually(t, gone(c, configMap("b")))
		if err := env.Reset(); err != nil {
			t.Fatal(err)
		}
		create(t, c, owned("c"))
		// A collection of something else, so that the collector has looked at c as well.
		other := configMap("other")
		create(t, c, other)
		dependent := configMap("dependent")
		dependent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: other.Name, UID: other.UID}}
		create(t, c, dependent)
		remove(t, c, other)
		eventually(t, gone(c, configMap("dependent")))
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(configMap("c")), configMap("")); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := env.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}

func gone(c client.Client, obj client.Object) func() bool {
	return func() bool {
		return apierrors.IsNotFound(c.Get(context.Background(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object)))
	}
}

// What admission and authorization know is reset as well: quotas, roles, webhooks, priority classes,
// namespaces that end, and aggregated APIs.
func TestResetOfPolicies(t *testing.T) {
	deny := hangingWebhook(t, make(chan struct{}, 1000))
	short := int32(1)
	deny.Webhooks[0].TimeoutSeconds = &short
	deny.Name = "installed"
	deny.Webhooks[0].Rules[0].Resources = []string{"secrets"}
	env := &envtest.Environment{WebhookInstallOptions: envtest.WebhookInstallOptions{
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{deny}}}
	c := start(t, env)
	bob, err := env.AddUser(envtest.User{Name: "bob", Groups: []string{"staff"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	asBob := newClient(t, bob.Config())
	ns := func() *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}}
	}
	for round := range 20 {
		if err := asBob.Create(t.Context(), configMap("bob")); !apierrors.IsForbidden(err) {
			t.Fatalf("round %d: bob without a role: %v", round, err)
		}
		create(t, c, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "staff"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "staff"}},
		})
		create(t, asBob, configMap("bob"))
		create(t, c, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("0")}},
		})
		inEnding := configMap("kept")
		inEnding.Namespace, inEnding.Finalizers = "ending", []string{"example.com/kept"}
		create(t, c, ns(), inEnding)
		remove(t, c, ns())
		service := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.elsewhere.example.com"},
			"spec": map[string]any{"group": "elsewhere.example.com", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(10),
				"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "default", "name": "missing"}},
		}}
		create(t, c, service)
		remove(t, c, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "installed"}})
		create(t, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}})
		remove(t, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin"}})
		if err := env.Reset(); err != nil {
			t.Fatal(err)
		}
		create(t, c, configMap("a"), ns())
		kept := configMap("kept")
		kept.Namespace = "ending"
		create(t, c, kept)
		if round == 0 {
			if err := c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}); err == nil {
				t.Error("the webhook is not called")
			}
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(service), service); !apierrors.IsNotFound(err) {
			t.Error(err)
		}
		if err := env.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}

// Many resets under the controllers of the environment leave one that works. Owners may be created
// and deleted while the collector lists again.
func TestManyResets(t *testing.T) {
	env := &envtest.Environment{CRDs: []*crdV1{widgets()}}
	c := start(t, env)
	for n := range testlevel.Rounds(150, 1000) {
		owner := configMap("owner")
		create(t, c, owner)
		dependent := widget("dependent")
		dependent.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}})
		create(t, c, dependent)
		if n%50 == 0 {
			remove(t, c, owner)
			eventually(t, gone(c, widget("dependent")))
		}
		if err := env.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}

// selfSigned writes a certificate for loopback and clients, and its key.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "carol", Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// The flags of certificates, keys, networks and audit act as with the stand-in for kube-apiserver.
func TestFlagsOfTheStandIn(t *testing.T) {
	certificate, key := selfSigned(t)
	audit := filepath.Join(t.TempDir(), "audit.log")
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{}
	env.ControlPlane.GetAPIServer().Configure().
		Set("client-ca-file", certificate).Set("tls-cert-file", certificate).Set("tls-private-key-file", key).
		Set("service-cluster-ip-range", "10.7.0.0/24").Set("anonymous-auth", "false").
		Set("service-account-signing-key-file", key).Set("service-account-issuer", "https://issuer.example.com").
		Set("audit-log-path", audit).Set("audit-policy-file", policy)
	c := start(t, env)
	service := nodePort("a")
	create(t, c, service)
	if !strings.HasPrefix(service.Spec.ClusterIP, "10.7.0.") {
		t.Errorf("cluster IP %s", service.Spec.ClusterIP)
	}
	// Over the socket, with the certificate of the flags.
	carol := &rest.Config{Host: env.Config.Host, TLSClientConfig: rest.TLSClientConfig{CAFile: certificate, CertFile: certificate, KeyFile: key}}
	create(t, newClient(t, carol), configMap("carol"))
	overSocket := rest.CopyConfig(env.Config)
	overSocket.WrapTransport = nil
	create(t, newClient(t, overSocket), configMap("socket"))
	if err := newClient(t, rest.AnonymousClientConfig(env.Config)).Create(t.Context(), configMap("anonymous")); !apierrors.IsUnauthorized(err) {
		t.Errorf("anonymous: %v", err)
	}
	if text, err := os.ReadFile(audit); err != nil || !strings.Contains(string(text), `"carol"`) {
		t.Errorf("the audit log has %d bytes, %v", len(text), err)
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("without kubectl")
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(kubectl, "--kubeconfig", file, "--cache-dir", t.TempDir(), "get", "configmap", "carol", "-o", "name")
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "configmap/carol" {
		t.Errorf("%s: %v", out, err)
	}
}

// Definitions are read from files with comments, empty documents, other objects, and JSON.
func TestUnusualManifests(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.yaml": "# a comment\n---\n---\n# only a comment\n---\n" + validCRD + "\n---\n",
		"b.yaml": "", "c.yaml": "# nothing\n", "d.yaml": "---\n", "e.yml": "---\r\napiVersion: v1\r\nkind: List\r\nitems: []\r\n",
		"kustomization.yaml": "resources:\n- a.yaml\n",
		"g.json": `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.com"},
			"spec":{"group":"example.com","names":{"kind":"Gadget","plural":"gadgets"},"scope":"Namespaced",
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := start(t, &envtest.Environment{CRDDirectoryPaths: []string{dir}, ErrorIfCRDPathMissing: true})
	create(t, c, widget("a"), custom("Gadget", "a"))
}

// An environment on an existing cluster uses it, removes its definitions, and leaves it running.
func TestUseExistingCluster(t *testing.T) {
	cluster := &envtest.Environment{}
	c := start(t, cluster)
	t.Setenv("USE_EXISTING_CLUSTER", "true")
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, cluster.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	env := &envtest.Environment{CRDs: []*crdV1{widgets()}, CRDInstallOptions: envtest.CRDInstallOptions{CleanUpAfterUse: true}}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	create(t, newClient(t, cfg), widget("a"))
	if err := env.Reset(); err == nil {
		t.Error("an existing cluster was reset")
	}
	if len(env.KubeConfig) == 0 {
		t.Error("no kubeconfig")
	}
	for range 2 {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	}
	eventually(t, func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Name: "widgets.example.com"}, &crdV1{}))
	})
	t.Setenv("USE_EXISTING_CLUSTER", "") // for the stop of the cluster
}

// An environment with definitions to clean up can be stopped before it is started, and again.
func TestStopCleansUpOnce(t *testing.T) {
	env := &envtest.Environment{CRDs: []*crdV1{widgets()}, CRDInstallOptions: envtest.CRDInstallOptions{CleanUpAfterUse: true}}
	start(t, env)
	for range 2 {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	}
	if err := (&envtest.Environment{Config: env.Config, CRDInstallOptions: env.CRDInstallOptions}).Stop(); err != nil {
		t.Errorf("before the start: %v", err)
	}
}
