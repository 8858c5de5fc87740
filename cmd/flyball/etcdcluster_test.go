package main

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/storage"
	etcdstorage "flyball.dev/storage/etcd"
	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/etcdserver/etcdservertest"
	"flyball.dev/storage/memory"
)

// TestOverrides starts a control plane on two clusters. Each has its resources, under kube-apiserver's keys, and an outage of
// the one does not concern the other.
func TestOverrides(t *testing.T) {
	main, other := memory.New(memory.Options{}), memory.New(memory.Options{})
	url := "http://" + etcdservertest.Serve(t, etcdserver.Options{Store: main})
	otherURL := "http://" + etcdservertest.Serve(t, etcdserver.Options{Store: other})
	cluster := etcdCluster{servers: []string{url}, prefix: "/team", overrides: []string{
		"/events#" + otherURL, "coordination.k8s.io/leases#" + otherURL}}
	if used, err := cluster.used(); err != nil || !used {
		t.Fatal(used, err)
	}
	options := controlplane.Options{Shared: true, WithoutControllers: true}
	var err error
	if options.Storage, err = cluster.open(t.Context(), &options); err != nil {
		t.Fatal(err)
	}
	plane, err := controlplane.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	client := kubernetes.NewForConfigOrDie(plane.Config())
	events := client.CoreV1().Events("default")
	ctx := t.Context()

	// A watch that begins before the first event has it, with the revision of its own cluster.
	list, err := events.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := events.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	created, err := events.Create(ctx, event("first"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := (<-w.ResultChan()).Object.(*corev1.Event); !ok || e.Name != "first" || e.ResourceVersion != created.ResourceVersion {
		t.Errorf("the watch has %+v, want the event at %s", e, created.ResourceVersion)
	}
	if again, err := client.EventsV1().Events("default").Get(ctx, "first", metav1.GetOptions{}); err != nil || again.UID != created.UID {
		t.Errorf("the event in its other group: %v", err)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Events("nowhere").Create(ctx, event("lost"), metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an event in a namespace that does not exist: %v", err)
	}
	if keys := keysOf(t, other); !slices.Equal(keys, []string{"/team/events/default/first"}) {
		t.Errorf("the cluster of the events has %v", keys)
	}
	for _, key := range keysOf(t, main) {
		if strings.Contains(key, "/events/") || strings.Contains(key, "/leases/") {
			t.Errorf("the other cluster has %s", key)
		}
	}

	if text := readyz(t, plane.Config()); !strings.Contains(text, "[+]etcd-override-0 ok") || !strings.Contains(text, "[+]etcd-override-readiness-0 ok") {
		t.Errorf("/readyz is\n%s", text)
	}
	other.Close()
	if text := readyz(t, plane.Config()); !strings.Contains(text, "[-]etcd-override-0 failed") || !strings.Contains(text, "[+]etcd ok") {
		t.Errorf("/readyz in an outage is\n%s", text)
	}
	if _, err := events.Create(ctx, event("second"), metav1.CreateOptions{}); err == nil {
		t.Error("an event is created in a cluster that is gone")
	}
	if _, err := client.CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func event(name string) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}}
}

func keysOf(t *testing.T, s storage.Store) (keys []string) {
	t.Helper()
	page, err := s.Range(t.Context(), storage.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Records {
		keys = append(keys, r.Key)
	}
	return keys
}

func readyz(t *testing.T, config *clientrest.Config) string {
	t.Helper()
	client, err := clientrest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Get(config.Host + "/readyz?verbose")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK && r.StatusCode != http.StatusInternalServerError {
		t.Fatal(r.Status, err)
	}
	return string(text)
}

// TestOverridesOfOneCluster: two resources with the same servers share a connection, in whatever order the servers are.
func TestOverridesOfOneCluster(t *testing.T) {
	c := etcdCluster{servers: []string{"http://a:1"}, prefix: etcdstorage.DefaultPrefix,
		overrides: []string{"/events#http://b:1;http://c:1", "/services#http://d:1", "/pods#http://c:1;http://b:1"}}
	overrides, err := c.parseOverrides()
	if err != nil || len(overrides) != 2 {
		t.Fatal(overrides, err)
	}
	if paths := overrides[0].paths; !slices.Equal(paths, []string{"/registry/events/", "/registry/pods/"}) {
		t.Error(paths)
	}
	if paths := overrides[1].prefixes(etcdstorage.Prefix{Store: "/registry/", Cluster: "/x/"}); len(paths) != 1 ||
		paths[0] != (etcdstorage.Prefix{Store: "/registry/services/specs/", Cluster: "/x/services/specs/"}) {
		t.Error(paths)
	}
}
