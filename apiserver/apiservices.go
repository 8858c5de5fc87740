package apiserver

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"flyball.dev/apiserver/kinds/apiregistration"
	"flyball.dev/apiserver/resource"
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
			if !ok {
				continue
			}
			served[local.Name] = true
			if _, err := s.seed(apiServices, local); err != nil {
				return fmt.Errorf("APIService %s: %w", local.Name, err)
			}
		}
	}
	managed := labels.SelectorFromSet(labels.Set{apiregistration.ManagedLabel: apiregistration.Managed})
	list, err := s.objects.Storage(apiServices).(rest.Lister).List(context.Background(), &metainternalversion.ListOptions{LabelSelector: managed})
	if err != nil {
		return err
	}
	for _, old := range list.(*apiregistrationv1.APIServiceList).Items {
		if served[old.Name] {
			continue
		}
		if err := s.remove(apiServices, "", old.Name); err != nil && !errors.IsNotFound(err) {
			return fmt.Errorf("APIService %s: %w", old.Name, err)
		}
	}
	return nil
}
