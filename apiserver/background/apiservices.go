package background

import (
	"context"
	stderrors "errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/registry/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/metrics/pkg/apis/metrics"

	"flyball.dev/apiserver/kinds/apiregistration"
	"flyball.dev/apiserver/store"
)

var apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

// keepRegistrations registers the served group versions, and keeps their APIServices up to date until the server stops.
//
//upstream:none kube-aggregator has a queue, and copies the definitions to it.
func (c *Controllers) keepRegistrations() error {
	changed, err := c.loops.changes([]string{store.Path(apiServices.GroupResource())})
	if err != nil {
		return err
	}
	if r := &c.registrations; !r.fork {
		all, err := r.list(context.Background())
		if err != nil {
			return err
		}
		for _, a := range all {
			r.atStart.Insert(a.Name)
		}
	}
	snapshot := c.config.Catalog.Snapshot()
	c.loops.work.Go(func() {
		for {
			select {
			case <-c.loops.stopping.Done():
				return
			case <-snapshot.Replaced():
				snapshot = c.config.Catalog.Snapshot()
				notify(changed)
			}
		}
	})
	c.loops.keep("APIServices", changed, c.registrations.reconcile)
	return nil
}

// registrations manages the APIServices of the group versions that the server serves itself, like kube-aggregator's
// autoregister controller. It registers built-in groups once after a start, and custom resources continuously. The
// label kube-aggregator.kubernetes.io/automanaged distinguishes the two; an APIService without the label is left alone.
// Only one goroutine may call the methods at a time.
type registrations struct {
	objects *objects
	atStart sets.Set[string] // the APIServices that there were when the server started; forks share it
	synced  sets.Set[string] // the APIServices that were reconciled since
	// fork is whether the server is a fork. The other one has registered the built-in groups, and users may have changed
	// the registrations.
	fork bool
}

// reconcile registers the served group versions, and removes the APIServices of group versions that are no longer
// served.
//
//upstream:pkg/controlplane/apiserver.apiServicesToRegister
func (r *registrations) reconcile() error {
	all, err := r.list(context.Background())
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
	for _, g := range r.objects.catalog.Snapshot().Versions() {
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
		_, err := r.objects.seed(apiServices, desired)
		return err
	case !onStart(current) && current.Labels[apiregistration.ManagedLabel] != apiregistration.Managed:
		return nil
	case onStart(current) && (!r.atStart.Has(current.Name) || r.synced.Has(current.Name)):
		return nil
	case desired == nil:
		err := r.objects.remove(apiServices, "", current.Name, metav1.NewUIDPreconditions(string(current.UID)))
		return ignoreChanged(err)
	case apiequality.Semantic.DeepEqual(current.Spec, desired.Spec):
		return nil
	case desired.Spec.Group == metrics.GroupName && current.Spec.Service != nil:
		return nil // metrics-server has taken the place of the group, which is not built in on a cluster
	}
	return ignoreChanged(r.objects.replace(apiServices, "", current.Name, func(obj runtime.Object) {
		if is := obj.(*apiregistrationv1.APIService); is.ResourceVersion == current.ResourceVersion {
			is.Spec = desired.Spec
		}
	}))
}

func (r *registrations) list(ctx context.Context) ([]apiregistrationv1.APIService, error) {
	list, err := r.objects.registry(apiServices).(rest.Lister).List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.(*apiregistrationv1.APIServiceList).Items, nil
}
