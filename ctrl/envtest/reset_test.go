package envtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/envtest"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
)

// state is all that clients can see of an API server, as text by path.
type state map[string]string

// stateOf reads discovery, all objects without their resource versions, and what a new service is
// allocated, in a dry run.
func stateOf(t testing.TB, cfg *rest.Config) state {
	t.Helper()
	s := state{}
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		s["discovery "+list.GroupVersion] = text(t, list)
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			found, err := objects.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("%s %s: %v", gv, r.Name, err)
			}
			for i := range found.Items {
				obj := &found.Items[i]
				obj.SetResourceVersion("")
				s[fmt.Sprintf("%s %s %s/%s", gv, r.Name, obj.GetNamespace(), obj.GetName())] = text(t, obj)
			}
		}
	}
	service := nodePort("allocation")
	if err := newClient(t, cfg).Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	s["allocation"] = fmt.Sprint(service.Spec.ClusterIP, service.Spec.Ports[0].NodePort)
	return s
}

func text(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// compare reports the differences of two states.
func compare(t testing.TB, got, want state) {
	t.Helper()
	for path, text := range want {
		if got[path] != text {
			t.Errorf("%s\n got %s\nwant %s", path, got[path], text)
		}
	}
	for path, text := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%s should not be there: %s", path, text)
		}
	}
}

func nodePort(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// mutate makes random writes. Many of them fail.
func mutate(ctx context.Context, c client.Client, r *rand.Rand, n int) {
	for range n {
		name := fmt.Sprintf("o%d", r.IntN(6))
		kind := []string{"Widget", "Gadget", "Gizmo"}[r.IntN(3)]
		plural := map[string]string{"Widget": "widgets", "Gadget": "gadgets", "Gizmo": "gizmos"}[kind]
		var obj client.Object
		switch r.IntN(7) {
		case 0:
			obj = configMap(name)
		case 1:
			obj = nodePort(name)
		case 2:
			obj = custom(kind, name)
		case 3:
			obj = definition(kind, plural)
		case 4:
			obj = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: []string{"view", "edit", name}[r.IntN(3)]}}
		case 5:
			obj = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: []string{"kube-node-lease", name}[r.IntN(2)]}}
		default:
			obj = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}}
		}
		switch r.IntN(4) {
		case 0:
			_ = c.Delete(ctx, obj)
		case 1:
			obj.SetLabels(map[string]string{"touched": fmt.Sprint(r.IntN(100))})
			patch := []byte(fmt.Sprintf(`{"metadata":{"labels":{"touched":"%d"}}}`, r.IntN(100)))
			_ = c.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", patch))
		default:
			_ = c.Create(ctx, obj)
		}
	}
}

func environment() *envtest.Environment {
	return &envtest.Environment{Controllers: "none", CRDs: []*crdV1{widgets(), definition("Gadget", "gadgets")}}
}

// Whatever was written, Reset brings back the state after Start, of discovery, objects and
// allocations.
func TestResetModel(t *testing.T) {
	env := environment()
	c := start(t, env)
	want := stateOf(t, env.Config)
	delete(want, "v1 services default/allocation") // read before it was created
	if err := env.Reset(); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	last := uint64(0)
	for round := range 25 {
		mutate(t.Context(), c, r, 5+r.IntN(80))
		if err := env.Reset(); err != nil {
			t.Fatal(err)
		}
		compare(t, stateOf(t, env.Config), want)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
		list := &corev1.NodeList{}
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		var now uint64
		if _, err := fmt.Sscan(list.ResourceVersion, &now); err != nil || now <= last {
			t.Fatalf("resource version %s after %d", list.ResourceVersion, last)
		}
		last = now
		if err := env.Reset(); err != nil { // of the allocation
			t.Fatal(err)
		}
	}
}

// Reset while others write and watch: what they do leaves nothing behind.
func TestResetWithConcurrentWriters(t *testing.T) {
	env := environment()
	start(t, env)
	want := stateOf(t, env.Config)
	if err := env.Reset(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	wrote := make(chan struct{})
	for n := range 4 {
		c := newClient(t, env.Config)
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 3))
			for ctx.Err() == nil {
				mutate(ctx, c, r, 5)
				select {
				case wrote <- struct{}{}:
				case <-ctx.Done():
				}
			}
		})
	}
	for range 60 {
		for range 6 {
			<-wrote
		}
		if err := env.Reset(); err != nil {
			t.Error(err)
		}
	}
	cancel()
	writers.Wait()
	if err := env.Reset(); err != nil {
		t.Fatal(err)
	}
	compare(t, stateOf(t, env.Config), want)
}

// Open watches end with 410, of built-in kinds and of custom ones, whether their definitions stay or
// go.
func TestResetEndsWatches(t *testing.T) {
	env := environment()
	c := start(t, env)
	create(t, c, definition("Gizmo", "gizmos"))
	builtIn, err := kubernetes.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	var open []watch.Interface
	add := func(w watch.Interface, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, w)
	}
	add(builtIn.CoreV1().Secrets("").Watch(t.Context(), metav1.ListOptions{}))
	for _, resource := range []string{"widgets", "gizmos"} {
		gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: resource}
		add(objects.Resource(gvr).Watch(t.Context(), metav1.ListOptions{}))
	}
	if err := env.Reset(); err != nil {
		t.Fatal(err)
	}
	for n, w := range open {
		e, ok := <-w.ResultChan()
		if !ok || e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
			t.Errorf("watch %d: %v %v", n, e.Type, e.Object)
		}
		if _, ok := <-w.ResultChan(); ok {
			t.Errorf("watch %d has not ended", n)
		}
	}
}

// A manager that runs across a Reset goes on: its cache has what the API server has.
func TestResetUnderManager(t *testing.T) {
	env := environment()
	c := start(t, env)
	skip := true
	mgr, err := manager.New(env.Config, manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: &skip},
	})
	if err != nil {
		t.Fatal(err)
	}
	var reconciled sync.Map
	var count atomic.Int64
	u := custom("Widget", "")
	if err := builder.ControllerManagedBy(mgr).For(u).Owns(&corev1.ConfigMap{}).Complete(reconcile.Func(
		func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			count.Add(1)
			reconciled.Store(req.Name, true)
			w := custom("Widget", req.Name)
			if err := mgr.GetClient().Get(ctx, req.NamespacedName, w); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			return reconcile.Result{}, client.IgnoreAlreadyExists(mgr.GetClient().Create(ctx, configMap(req.Name)))
		})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for round := range 10 {
		name := fmt.Sprintf("w%d", round%2) // also with the names of objects before the reset
		create(t, c, custom("Widget", name))
		if _, err := manager.WaitIdle(t.Context(), mgr); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, configMap("")); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := env.Reset(); err != nil {
			t.Fatal(err)
		}
		if _, err := manager.WaitIdle(t.Context(), mgr); err != nil {
			t.Fatal(err)
		}
		cached := &unstructured.UnstructuredList{}
		cached.SetGroupVersionKind(u.GroupVersionKind().GroupVersion().WithKind("WidgetList"))
		if err := mgr.GetCache().List(t.Context(), cached); err != nil || len(cached.Items) != 0 {
			t.Fatalf("round %d: %d objects are cached, error %v", round, len(cached.Items), err)
		}
	}
	if _, ok := reconciled.Load("w1"); !ok || count.Load() < 10 {
		t.Errorf("%d reconciles", count.Load())
	}
}

// What cannot be reset says so.
func TestResetRefused(t *testing.T) {
	if err := (&envtest.Environment{}).Reset(); err == nil {
		t.Error("an environment that is not started: no error")
	}
}
