package builder_test

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/testserver"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newManager returns a manager of the default namespace of an API server.
func newManager(t *testing.T, options manager.Options) manager.Manager {
	t.Helper()
	options.Cache.DefaultNamespaces = map[string]cache.Config{"default": {}}
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	mgr, err := manager.New(testserver.Start(t), options)
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// run starts mgr and stops it when the test ends.
func run(t *testing.T, mgr manager.Manager) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-mgr.Elected()
}

var succeed = reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })

// newReconciler returns a reconciler that sends the name of every request.
func newReconciler() (reconcile.Reconciler, <-chan string) {
	names := make(chan string, 100)
	return reconcile.Func(func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
		names <- req.Name
		return reconcile.Result{}, nil
	}), names
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func create(t *testing.T, mgr manager.Manager, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := mgr.GetClient().Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

func expect(t *testing.T, names <-chan string, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := <-names; got != w {
			t.Errorf("got a request for %s, want %s", got, w)
		}
	}
}

func TestForOwnsWatches(t *testing.T) {
	mgr := newManager(t, manager.Options{})
	r, names := newReconciler()
	events := make(chan event.GenericEvent)
	everybody := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		if _, ok := obj.(*metav1.PartialObjectMetadata); !ok {
			t.Errorf("a metadata-only watch gave a %T", obj)
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "by " + obj.GetName()}}}
	})
	err := builder.ControllerManagedBy(mgr).
		Named("all").
		For(&corev1.ConfigMap{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
			return obj.GetName() != "ignored"
		}))).
		Owns(&corev1.Secret{}).
		Owns(&corev1.Service{}, builder.MatchEveryOwner, builder.OnlyMetadata).
		WatchesMetadata(&corev1.Node{}, everybody).
		WatchesRawSource(source.Channel(events, &handler.EnqueueRequestForObject{})).
		WithEventFilter(predicate.NewPredicateFuncs(func(obj client.Object) bool { return !strings.HasPrefix(obj.GetName(), "hidden") })).
		Complete(r)
	if err != nil {
		t.Fatal(err)
	}
	run(t, mgr)

	owner := configMap("owner")
	create(t, mgr, configMap("ignored"), configMap("hidden"), owner)
	expect(t, names, "owner")

	owned, hidden, foreign := secret("owned"), secret("hidden-too"), secret("foreign")
	for _, s := range []*corev1.Secret{owned, hidden} {
		if err := controllerutil.SetControllerReference(owner, s, mgr.GetScheme()); err != nil {
			t.Fatal(err)
		}
	}
	create(t, mgr, hidden, foreign, owned)
	expect(t, names, "owner")

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	second := configMap("second")
	create(t, mgr, second)
	expect(t, names, "second")
	if err := controllerutil.SetOwnerReference(second, service, mgr.GetScheme()); err != nil {
		t.Fatal(err)
	}
	create(t, mgr, service)
	expect(t, names, "second")

	create(t, mgr, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}})
	expect(t, names, "by node")
	events <- event.GenericEvent{Object: configMap("hidden from the filter")}
	expect(t, names, "hidden from the filter")
}

func TestTypedRequests(t *testing.T) {
	mgr := newManager(t, manager.Options{})
	names := make(chan string, 10)
	r := reconcile.TypedFunc[string](func(_ context.Context, req string) (reconcile.Result, error) {
		names <- req
		return reconcile.Result{}, nil
	})
	byName := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []string { return []string{obj.GetName()} })
	if err := builder.TypedControllerManagedBy[string](mgr).Named("typed").Watches(&corev1.ConfigMap{}, byName).Complete(r); err != nil {
		t.Fatal(err)
	}
	err := builder.TypedControllerManagedBy[string](mgr).Named("for").For(&corev1.ConfigMap{}).Complete(r)
	if err == nil || err.Error() != "For() can only be used with reconcile.Request, got string" {
		t.Errorf("For: %v", err)
	}
	run(t, mgr)
	create(t, mgr, configMap("a"))
	expect(t, names, "a")
}

