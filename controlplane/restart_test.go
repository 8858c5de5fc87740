package controlplane_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/internal/reserve/reservetest"
	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
)

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	gadgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
)

const gadgetDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.com"},
"spec":{"group":"example.com","names":{"plural":"gadgets","singular":"gadget","kind":"Gadget","listKind":"GadgetList"},"scope":"Namespaced",
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"size":{"type":"integer","default":3}}}}}]}}`

// TestRestart stops a control plane with a data directory and starts it again. Its clients do not notice.
func TestRestart(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "data")
	o := controlplane.Options{DataDir: dir, Listen: reservetest.Address(t)}
	ctx := t.Context()
	plane := controlplanetest.Start(t, o)
	config := controlplanetest.FromKubeconfig(t, plane)
	client, err := kubernetes.NewForConfig(config)
	must(err)
	objects, err := dynamic.NewForConfig(config)
	must(err)

	_, err = objects.Resource(definitions).Create(ctx, controlplanetest.Decode(t, gadgetDefinition), metav1.CreateOptions{})
	must(err)
	gadget, err := objects.Resource(gadgets).Namespace("default").Create(ctx, controlplanetest.Decode(t,
		`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"}}`), metav1.CreateOptions{})
	must(err)
	service := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	before, err := client.CoreV1().Services("default").Create(ctx, service("before"), metav1.CreateOptions{})
	must(err)
	deployment, err := client.AppsV1().Deployments("default").Create(ctx, controlplanetest.ExampleDeployment(), metav1.CreateOptions{})
	must(err)
	awaitReplicas(t, client, deployment.Name, *deployment.Spec.Replicas)
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(err)
	first, err := client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap("first"), metav1.CreateOptions{})
	must(err)
	_, err = client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap("second"), metav1.CreateOptions{})
	must(err)
	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	must(err)
	must(plane.Stop())

	plane = controlplanetest.Start(t, o)
	same, err := objects.Resource(gadgets).Namespace("default").Get(ctx, "a", metav1.GetOptions{})
	must(err)
	if same.GetUID() != gadget.GetUID() || same.GetResourceVersion() != gadget.GetResourceVersion() {
		t.Errorf("the custom resource is %v, and was %v", same, gadget)
	}
	w, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	must(err)
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Added || name(e) != "second" {
		t.Errorf("the watch resumes with %s %s", e.Type, name(e))
	}
	third, err := client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap("third"), metav1.CreateOptions{})
	must(err)
	if version(t, third.ResourceVersion) <= version(t, first.ResourceVersion) {
		t.Errorf("resource version %s comes after %s", third.ResourceVersion, first.ResourceVersion)
	}
	if e := <-w.ResultChan(); e.Type != watch.Added || name(e) != "third" {
		t.Errorf("the watch goes on with %s %s", e.Type, name(e))
	}
	after, err := client.CoreV1().Services("default").Create(ctx, service("after"), metav1.CreateOptions{})
	must(err)
	if after.Spec.ClusterIP == before.Spec.ClusterIP || after.Spec.Ports[0].NodePort == before.Spec.Ports[0].NodePort {
		t.Errorf("two services share an address: %v and %v", before.Spec, after.Spec)
	}
	held := service("held")
	held.Spec.ClusterIP = before.Spec.ClusterIP
	if _, err := client.CoreV1().Services("default").Create(ctx, held, metav1.CreateOptions{}); err == nil ||
		!strings.Contains(err.Error(), "provided IP is already allocated") {
		t.Errorf("a service with an address that another holds: %v", err)
	}
	authenticated, err := kubernetes.NewForConfig(&rest.Config{Host: config.Host, BearerToken: token.Status.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}})
	must(err)
	if _, err := authenticated.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(),
		`User "system:serviceaccount:default:default" cannot list`) {
		t.Errorf("a token from before: %v", err)
	}
	again, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	must(err)
	if len(again.Items) != len(pods.Items) || again.Items[0].UID != pods.Items[0].UID {
		t.Errorf("there are %d pods, and were %d", len(again.Items), len(pods.Items))
	}
	scale, err := client.AppsV1().Deployments("default").GetScale(ctx, deployment.Name, metav1.GetOptions{})
	must(err)
	scale.Spec.Replicas++
	_, err = client.AppsV1().Deployments("default").UpdateScale(ctx, deployment.Name, scale, metav1.UpdateOptions{})
	must(err)
	awaitReplicas(t, client, deployment.Name, scale.Spec.Replicas)
	controlplanetest.CloseIdle(t, config)
	must(plane.Stop())
}

func name(e watch.Event) string {
	o, ok := e.Object.(metav1.Object)
	if !ok {
		return fmt.Sprint(e.Object)
	}
	return o.GetName()
}

