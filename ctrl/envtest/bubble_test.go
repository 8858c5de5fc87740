package envtest_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/envtest"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/ctrl/webhook/admission"
)

// validatingConfiguration is what controller-gen makes of a marker.
func validatingConfiguration() *admissionv1.ValidatingWebhookConfiguration {
	path, none, fail := "/validate", admissionv1.SideEffectClassNone, admissionv1.Fail
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "checks"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "check.example.com", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{
				Namespace: "system", Name: "webhook", Path: &path,
			}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
}

// refuse is a webhook that refuses objects by their name, a minute after it was asked about slow ones.
func refuse(ctx context.Context, req admission.Request) admission.Response {
	if strings.HasPrefix(req.Name, "slow") {
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
	}
	if strings.HasPrefix(req.Name, "bad") {
		return admission.Denied("the name is bad")
	}
	return admission.Allowed("")
}

// operator starts a manager with the webhook and a controller that counts its reconciles, one an hour
// for each ConfigMap.
func operator(t *testing.T, env *envtest.Environment, reconciles *atomic.Int64) manager.Manager {
	t.Helper()
	skip := true
	mgr, err := manager.New(env.Config, manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller:    config.Controller{SkipNameValidation: &skip},
		WebhookServer: webhook.NewServer(env.WebhookInstallOptions.ServerOptions()),
	})
	if err != nil {
		t.Fatal(err)
	}
	mgr.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(refuse)})
	if err := builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
		func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
			if req.Namespace == "default" {
				reconciles.Add(1)
				return reconcile.Result{RequeueAfter: time.Hour}, nil
			}
			return reconcile.Result{}, nil
		})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if _, err := manager.WaitIdle(t.Context(), mgr); err != nil {
		t.Fatal(err)
	}
	return mgr
}

// An operator with a webhook lives ten hours in a bubble, and answers its webhook all the time.
func TestTenHoursInABubble(t *testing.T) {
	begin := time.Now()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		env := &envtest.Environment{InMemory: true, WebhookInstallOptions: envtest.WebhookInstallOptions{
			ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{validatingConfiguration()},
		}}
		c := start(t, env)
		var reconciles atomic.Int64
		mgr := operator(t, env, &reconciles)
		create(t, c, configMap("good"))
		for hour := range 10 {
			if err := c.Create(t.Context(), configMap("bad")); !apierrors.IsForbidden(err) {
				t.Fatalf("hour %d: %v", hour, err)
			}
			waiting, err := manager.WaitIdle(t.Context(), mgr)
			if err != nil || len(waiting) != 1 {
				t.Fatalf("hour %d: %v, %v", hour, waiting, err)
			}
			time.Sleep(time.Until(waiting[0].At))
		}
		if _, err := manager.WaitIdle(t.Context(), mgr); err != nil {
			t.Fatal(err)
		}
		if lived := time.Since(began); lived < 10*time.Hour {
			t.Errorf("it has lived %s", lived)
		}
		if n := reconciles.Load(); n != 11 {
			t.Errorf("%d reconciles, want 11", n)
		}
		// A reset while the webhook is asked: the request fails, and leaves nothing.
		slow := make(chan error)
		go func() { slow <- c.Create(context.Background(), configMap("slow")) }()
		time.Sleep(time.Second)
		if err := env.Reset(); err != nil {
			t.Fatal(err)
		}
		if err := <-slow; err == nil {
			t.Error("a request before the reset has succeeded after it")
		}
		list := &corev1.ConfigMapList{}
		if err := c.List(t.Context(), list, client.InNamespace("default")); err != nil || len(list.Items) != 0 {
			t.Errorf("%d objects, error %v", len(list.Items), err)
		}
		if _, err := env.AddUser(envtest.User{Name: "ann"}, nil); err != nil {
			t.Error(err)
		}
	})
	t.Logf("ten hours took %s", time.Since(begin))
}

// The same operator with sockets and files.
func TestWebhookOverSocket(t *testing.T) {
	env := &envtest.Environment{WebhookInstallOptions: envtest.WebhookInstallOptions{
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{validatingConfiguration()},
	}}
	c := start(t, env)
	var reconciles atomic.Int64
	mgr := operator(t, env, &reconciles)
	if err := c.Create(t.Context(), configMap("bad")); !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
	create(t, c, configMap("good"))
	if _, err := manager.WaitIdle(t.Context(), mgr); err != nil || reconciles.Load() != 1 {
		t.Errorf("%d reconciles, error %v", reconciles.Load(), err)
	}
}

// A Reset costs milliseconds, however many there were before, also for the kinds that no test writes.
func TestResetsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := &envtest.Environment{InMemory: true}
		c := start(t, env)
		var reconciles atomic.Int64
		mgr := operator(t, env, &reconciles)
		if err := mgr.GetCache().List(t.Context(), &corev1.SecretList{}); err != nil {
			t.Fatal(err)
		}
		for n := range 20 {
			begun := time.Now()
			if err := env.Reset(); err != nil {
				t.Fatal(err)
			}
			if n%5 == 4 {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "quiet"}}
				create(t, c, secret)
				for mgr.GetCache().Get(t.Context(), client.ObjectKeyFromObject(secret), secret) != nil && time.Since(begun) < time.Minute {
					time.Sleep(time.Millisecond)
				}
			}
			if n%2 == 0 {
				if _, err := manager.WaitIdle(t.Context(), mgr); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begun); took > 100*time.Millisecond {
				t.Errorf("after reset %d it took %s until all was up to date", n, took)
			}
		}
	})
}

// What would keep a bubble from becoming idle is an error of Start that names the option.
func TestSocketsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expect := func(err error, options ...string) {
			t.Helper()
			for _, option := range options {
				if err == nil || !strings.Contains(err.Error(), "bubble") || !strings.Contains(err.Error(), option) {
					t.Errorf("error %v, want one that names %s", err, option)
				}
			}
		}
		_, err := (&envtest.Environment{}).Start()
		expect(err, "InMemory")
		_, err = (&envtest.Environment{InMemory: true, UseExistingCluster: new(true)}).Start()
		expect(err, "UseExistingCluster")

		env := &envtest.Environment{InMemory: true}
		start(t, env)
		mgr, err := manager.New(env.Config, manager.Options{HealthProbeBindAddress: "127.0.0.1:0", PprofBindAddress: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		expect(mgr.Start(t.Context()), "Metrics.BindAddress", "HealthProbeBindAddress", "PprofBindAddress")
		expect(webhook.NewServer(webhook.Options{SelfSigned: &webhook.SelfSigned{}}).Start(t.Context()), "ServerOptions", "Listener")
	})
}
