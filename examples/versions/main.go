// Command versions is an operator for Proxies, a kind that is served in three versions: v1alpha1,
// v1beta1 and v1. It converts between them, sets defaults and validates by webhooks, migrates
// objects that are stored in an older version, and writes the configuration of each Proxy to a
// ConfigMap.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a sample in
// each version, and prints what it does. With a kubeconfig it runs against that cluster. The API
// server of the cluster must reach it at --webhook-host.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/examples/internal/example"
	netv1 "flyball.dev/examples/versions/api/v1"
	"flyball.dev/examples/versions/api/v1alpha1"
	"flyball.dev/examples/versions/api/v1beta1"
	"flyball.dev/examples/versions/config"
	"flyball.dev/examples/versions/internal/controller"
	"flyball.dev/examples/versions/internal/tour"
	webhookv1 "flyball.dev/examples/versions/internal/webhook/v1"
)

func main() { newExample().Main() }

// newExample returns the example.
func newExample() *example.Example {
	pageSize := int64(500)
	return &example.Example{
		Name:        "versions",
		Does:        "It writes the configuration of each Proxy to a ConfigMap, in whatever version the Proxy is written.",
		AddToScheme: addToScheme,
		Config:      config.Files,
		Webhooks:    &webhook.Install{},
		// The one definition that is migrated need not share a cache with all others.
		Options: func(o *ctrl.Options) {
			o.Cache.ByObject = map[client.Object]cache.ByObject{&apiextensionsv1.CustomResourceDefinition{}: {
				Field: fields.OneTermEqualSelector("metadata.name", controller.ProxyDefinition),
			}}
		},
		SetUp: func(mgr ctrl.Manager) error { return setUp(mgr, pageSize) },
		Tour: func(w *example.World) []example.Step {
			pageSize = tour.PageSize
			return tour.Steps(w)
		},
		Invitation: `
kubectl get proxies,configmaps
kubectl get proxies.v1alpha1.net.example.com
kubectl get proxies.v1alpha1.net.example.com stable -o yaml
kubectl get proxy alpha -o yaml
kubectl patch proxies.v1alpha1.net.example.com stable --type merge -p '{"spec":{"connections":0}}'
kubectl patch proxies.v1beta1.net.example.com beta --type merge -p '{"spec":{"host":"other.example.com"}}'
kubectl get crd proxies.net.example.com -o jsonpath='{.status.storedVersions}'`,
	}
}

// addToScheme adds all versions of Proxies, and CustomResourceDefinitions.
func addToScheme(s *runtime.Scheme) error {
	builder := runtime.NewSchemeBuilder(apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, v1beta1.AddToScheme, netv1.AddToScheme)
	return builder.AddToScheme(s)
}

// setUp adds the webhooks and the controllers to a manager.
func setUp(mgr ctrl.Manager, pageSize int64) error {
	if err := webhookv1.SetupProxyWebhookWithManager(mgr); err != nil {
		return err
	}
	return setUpControllers(mgr, pageSize)
}

// setUpControllers adds the controllers to a manager.
func setUpControllers(mgr ctrl.Manager, pageSize int64) error {
	if err := (&controller.StorageVersionReconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Recorder:  mgr.GetEventRecorder("versions"),
		PageSize:  pageSize,
	}).SetupWithManager(mgr); err != nil {
		return err
	}
	return (&controller.ProxyReconciler{
		Client:   mgr.GetClient(),
		Scheme:   mgr.GetScheme(),
		Recorder: mgr.GetEventRecorder("versions"),
	}).SetupWithManager(mgr)
}
