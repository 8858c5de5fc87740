package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
)

var kubeAPIServer = flag.String("kube-apiserver", "", "the program kube-apiserver, for TestMove; go run -C test/oracle . build makes one")

// TestMove moves a cluster from Flyball to kube-apiserver and back, with the same etcd. Each server reads all objects as the
// other one has served them.
func TestMove(t *testing.T) {
	if *kubeAPIServer == "" {
		t.Skip("-kube-apiserver is not set")
	}
	c := startCluster(t, 1)
	ctx := t.Context()

	plane := startPlane(t, c, "203.0.113.1")
	flyball := clientFor(t, configOf(t, plane))
	for _, obj := range []client.Object{
		definition(),
		deployment("web"),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Data: map[string][]byte{"key": {0, 1, 2}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}},
		&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}}},
		gadget("before"),
	} {
		if err := flyball.Create(ctx, obj); err != nil {
			t.Fatalf("%T: %v", obj, err)
		}
	}
	eventually(t, 20*time.Second, "the deployment", func() error { return wantAvailable(ctx, flyball, "web") })
	before := objects(t, configOf(t, plane))
	if err := plane.Stop(); err != nil {
		t.Fatal(err)
	}

	config, stop := startKubeAPIServer(t, c)
	kubernetes := clientFor(t, config)
	compareObjects(t, "kube-apiserver", objects(t, config), before)
	for _, obj := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}, Data: map[string]string{"a": "b"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		gadget("after"),
	} {
		if err := kubernetes.Create(ctx, obj); err != nil {
			t.Fatalf("%T: %v", obj, err)
		}
	}
	if err := kubernetes.Patch(ctx, gadget("before"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"size":3}}`))); err != nil {
		t.Fatal(err)
	}
	between := objects(t, config)
	stop()

	idle := startPlane(t, c, "203.0.113.1", func(o *controlplane.Options) { o.WithoutControllers = true })
	compareObjects(t, "flyball", objects(t, configOf(t, idle)), between)
	if err := idle.Stop(); err != nil {
		t.Fatal(err)
	}
	again := startPlane(t, c, "203.0.113.1")
	if err := clientFor(t, configOf(t, again)).Create(ctx, deployment("last")); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "a deployment in the end", func() error { return wantAvailable(ctx, clientFor(t, configOf(t, again)), "last") })
}

func gadget(name string) *unstructured.Unstructured {
	g := &unstructured.Unstructured{}
	g.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"})
	g.SetNamespace("default")
	g.SetName(name)
	return g
}

// objects returns all objects in the namespace default and all definitions, in JSON, by their paths. It leaves out what
// the servers and the controllers change all the time.
func objects(t testing.TB, config *rest.Config) map[string]string {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, list := range lists {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		for _, r := range list.APIResources {
			listed := strings.Contains(strings.Join(r.Verbs, ","), "list")
			if !listed || !r.Namespaced && r.Name != "customresourcedefinitions" || r.Name == "events" || r.Name == "leases" {
				continue
			}
			objects, err := c.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
			for _, o := range objects.Items {
				if o.GetNamespace() != "" && o.GetNamespace() != "default" || o.GetName() == "kubernetes" {
					continue
				}
				data, err := json.Marshal(o.Object)
				if err != nil {
					t.Fatal(err)
				}
				all[list.GroupVersion+"/"+r.Name+"/"+o.GetName()] = string(data)
			}
		}
	}
	return all
}

// compareObjects compares objects that a server serves with what another server has served.
func compareObjects(t testing.TB, server string, got, want map[string]string) {
	t.Helper()
	if len(want) < 10 {
		t.Errorf("there are only %d objects", len(want))
	}
	for path, w := range want {
		if g, ok := got[path]; !ok {
			t.Errorf("%s does not serve %s", server, path)
		} else if g != w {
			t.Errorf("%s serves %s\n%s\nwant\n%s", server, path, g, w)
		}
	}
	t.Logf("%s: compared %d objects", server, len(want))
}

// startKubeAPIServer starts kube-apiserver on a cluster, and returns the configuration of an administrator.
func startKubeAPIServer(t testing.TB, c *cluster) (*rest.Config, func()) {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	keyFile, tokens := filepath.Join(dir, "accounts.key"), filepath.Join(dir, "tokens")
	err = errors.Join(os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600),
		os.WriteFile(tokens, []byte("secret,admin,1,system:masters\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	port := freePorts(t, 1)[0]
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	command := exec.Command(*kubeAPIServer, "--etcd-servers="+c.members[0].url, "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port), "--advertise-address=203.0.113.9", "--cert-dir="+dir,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local", "--service-account-key-file="+keyFile,
		"--service-account-signing-key-file="+keyFile, "--service-cluster-ip-range=10.96.0.0/12", "--authorization-mode=RBAC",
		"--token-auth-file="+tokens)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		command.Process.Kill()
		command.Wait()
	}
	t.Cleanup(stop)
	config := &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d", port), BearerToken: "secret", QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "kube-apiserver", func() error {
		r, err := httpClient.Get(config.Host + "/readyz")
		if err != nil {
			return err
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return errors.New(r.Status)
		}
		return nil
	})
	return config, stop
}