func version(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitReplicas waits until a Deployment has that many available replicas.
func awaitReplicas(t *testing.T, client kubernetes.Interface, name string, want int32) {
	t.Helper()
	w, err := client.AppsV1().Deployments("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if d, ok := e.Object.(*appsv1.Deployment); ok && d.Status.AvailableReplicas == want {
			return
		}
	}
	t.Fatal("the watch has ended")
}

// planeVariable makes the test's program a control plane with the data directory that it names.
const planeVariable = "FLYBALL_TEST_DATA_DIR"

// TestKilled kills a control plane while it serves writes, again and again. What it has acknowledged is there
// when it starts again.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(planeVariable); dir != "" {
		runPlane(dir)
	}
	dir := t.TempDir()
	acknowledged := map[string]string{} // resource versions by name
	const kills = 3
	for round := range kills + 1 {
		kubeconfig, kill := startProcess(t, dir)
		config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.QPS = -1 // no limit
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		maps := client.CoreV1().ConfigMaps("default")
		list, err := maps.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, m := range list.Items {
			found[m.Name] = m.ResourceVersion
		}
		for name, version := range acknowledged {
			if found[name] != version {
				t.Errorf("round %d: %s has resource version %q, and %s was acknowledged", round, name, found[name], version)
			}
		}
		for i := 0; round < kills; i++ {
			m, err := maps.Create(t.Context(), controlplanetest.ConfigMap(fmt.Sprintf("m-%d-%d", round, i)), metav1.CreateOptions{})
			if err != nil {
				break
			}
			acknowledged[m.Name] = m.ResourceVersion
			if i == 200 {
				go kill()
			}
		}
		kill()
		controlplanetest.CloseIdle(t, config)
	}
	if len(acknowledged) < kills*201 {
		t.Errorf("only %d writes were acknowledged", len(acknowledged))
	}
}

// startProcess starts a control plane as a process, and returns its kubeconfig and a function that kills it.
func startProcess(t *testing.T, dir string) (kubeconfig []byte, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), planeVariable+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	size, err := bufio.NewReader(io.LimitReader(out, 11)).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(size))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig = make([]byte, n)
	if _, err := io.ReadFull(out, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, kill
}

// runPlane runs a control plane until the process is killed.
func runPlane(dir string) {
	plane, err := controlplane.Start(context.Background(), controlplane.Options{DataDir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%10d\n%s", len(plane.Kubeconfig()), plane.Kubeconfig())
	<-plane.Done()
	os.Exit(0)
}

func TestDataDirInUse(t *testing.T) {
	dir := t.TempDir()
	plane := controlplanetest.Start(t, controlplane.Options{DataDir: dir})
	defer plane.Stop()
	if _, err := controlplane.Start(t.Context(), controlplane.Options{DataDir: dir}); !errors.Is(err, datadir.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second control plane: %v", err)
	}
}

// fullStorage is a storage without space while full is set.
type fullStorage struct {
	storage.Store
	full *bool
}

func (s fullStorage) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	if *s.full {
		return nil, fmt.Errorf("%w: /data", storage.ErrNoSpace)
	}
	return s.Store.Put(ctx, w)
}

func (s fullStorage) Healthy() error {
	if *s.full {
		return storage.ErrNoSpace
	}
	return nil
}

// TestFullStorage checks what clients get when the disk is full: an error for writes, and reads as ever.
func TestFullStorage(t *testing.T) {
	full := false
	dir, err := datadir.Open(t.TempDir(), datadir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plane := controlplanetest.Start(t, controlplane.Options{Storage: fullStorage{dir, &full}, WithoutControllers: true})
	defer plane.Stop()
	send := controlplanetest.Sender(t, plane.Config())
	const create = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	full = true
	code, body := send("POST", "/api/v1/namespaces/default/configmaps", "application/json", create)
	if code != http.StatusInsufficientStorage || !strings.Contains(string(body), `"reason":"InsufficientStorage"`) || !strings.Contains(string(body), "/data") {
		t.Errorf("a write returns %d %s", code, body)
	}
	if code, body := send("GET", "/readyz", "", ""); code != http.StatusInternalServerError || !strings.Contains(string(body), "[-]storage failed") {
		t.Errorf("/readyz returns %d %s", code, body)
	}
	for _, path := range []string{"/livez", "/healthz", "/api/v1/namespaces/default"} {
		if code, body := send("GET", path, "", ""); code != http.StatusOK {
			t.Errorf("%s returns %d %s", path, code, body)
		}
	}
	full = false
	if code, body := send("POST", "/api/v1/namespaces/default/configmaps", "application/json", create); code != http.StatusCreated {
		t.Errorf("with space, a write returns %d %s", code, body)
	}
	if code, body := send("GET", "/readyz", "", ""); code != http.StatusOK {
		t.Errorf("with space, /readyz returns %d %s", code, body)
	}
}
