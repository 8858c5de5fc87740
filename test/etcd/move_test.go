package etcd

import (
	"context"
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

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/internal/reserve/reservetest"
	"flyball.dev/storage/datadir"
)

var kubeAPIServer = flag.String("kube-apiserver", "", "the program kube-apiserver, for TestMove and TestKubeAPIServer; go run -C test/oracle . build makes one")

// TestKubeAPIServer runs the real kube-apiserver on etcd's API over a data directory, starts it again, and then starts a
// control plane of Flyball on the same store. Each reads all objects as the first one has served them.
func TestKubeAPIServer(t *testing.T) {
	if *kubeAPIServer == "" {
		t.Skip("-kube-apiserver is not set")
	}
	ctx := t.Context()
	store, err := datadir.Open(t.TempDir(), datadir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + serveStore(t, store)
	config, stop := startKubeAPIServer(t, url)
	kubernetes := clientFor(t, config)
	for _, obj := range []client.Object{
		definition(),
		deployment("web"),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Data: map[string][]byte{"key": {0, 1, 2}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gone"}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}},
	} {
		if err := kubernetes.Create(ctx, obj); err != nil {
			t.Fatalf("%T: %v", obj, err)
		}
	}
	eventually(t, "the definition", func() error { return kubernetes.Create(ctx, gadget("one")) })
	for i := range 30 {
		if err := kubernetes.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("c", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	comparePages(t, kubernetes)
	watchDeletion(t, config)
	if all, err := store.Leases(ctx); err != nil || len(all) == 0 {
		t.Errorf("the leases are %v, %v: the event has none", all, err)
	}
	before := objects(t, config)
	stop()

	config, stop = startKubeAPIServer(t, url)
	compareObjects(t, "kube-apiserver", objects(t, config), before)
	stop()

	plane, err := controlplane.Start(context.Background(), controlplane.Options{Storage: store, Shared: true, Listen: "127.0.0.1:0", WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	compareObjects(t, "flyball", objects(t, configOf(t, plane)), before)
	if err := plane.Stop(); err != nil {
		t.Fatal(err)
	}
}

// comparePages reads objects in pages, at one revision.
func comparePages(t *testing.T, c client.Client) {
	t.Helper()
	var whole, page corev1.ConfigMapList
	if err := c.List(t.Context(), &whole, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	read := 0
	for next := ""; ; {
		if err := c.List(t.Context(), &page, client.InNamespace("default"), client.Limit(7), client.Continue(next)); err != nil {
			t.Fatal(err)
		}
		read += len(page.Items)
		if next = page.Continue; next == "" {
			break
		}
		extra := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("z", read)}}
		if err := c.Create(t.Context(), extra); err != nil {
			t.Fatal(err)
		}
	}
	if read != len(whole.Items) || read < 30 {
		t.Errorf("read %d objects in pages, and %d at once", read, len(whole.Items))
	}
}

// watchDeletion watches an object from its creation to its deletion.
func watchDeletion(t *testing.T, config *rest.Config) {
	t.Helper()
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	maps := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	gone, err := maps.Get(t.Context(), "gone", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := maps.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=gone", ResourceVersion: gone.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if _, err := maps.Patch(t.Context(), "gone", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []watch.EventType{watch.Modified, watch.Deleted} {
		if e := <-w.ResultChan(); e.Type != want {
			t.Fatalf("got the event %s %v, want %s", e.Type, e.Object, want)
		}
	}
}

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
	eventually(t, "the deployment", func() error { return wantAvailable(ctx, flyball, "web") })
	before := objects(t, configOf(t, plane))
	if err := plane.Stop(); err != nil {
		t.Fatal(err)
	}

	config, stop := startKubeAPIServer(t, c.members[0].url)
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
	eventually(t, "a deployment in the end", func() error { return wantAvailable(ctx, clientFor(t, configOf(t, again)), "last") })
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
		if gv.Group == "metrics.k8s.io" {
			continue // its objects are in no storage
		}
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

// startKubeAPIServer starts kube-apiserver on the URL of an etcd server, and returns the configuration of an administrator.
func startKubeAPIServer(t testing.TB, url string) (*rest.Config, func()) {
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
	port := reservetest.Port(t)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	command := exec.Command(*kubeAPIServer, "--etcd-servers="+url, "--bind-address=127.0.0.1",
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
	eventually(t, "kube-apiserver", func() error {
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
