package controlplane_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"flyball.dev/apiserver/store"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// fork forks a control plane until the end of the test.
func fork(t testing.TB, plane *controlplane.ControlPlane, o controlplane.ForkOptions) *controlplane.ControlPlane {
	t.Helper()
	f, err := plane.Fork(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// contents lists what a control plane has, with the resource versions.
func contents(t testing.TB, plane *controlplane.ControlPlane) []string {
	t.Helper()
	objects, err := dynamic.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	core, example := corev1.SchemeGroupVersion, gadgets.GroupVersion()
	for _, gvr := range []schema.GroupVersionResource{core.WithResource("configmaps"), core.WithResource("services"), core.WithResource("namespaces"),
		gadgets, example.WithResource("widgets"), definitions} {
		list, err := objects.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			text, err := item.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
	}
	return all
}

func diff(t *testing.T, what string, got, want []string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// change changes a control plane: objects of a built-in and of a custom kind, a service with an address, and the
// definitions.
func change(t testing.TB, plane *controlplane.ControlPlane, name string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	client := controlplanetest.ClientFor(t, plane.Config())
	objects, err := dynamic.NewForConfig(plane.Config())
	must(err)
	maps := client.CoreV1().ConfigMaps("default")
	_, err = maps.Create(ctx, controlplanetest.ConfigMap(name), metav1.CreateOptions{})
	must(err)
	first, err := maps.Get(ctx, name5(0), metav1.GetOptions{})
	must(err)
	first.Data = map[string]string{"by": name}
	_, err = maps.Update(ctx, first, metav1.UpdateOptions{})
	must(err)
	must(maps.Delete(ctx, name5(1), metav1.DeleteOptions{}))
	_, err = objects.Resource(gadgets).Namespace("default").Create(ctx, controlplanetest.Decode(t,
		`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"`+name+`"}}`), metav1.CreateOptions{})
	must(err)
	_, err = client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.77", Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	must(err)
	must(objects.Resource(definitions).Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}))
}

// TestFork changes a control plane, a fork of it, and a fork of the fork: none observes the others.
func TestFork(t *testing.T) {
	plane := prepared(t, controlplane.Options{WithoutControllers: true}, 3)
	first := fork(t, plane, controlplane.ForkOptions{})
	second := fork(t, first, controlplane.ForkOptions{})
	planes := map[string]*controlplane.ControlPlane{"plane": plane, "fork": first, "fork-of-fork": second}
	want := contents(t, plane)
	diff(t, "the fork", contents(t, first), want)
	diff(t, "the fork of the fork", contents(t, second), want)
	for _, name := range []string{"fork", "plane", "fork-of-fork"} {
		change(t, planes[name], name)
		delete(planes, name)
		for other, plane := range planes {
			diff(t, fmt.Sprintf("%s, after changes of %s,", other, name), contents(t, plane), want)
		}
	}
}

// TestForkOutlives stops a control plane: its fork serves the keys, tokens and objects of before, over HTTPS too.
func TestForkOutlives(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	client := controlplanetest.ClientFor(t, plane.Config())
	token, err := client.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), "namespace-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := fork(t, plane, controlplane.ForkOptions{Listen: "127.0.0.1:0"})
	if err := plane.Stop(); err != nil {
		t.Fatal(err)
	}
	config := controlplanetest.FromKubeconfig(t, f)
	defer controlplanetest.CloseIdle(t, config)
	with := &rest.Config{Host: config.Host, BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}}
	defer controlplanetest.CloseIdle(t, with)
	if _, err := controlplanetest.ClientFor(t, with).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a token from before: %v", err)
	}
	endpoints, err := controlplanetest.ClientFor(t, config).CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || endpoints.Spec.ClusterIP == "" {
		t.Errorf("%v, %v", endpoints, err)
	}
	if _, err := plane.Fork(t.Context(), controlplane.ForkOptions{}); err == nil {
		t.Error("a control plane that has stopped was forked")
	}
}

