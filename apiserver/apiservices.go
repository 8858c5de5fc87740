package apiserver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"flyball.dev/apiserver/aggregator"
	"flyball.dev/apiserver/kinds/apiregistration"
	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/webhook"
)

var apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

// registerAPIServices registers the group versions that are served, and keeps their APIServices up
// to date until the server stops.
func (s *Server) registerAPIServices() error {
	snapshot := s.catalog.Snapshot()
	if err := s.reconcileAPIServices(snapshot); err != nil {
		return err
	}
	s.work.Go(func() {
		for {
			select {
			case <-s.stopping.Done():
				return
			case <-snapshot.Replaced():
			}
			snapshot = s.catalog.Snapshot()
			if err := s.reconcileAPIServices(snapshot); err != nil && s.stopping.Err() == nil {
				klog.ErrorS(err, "The APIServices could not be reconciled")
			}
		}
	})
	return nil
}

// reconcileAPIServices creates a local APIService for every served group version that has none, and
// deletes those of custom resources that are not served any more.
func (s *Server) reconcileAPIServices(snapshot *resource.Snapshot) error {
	served := map[string]bool{}
	for _, g := range snapshot.Groups {
		for _, v := range g.Versions {
			local, ok := apiregistration.Local(v.GroupVersion)
			if !ok || v.Resources[0].Remote {
				continue
			}
			served[local.Name] = true
			if _, err := s.seed(apiServices, local); err != nil {
				return fmt.Errorf("APIService %s: %w", local.Name, err)
			}
		}
	}
	managed := labels.SelectorFromSet(labels.Set{apiregistration.ManagedLabel: apiregistration.Managed})
	all, err := s.listAPIServices(context.Background(), managed)
	if err != nil {
		return err
	}
	for _, old := range all {
		if served[old.Name] {
			continue
		}
		if err := s.remove(apiServices, "", old.Name); err != nil && !errors.IsNotFound(err) {
			return fmt.Errorf("APIService %s: %w", old.Name, err)
		}
	}
	return nil
}

func (s *Server) listAPIServices(ctx context.Context, selector labels.Selector) ([]apiregistrationv1.APIService, error) {
	list, err := s.objects.Storage(apiServices).(rest.Lister).List(ctx, &metainternalversion.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.(*apiregistrationv1.APIServiceList).Items, nil
}

// Aggregation configures how the server identifies itself to extension API servers, and how these
// authenticate users. All fields are in PEM.
type Aggregation struct {
	// ClientCA signs the client certificates of users.
	ClientCA []byte
	// Certificate is the client certificate of the server, with the common name [ProxyClient], Key its
	// key, and CA what signs it. Nothing else may be signed by that for that name.
	CA, Certificate, Key []byte
}

// ProxyClient is the common name of the server's client certificate.
const ProxyClient = "front-proxy-client"

// newAggregator returns the aggregator of the server.
func (s *Server) newAggregator(services webhook.Services) *aggregator.Aggregator {
	return aggregator.New(aggregator.Config{
		Catalog: s.catalog, Services: services, Dial: s.webhooks.DialContext, Store: s.options.Storage,
		Certificate: s.options.Aggregation.Certificate, Key: s.options.Aggregation.Key,
		List: func(ctx context.Context) ([]apiregistrationv1.APIService, error) {
			return s.listAPIServices(ctx, labels.Everything())
		},
		UpdateStatus: func(ctx context.Context, name string, change func(*apiregistrationv1.APIService)) error {
			return s.replaceStatus(ctx, apiServices, name, func(obj runtime.Object) { change(obj.(*apiregistrationv1.APIService)) })
		},
	})
}

// publishAuthentication creates or updates the ConfigMap from which extension API servers learn how to
// authenticate users.
func (s *Server) publishAuthentication() error {
	data := map[string]string{}
	if ca := s.options.Aggregation.ClientCA; len(ca) > 0 {
		data["client-ca-file"] = string(ca)
	}
	if ca := s.options.Aggregation.CA; len(ca) > 0 {
		data["requestheader-client-ca-file"] = string(ca)
		data["requestheader-allowed-names"] = `["` + ProxyClient + `"]`
		data["requestheader-extra-headers-prefix"] = `["X-Remote-Extra-"]`
		data["requestheader-group-headers"] = `["X-Remote-Group"]`
		data["requestheader-username-headers"] = `["X-Remote-User"]`
	}
	if len(data) == 0 {
		return nil
	}
	const name = "extension-apiserver-authentication"
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	created, err := s.seed(configMaps, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}, Data: data})
	if created || err != nil {
		return err
	}
	return s.replace(configMaps, metav1.NamespaceSystem, name, func(obj runtime.Object) { obj.(*corev1.ConfigMap).Data = data })
}
