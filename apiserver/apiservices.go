package apiserver

import (
	"context"
	stderrors "errors"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/registry/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/metrics/pkg/apis/metrics"

	"flyball.dev/apiserver/aggregator"
	"flyball.dev/apiserver/kinds/apiregistration"
	"flyball.dev/apiserver/store"
	"flyball.dev/apiserver/webhook"
)

var apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

// registerAPIServices registers the served group versions, and keeps their APIServices up to date until the server
// stops.
func (s *Server) registerAPIServices() error {
	changed, err := s.changes([]string{store.Path(apiServices.GroupResource())})
	if err != nil {
		return err
	}
	s.registrations = registrations{server: s, synced: sets.New[string](), fork: s.options.ForkOf != nil}
	if s.options.ForkOf == nil {
		all, err := s.listAPIServices(context.Background())
		if err != nil {
			return err
		}
		s.registrations.atStart = sets.New[string]()
		for _, a := range all {
			s.registrations.atStart.Insert(a.Name)
		}
	} else {
		s.registrations.atStart = s.options.ForkOf.registrations.atStart
	}
	snapshot := s.catalog.Snapshot()
	s.work.Go(func() {
		for {
			select {
			case <-s.stopping.Done():
				return
			case <-snapshot.Replaced():
				snapshot = s.catalog.Snapshot()
				notify(changed)
			}
		}
	})
	s.keep("APIServices", changed, s.registrations.reconcile)
	return nil
}

// registrations manages the APIServices of the group versions that the server serves itself, like kube-aggregator's
// autoregister controller. It registers built-in groups once after a start, and custom resources continuously. The
// label kube-aggregator.kubernetes.io/automanaged distinguishes the two; an APIService without the label is left alone.
// Only one goroutine may call the methods at a time.
type registrations struct {
	server  *Server
	atStart sets.Set[string] // the APIServices that there were when the server started; forks share it
	synced  sets.Set[string] // the APIServices that were reconciled since
	// fork is whether the server is a fork. The other one has registered the built-in groups, and users may have changed
	// the registrations.
	fork bool
}

// reconcile registers the served group versions, and removes the APIServices of group versions that are no longer
// served.
func (r *registrations) reconcile() error {
	all, err := r.server.listAPIServices(context.Background())
	if err != nil {
		return err
	}
	current := map[string]*apiregistrationv1.APIService{}
	for i := range all {
		current[all[i].Name] = &all[i]
	}
	check := func(name string, desired *apiregistrationv1.APIService) {
		if failed := r.check(desired, current[name]); failed != nil {
			err = stderrors.Join(err, fmt.Errorf("%s: %w", name, failed))
			return
		}
		r.synced.Insert(name)
	}
	served := sets.New[string]()
	for _, g := range r.server.catalog.Snapshot().Versions() {
		for _, v := range g.Versions {
			if local, ok := apiregistration.Local(v.GroupVersion); ok && !v.Remote() {
				served.Insert(local.Name)
				if r.fork && local.Labels[apiregistration.ManagedLabel] == apiregistration.ManagedOnStart {
					r.synced.Insert(local.Name)
				}
				check(local.Name, local)
			}
		}
	}
	for i := range all {
		if !served.Has(all[i].Name) {
			check(all[i].Name, nil)
		}
	}
	return err
}

// check creates, corrects or deletes one APIService. desired or current is nil if it does not exist.
//
//upstream:k8s.io/kube-aggregator/pkg/controllers/autoregister.autoRegisterController.checkAPIService
func (r *registrations) check(desired, current *apiregistrationv1.APIService) error {
	onStart := func(a *apiregistrationv1.APIService) bool {
		return a != nil && a.Labels[apiregistration.ManagedLabel] == apiregistration.ManagedOnStart
	}
	switch {
	case onStart(desired) && r.synced.Has(desired.Name):
		return nil
	case current == nil:
		_, err := r.server.seed(apiServices, desired)
		return err
	case !onStart(current) && current.Labels[apiregistration.ManagedLabel] != apiregistration.Managed:
		return nil
	case onStart(current) && (!r.atStart.Has(current.Name) || r.synced.Has(current.Name)):
		return nil
	case desired == nil:
		err := r.server.remove(apiServices, "", current.Name, metav1.NewUIDPreconditions(string(current.UID)))
		return ignoreChanged(err)
	case apiequality.Semantic.DeepEqual(current.Spec, desired.Spec):
		return nil
	case desired.Spec.Group == metrics.GroupName && current.Spec.Service != nil:
		return nil // metrics-server has taken the place of the group, which is not built in on a cluster
	}
	return ignoreChanged(r.server.replace(apiServices, "", current.Name, func(obj runtime.Object) {
		if is := obj.(*apiregistrationv1.APIService); is.ResourceVersion == current.ResourceVersion {
			is.Spec = desired.Spec
		}
	}))
}

// ignoreChanged returns nil if err says that the object was changed or deleted concurrently: the change triggers
// another reconciliation.
func ignoreChanged(err error) error {
	if errors.IsNotFound(err) || errors.IsConflict(err) {
		return nil
	}
	return err
}

func (s *Server) listAPIServices(ctx context.Context) ([]apiregistrationv1.APIService, error) {
	list, err := s.objects.Storage(apiServices).(rest.Lister).List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.(*apiregistrationv1.APIServiceList).Items, nil
}

// Aggregation configures how the server authenticates to extension API servers, and how these authenticate users. All
// fields are PEM-encoded.
type Aggregation struct {
	// ClientCA signs the client certificates of users.
	ClientCA []byte
	// Certificate is the client certificate of the server, with the common name [ProxyClient]. Key is its private key,
	// and CA the certificate of its issuer. The issuer must not sign any other certificate with that common name.
	CA, Certificate, Key []byte
}

// ProxyClient is the common name of the server's client certificate.
const ProxyClient = "front-proxy-client"

// newAggregator returns the aggregator of the server.
func (s *Server) newAggregator(services webhook.Services) *aggregator.Aggregator {
	delay := time.Duration(0)
	if of := s.options.ForkOf; of != nil && !of.aggregator.Remotes() {
		delay = forkDelay
	}
	return aggregator.New(aggregator.Config{
		Delay:   delay,
		Catalog: s.catalog, Services: services, Dial: s.webhooks.DialContext, Store: s.options.Storage,
		Certificate: s.options.Aggregation.Certificate, Key: s.options.Aggregation.Key,
		List: s.listAPIServices,
		UpdateStatus: func(ctx context.Context, name string, change func(*apiregistrationv1.APIService)) (err error) {
			s.exclusive(func() {
				err = s.replaceStatus(ctx, apiServices, name, func(obj runtime.Object) { change(obj.(*apiregistrationv1.APIService)) })
			})
			return err
		},
	})
}