// TestForkControllers starts the controllers of a fork, which act on it alone.
func TestForkControllers(t *testing.T) {
	plane := prepared(t, controlplane.Options{}, 0)
	f := fork(t, plane, controlplane.ForkOptions{})
	client := controlplanetest.ClientFor(t, f.Config())
	deployment, err := client.AppsV1().Deployments("default").Create(t.Context(), controlplanetest.ExampleDeployment(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.StartControllers(); err != nil {
		t.Fatal(err)
	}
	awaitReplicas(t, client, deployment.Name, *deployment.Spec.Replicas)
	if err := f.StartControllers(); err == nil || !strings.Contains(err.Error(), "run") {
		t.Errorf("they start twice: %v", err)
	}
	if err := plane.StartControllers(); err == nil {
		t.Error("the controllers of the first control plane start twice")
	}
	again := fork(t, f, controlplane.ForkOptions{})
	list, err := controlplanetest.ClientFor(t, again.Config()).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != int(*deployment.Spec.Replicas) {
		t.Errorf("a fork of the fork has %d pods, %v", len(list.Items), err)
	}
	list, err = controlplanetest.ClientFor(t, plane.Config()).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("the control plane has %d pods, %v", len(list.Items), err)
	}
	stopped, err := plane.Fork(t.Context(), controlplane.ForkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := stopped.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := stopped.StartControllers(); err == nil {
		t.Error("the controllers of a stopped control plane start")
	}
}

// TestForkWhileWriting forks a control plane while clients write to it and read from its forks.
func TestForkWhileWriting(t *testing.T) {
	s := memory.New(memory.Options{CompressAfter: time.Millisecond})
	plane := controlplanetest.Start(t, controlplane.Options{Storage: s, WithoutControllers: true})
	defer plane.Stop()
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for writer := range 2 {
		maps := controlplanetest.ClientFor(t, plane.Config()).CoreV1().ConfigMaps("default")
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				m := controlplanetest.ConfigMap(fmt.Sprintf("%d-%s", writer, name5(i)))
				if _, err := maps.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
				m.Data = map[string]string{"a": "b"}
				if _, err := maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 10 {
		f := fork(t, plane, controlplane.ForkOptions{})
		maps := controlplanetest.ClientFor(t, f.Config()).CoreV1().ConfigMaps("default")
		first, err := maps.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := maps.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(first.Items) != len(second.Items) {
			t.Errorf("the fork has %d and then %d objects, %v", len(first.Items), len(second.Items), err)
		}
	}
	close(stop)
	clients.Wait()
	if err := store.Verify(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// TestForkDataDir forks a control plane with a data directory. The fork changes nothing in the directory.
func TestForkDataDir(t *testing.T) {
	dir := t.TempDir()
	start := func() *controlplane.ControlPlane {
		t.Helper()
		plane, err := controlplane.Start(t.Context(), controlplane.Options{DataDir: dir, WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		return plane
	}
	plane := start()
	maps := controlplanetest.ClientFor(t, plane.Config()).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), controlplanetest.ConfigMap("before"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := contents(t, plane)
	f := fork(t, plane, controlplane.ForkOptions{})
	second := fork(t, f, controlplane.ForkOptions{})
	for _, p := range []*controlplane.ControlPlane{f, second} {
		diff(t, "the fork", contents(t, p), want)
		if _, err := controlplanetest.ClientFor(t, p.Config()).CoreV1().ConfigMaps("default").Create(t.Context(), controlplanetest.ConfigMap("of-the-fork"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := plane.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := controlplanetest.ClientFor(t, f.Config()).CoreV1().ConfigMaps("default").Get(t.Context(), "of-the-fork", metav1.GetOptions{}); err != nil {
		t.Errorf("the fork of a control plane that has stopped: %v", err)
	}
	plane = start()
	defer plane.Stop()
	diff(t, "the directory", contents(t, plane), want)
}

// unforkable is a storage that cannot be forked.
type unforkable struct{ storage.Store }

func TestForkRefused(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Storage: unforkable{memory.New(memory.Options{})}, WithoutControllers: true})
	defer plane.Stop()
	if _, err := plane.Fork(t.Context(), controlplane.ForkOptions{}); err == nil || !strings.Contains(err.Error(), "the storage cannot be forked") {
		t.Errorf("another storage: %v", err)
	}
	if err := plane.StartControllers(); err == nil {
		t.Error("controllers start in a control plane without controllers")
	}
}