func TestNames(t *testing.T) {
	mgr := newManager(t, manager.Options{})
	named := func(mgr manager.Manager) error {
		return builder.ControllerManagedBy(mgr).For(&appsv1.ReplicaSet{}).Complete(succeed)
	}
	if err := named(mgr); err != nil {
		t.Error(err)
	}
	if err := named(mgr); err == nil || !strings.Contains(err.Error(), "controller with name replicaset already exists") {
		t.Errorf("the same name again: %v", err)
	}
	if err := named(newManager(t, manager.Options{})); err != nil {
		t.Errorf("the same name in another manager: %v", err)
	}
}

func TestOptions(t *testing.T) { testserver.Test(t, testOptions) }

func testOptions(t *testing.T) {
	mgr := newManager(t, manager.Options{Controller: config.Controller{
		MaxConcurrentReconciles: 2,
		GroupKindConcurrency:    map[string]int{"ReplicaSet.apps": 7, "ConfigMap": 3},
	}})
	want := map[string]float64{"workers-kind": 7, "workers-set": 5, "workers-default": 2}
	for name, c := range map[string]struct {
		obj client.Object
		set int
	}{
		"workers-kind":    {&appsv1.ReplicaSet{}, 0},
		"workers-set":     {&corev1.ConfigMap{}, 5},
		"workers-default": {&corev1.Secret{}, 0},
	} {
		b := builder.ControllerManagedBy(mgr).Named(name).For(c.obj)
		if err := b.WithOptions(controller.Options{MaxConcurrentReconciles: c.set}).Complete(succeed); err != nil {
			t.Fatal(err)
		}
	}
	run(t, mgr)
	testserver.Wait()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "controller_runtime_max_concurrent_reconciles" {
			continue
		}
		for _, m := range f.Metric {
			name := m.Label[0].GetValue()
			if n, ok := want[name]; ok && m.GetGauge().GetValue() != n {
				t.Errorf("%s has %v workers, want %v", name, m.GetGauge().GetValue(), n)
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not started: %v", want)
	}
}

func TestBuildErrors(t *testing.T) {
	mgr := newManager(t, manager.Options{})
	h := &handler.EnqueueRequestForObject{}
	for name, c := range map[string]struct {
		b    *builder.Builder
		r    reconcile.Reconciler
		want string
	}{
		"no reconciler": {builder.ControllerManagedBy(mgr).For(&corev1.Pod{}), nil, "must provide a non-nil Reconciler"},
		"no manager":    {builder.ControllerManagedBy(nil).For(&corev1.Pod{}), succeed, "must provide a non-nil Manager"},
		"For twice":     {builder.ControllerManagedBy(mgr).For(&corev1.Pod{}).For(&corev1.Pod{}), succeed, "For(...) should only be called once"},
		"Owns without For": {
			builder.ControllerManagedBy(mgr).Named("x").Owns(&corev1.Pod{}), succeed, "Owns() can only be used together with For()",
		},
		"nothing to watch": {builder.ControllerManagedBy(mgr).Named("x"), succeed, "there are no watches configured"},
		"no name":          {builder.ControllerManagedBy(mgr).Watches(&corev1.Pod{}, h), succeed, "one of For() or Named() must be called"},
		"two reconcilers": {
			builder.ControllerManagedBy(mgr).For(&corev1.Pod{}).WithOptions(controller.Options{Reconciler: succeed}), succeed, "reconciler was set via WithOptions()",
		},
		"an unknown kind": {builder.ControllerManagedBy(mgr).For(&unknownKind{}), succeed, "no kind is registered for the type"},
		"objects owned by an unknown kind": {
			builder.ControllerManagedBy(mgr).For(&unknownKind{}).Owns(&corev1.Pod{}), succeed, "no kind is registered for the type",
		},
		"metadata of an unknown kind": {
			builder.ControllerManagedBy(mgr).Named("x").WatchesMetadata(&unknownKind{}, h), succeed, "unable to determine GVK",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.b.Complete(c.r); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

type unknownKind struct{ corev1.Pod }

func (u *unknownKind) DeepCopyObject() runtime.Object { return &unknownKind{*u.Pod.DeepCopy()} }
