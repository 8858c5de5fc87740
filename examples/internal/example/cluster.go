package example

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/internal/kubeconfig"
)

// runOnCluster runs the operator against the cluster of a kubeconfig. It changes nothing else
// there, except for webhooks, which it installs.
func (e *Example) runOnCluster(ctx context.Context, f flags) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	cfg, err := loaded.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return fmt.Errorf("cannot use the kubeconfig: there is none in %s", strings.Join(rules.GetLoadingPrecedence(), " or "))
	}
	if err != nil {
		return fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	content, err := loaded.RawConfig()
	if err != nil {
		return fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	if err := e.check(cfg, content); err != nil {
		return err
	}
	mgr, err := e.newManager(cfg, f, func(o *ctrl.Options) {
		o.LeaderElectionNamespace = namespace
		if e.Webhooks != nil {
			o.WebhookServer = webhook.NewServer(webhook.Options{
				Host: f.webhookHost, Port: f.webhookPort, Install: e.installWebhooks(),
			})
		}
	})
	if err != nil {
		return err
	}
	return start(ctx, mgr).Wait()
}

// check returns an error if a cluster cannot be reached or does not serve the kinds of the example. content is the
// kubeconfig of the cluster.
func (e *Example) check(cfg *rest.Config, content clientcmdapi.Config) error {
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err == nil {
		_, err = d.ServerVersion()
	}
	if err != nil {
		return kubeconfig.Unreachable(content, "", cfg, err)
	}
	definitions, err := manifests[apiextensionsv1.CustomResourceDefinition](e.Config, "crd/bases")
	if err != nil {
		return err
	}
	for _, crd := range definitions {
		for _, version := range crd.Spec.Versions {
			groupVersion := crd.Spec.Group + "/" + version.Name
			served, err := d.ServerResourcesForGroupVersion(groupVersion)
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			if err != nil || !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool {
				return r.Name == crd.Spec.Names.Plural
			}) {
				return fmt.Errorf("the cluster at %s has no %s in %s: apply examples/%s/config/crd/bases first",
					cfg.Host, crd.Spec.Names.Plural, groupVersion, e.Name)
			}
		}
	}
	return nil
}
