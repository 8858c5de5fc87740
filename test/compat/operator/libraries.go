package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/test/compat/operator/api"
	"sigs.k8s.io/controller-runtime/pkg/cache/cacheapi"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	certmetrics "sigs.k8s.io/controller-runtime/pkg/certwatcher/metrics"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/envtest/komega"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection/fake"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	admissionmetrics "sigs.k8s.io/controller-runtime/pkg/webhook/admission/metrics"
	conversionmetrics "sigs.k8s.io/controller-runtime/pkg/webhook/conversion/metrics"
)

// libraries uses the packages that a running operator does not need.
func (s *scenario) libraries(ctx context.Context) error {
	broken := interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("intercepted")
		},
	})
	fmt.Println("get:", broken.Get(ctx, client.ObjectKey{Name: "x"}, &corev1.Node{}))
	fmt.Println("queue:", firstOfQueue())

	fakes := &informertest.FakeInformers{Scheme: s.mgr.GetScheme()}
	informer, err := fakes.FakeInformerFor(ctx, &api.Widget{})
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		fmt.Println("added:", obj.(cacheapi.Object).GetName())
	}}); err != nil {
		return err
	}
	informer.Add(&api.Widget{ObjectMeta: metav1.ObjectMeta{Name: "fake"}})
	fmt.Println("synced:", controllertest.NewFakeInformer(controllertest.Synced).HasSynced())

	lock, err := fake.NewResourceLock(s.mgr.GetConfig(), s.mgr, leaderelection.Options{})
	if err != nil {
		return err
	}
	fmt.Println("fake lock:", lock.Describe() != "")

	other, err := cluster.New(s.mgr.GetConfig())
	if err != nil {
		return err
	}
	var namespace corev1.Namespace
	if err := other.GetAPIReader().Get(ctx, client.ObjectKey{Name: "default"}, &namespace); err != nil {
		return err
	}
	fmt.Println("namespace:", namespace.Name)
	if err := s.testTools(ctx); err != nil {
		return err
	}
	return printMetrics()
}

// testTools uses the packages for tests.
func (s *scenario) testTools(ctx context.Context) error {
	existing := true
	env := &envtest.Environment{UseExistingCluster: &existing, Config: s.mgr.GetConfig()}
	if _, err := env.Start(); err != nil {
		return err
	}
	if err := env.Stop(); err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	memory := clientfake.NewClientBuilder().WithObjects(node).Build()
	if err := komega.New(memory).WithContext(ctx).Update(node, func() { node.Spec.Unschedulable = true })(); err != nil {
		return err
	}
	fmt.Println("fake node:", node.ResourceVersion)
	return nil
}

// printMetrics prints the names of controller-runtime's metrics that have values.
func printMetrics() error {
	for _, vector := range []prometheus.Collector{
		certmetrics.ReadCertificateTotal, certmetrics.ReadCertificateErrors, admissionmetrics.WebhookPanics, conversionmetrics.WebhookPanics,
	} {
		var registered prometheus.AlreadyRegisteredError
		fmt.Println("registered:", errors.As(metrics.Registry.Register(vector), &registered))
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		return err
	}
	var names []string
	for _, f := range families {
		if f.GetName() == "controller_runtime_reconcile_conflicts_total" {
			continue // Flyball's own
		}
		if name := f.GetName(); strings.HasPrefix(name, "controller_runtime_") || strings.HasPrefix(name, "certwatcher_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	fmt.Println(strings.Join(names, "\n"))
	return nil
}
