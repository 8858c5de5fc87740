//lint:file-ignore SA1019 deprecated options are tested too

package ctrl_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/internal/testserver"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/webhook"
)

// unknown is a kind that is not in the scheme.
type unknown struct{ corev1.ConfigMap }

func (u *unknown) DeepCopyObject() runtime.Object { return &unknown{*u.DeepCopy()} }

// missing is a kind without an installed CustomResourceDefinition.
type missing struct{ corev1.ConfigMap }

func (m *missing) DeepCopyObject() runtime.Object { return &missing{*m.DeepCopy()} }

type missingList struct{ corev1.ConfigMapList }

func (m *missingList) DeepCopyObject() runtime.Object { return &missingList{*m.DeepCopy()} }

// Each mistake in setting up a manager is an error that names the mistake.
func TestBadInput(t *testing.T) {
	config := testserver.Start(t)
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	gv := ctrl.GroupVersion{Group: "example.org", Version: "v1"}
	s.AddKnownTypeWithName(gv.WithKind("Missing"), &missing{})
	s.AddKnownTypeWithName(gv.WithKind("MissingList"), &missingList{})
	metav1.AddToGroupVersion(s, gv)

	noop := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
	build := func(mgr ctrl.Manager, name string, obj client.Object, r reconcile.Reconciler) error {
		return ctrl.NewControllerManagedBy(mgr).Named(name).For(obj).
			WithOptions(controller.Options{CacheSyncTimeout: time.Second}).Complete(r)
	}
	noQueue := func(string, workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimitingInterface[ctrl.Request] {
		return nil
	}
	start := func(t *testing.T, mgr ctrl.Manager) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		err := mgr.Start(ctx)
		if ctx.Err() != nil {
			t.Fatal("the manager was still running")
		}
		return err
	}
	emptyDir := t.TempDir()
	tests := []struct {
		name    string
		options ctrl.Options
		use     func(*testing.T, ctrl.Manager) error
		want    []string
	}{
		{"no ID for the leader election", ctrl.Options{LeaderElection: true}, nil, []string{"LeaderElectionID"}},
		{"a lease shorter than its renewal", ctrl.Options{LeaderElection: true, LeaderElectionID: "x",
			LeaderElectionNamespace: "default", LeaseDuration: ptr.To(time.Second),
		}, nil, []string{"LeaseDuration", "RenewDeadline", "1s", "10s"}},
		{"a renewal shorter than its retries", ctrl.Options{LeaderElection: true, LeaderElectionID: "x",
			LeaderElectionNamespace: "default", RetryPeriod: ptr.To(time.Minute),
		}, nil, []string{"RenewDeadline", "RetryPeriod", "1m0s"}},
		{"namespaces of a cluster-scoped kind", ctrl.Options{Cache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Namespaces: map[string]cache.Config{"a": {}}}},
		}}, nil, []string{"Node", "ByObject.Namespaces"}},
		{"an address that is none", ctrl.Options{HealthProbeBindAddress: "here"}, nil, []string{"here"}},
		{"both bind addresses", ctrl.Options{MetricsBindAddress: ":1", Metrics: metricsserver.Options{BindAddress: ":2"}}, nil,
			[]string{"MetricsBindAddress", "set only"}},
		{"a kind of ByObject that is not in the scheme", ctrl.Options{Cache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{&unknown{}: {}},
		}}, nil, []string{"unknown", "scheme"}},
		{"no reconciler", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return build(mgr, "none", &corev1.Pod{}, nil)
		}, []string{"Reconciler"}},
		{"a nil function as the reconciler", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return build(mgr, "none", &corev1.Pod{}, reconcile.Func(nil))
		}, []string{"Reconciler"}},
		{"a nil event filter", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).WithEventFilter(nil).Complete(noop)
		}, []string{"WithEventFilter"}},
		{"a nil predicate", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).
				Owns(&corev1.Secret{}, builder.WithPredicates(nil)).Complete(noop)
		}, []string{"WithPredicates", "Secret"}},
		{"a nil source of a controller", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			c, err := controller.New("sourceless", mgr, controller.Options{Reconciler: noop})
			if err != nil {
				return err
			}
			return c.Watch(nil)
		}, []string{"sourceless", "source"}},
		{"a nil queue", ctrl.Options{}, func(t *testing.T, mgr ctrl.Manager) error {
			_, err := controller.New("queueless", mgr, controller.Options{Reconciler: noop, NewQueue: noQueue})
			if err != nil {
				return err
			}
			return start(t, mgr)
		}, []string{"queueless", "NewQueue"}},
		{"an index without a function", ctrl.Options{}, func(t *testing.T, mgr ctrl.Manager) error {
			return mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.Pod{}, "by-node", nil)
		}, []string{"by-node", "Pod", "function"}},
		{"a nil patch", ctrl.Options{}, func(t *testing.T, mgr ctrl.Manager) error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			return mgr.GetClient().Patch(t.Context(), pod, nil)
		}, []string{"Pod default/web", "patch"}},
		{"an owned kind that is not in the scheme", ctrl.Options{}, func(t *testing.T, mgr ctrl.Manager) error {
			err := ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Owns(&unknown{}).Complete(noop)
			if err != nil {
				return err
			}
			return start(t, mgr) // does not wait for CacheSyncTimeout, which is two minutes
		}, []string{"unknown", "Scheme"}},
		{"a kind that is read and not installed", ctrl.Options{}, func(t *testing.T, mgr ctrl.Manager) error {
			return mgr.GetAPIReader().Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "x"}, &missing{})
		}, []string{"Missing", "CRD", "should be installed"}},
		{"a kind that is created and not installed", ctrl.Options{}, func(t *testing.T, mgr ctrl.Manager) error {
			return mgr.GetClient().Create(t.Context(), &missing{})
		}, []string{"Missing", "CRD", "should be installed"}},
		{"no kind", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).Complete(noop)
		}, []string{"For"}},
		{"no object", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(nil).Complete(noop)
		}, []string{"For"}},
		{"no manager", ctrl.Options{}, func(*testing.T, ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(nil).For(&corev1.Pod{}).Complete(noop)
		}, []string{"Manager"}},
		{"no manager for a controller", ctrl.Options{}, func(*testing.T, ctrl.Manager) error {
			_, err := controller.New("none", nil, controller.Options{Reconciler: noop})
			return err
		}, []string{"Manager"}},
		{"no owned object", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Owns(nil).Complete(noop)
		}, []string{"Owns"}},
		{"no watched object", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Watches(nil, nil).Complete(noop)
		}, []string{"Watches", "object"}},
		{"no handler", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Watches(&corev1.Node{}, nil).Complete(noop)
		}, []string{"Watches", "handler", "Node"}},
		{"no source", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).WatchesRawSource(nil).Complete(noop)
		}, []string{"WatchesRawSource"}},
		{"no runnable", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error { return mgr.Add(nil) },
			[]string{"Runnable"}},
		{"no check", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error { return mgr.AddReadyzCheck("x", nil) },
			[]string{"readyz", "x"}},
		{"a name twice", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			if err := build(mgr, "twice", &corev1.Pod{}, noop); err != nil {
				return err
			}
			return build(mgr, "twice", &corev1.Pod{}, noop)
		}, []string{"twice", "SkipNameValidation"}},
		{"a kind that is not in the scheme", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return build(mgr, "unknown", &unknown{}, noop)
		}, []string{"unknown", "scheme"}},
		{"a kind that is read and not in the scheme", ctrl.Options{}, func(t *testing.T, mgr ctrl.Manager) error {
			return mgr.GetClient().Get(t.Context(), client.ObjectKey{Name: "x"}, &unknown{})
		}, []string{"unknown", "scheme"}},
		{"a kind that is not installed", ctrl.Options{}, func(t *testing.T, mgr ctrl.Manager) error {
			if err := build(mgr, "missing", &missing{}, noop); err != nil {
				return err
			}
			return start(t, mgr)
		}, []string{"Missing", "CRD", "should be installed"}},
		{"a webhook of nothing", ctrl.Options{}, func(_ *testing.T, mgr ctrl.Manager) error {
			return builder.WebhookManagedBy[runtime.Object](mgr, nil).Complete()
		}, []string{"object"}},
		{"no certificate", ctrl.Options{WebhookServer: webhook.NewServer(webhook.Options{
			Host: "127.0.0.1", Port: 19443, CertDir: emptyDir,
		})}, func(t *testing.T, mgr ctrl.Manager) error {
			mgr.GetWebhookServer()
			return start(t, mgr)
		}, []string{filepath.Join(emptyDir, "tls.crt")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.options.Scheme = s
			if test.options.Metrics.BindAddress == "" && test.options.MetricsBindAddress == "" {
				test.options.Metrics.BindAddress = "0"
			}
			mgr, err := ctrl.NewManager(config, test.options)
			if err == nil && test.use != nil {
				err = test.use(t, mgr)
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not have %q: %v", want, err)
				}
			}
			t.Log(err)
		})
	}
}

// A kubeconfig that cannot be read, or is none, is an error with the name of the file.
func TestBadKubeconfig(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{broken, filepath.Join(t.TempDir(), "nothing")} {
		t.Setenv("KUBECONFIG", name)
		_, err := ctrl.GetConfig()
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ctrl.NewManager(nil, ctrl.Options{}); err == nil || errors.Unwrap(err) != nil {
		t.Errorf("without a configuration: %v", err)
	}
	if _, err := cache.New(nil, cache.Options{}); err == nil {
		t.Error("a cache without a configuration")
	}
	if _, err := apiutil.NewDynamicRESTMapper(nil, http.DefaultClient); err == nil {
		t.Error("a RESTMapper without a configuration")
	}
}
