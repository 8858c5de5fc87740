// Package quota measures the usage of resource quotas by objects. The admission plugin charges new objects, and the
// resourcequota controller recounts existing objects.
package quota

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// List returns the objects of a resource in a namespace.
type List func(resource schema.GroupResource, namespace string) ([]runtime.Object, error)

// aliases are the older names of counts, for names of the form count/RESOURCE.
//
//upstream:pkg/quota/v1/evaluator/core.legacyObjectCountAliases
var aliases = map[schema.GroupResource]corev1.ResourceName{
	corev1.Resource("configmaps"):             corev1.ResourceConfigMaps,
	corev1.Resource("resourcequotas"):         corev1.ResourceQuotas,
	corev1.Resource("replicationcontrollers"): corev1.ResourceReplicationControllers,
	corev1.Resource("secrets"):                corev1.ResourceSecrets,
}

// Ignored reports whether quotas ignore a resource: events, and resources without stored objects.
//
//upstream:pkg/quota/v1/install.DefaultIgnoredResources
func Ignored(r schema.GroupResource) bool {
	switch r.Group {
	case "", "events.k8s.io":
		return r.Resource == "events" || r.Resource == "bindings"
	case "authentication.k8s.io", "authorization.k8s.io":
		return true
	}
	return false
}

// Evaluator returns the evaluator of a resource. With a nil list, the evaluator measures single objects only.
func Evaluator(r schema.GroupResource, list List) upstream.Evaluator {
	in := func(namespace string) ([]runtime.Object, error) { return list(r, namespace) }
	switch r {
	case corev1.Resource("pods"):
		return pods{evaluator{resource: r, list: in, scope: podInScope, usage: podUsage, names: podResources}}
	case corev1.Resource("services"):
		return evaluator{resource: r, list: in, scope: generic.MatchesNoScopeFunc, usage: serviceUsage, names: serviceResources, updates: true}
	case corev1.Resource("persistentvolumeclaims"):
		return claims{evaluator{resource: r, list: in, scope: claimInScope, usage: claimUsage, names: claimResources, updates: true}}
	case resourcev1.Resource("resourceclaims"):
		return evaluator{resource: r, list: in, scope: generic.MatchesNoScopeFunc, usage: deviceUsage, names: deviceResources, updates: true}
	}
	return generic.NewObjectCountEvaluator(r, in, aliases[r])
}

// Evaluators returns the evaluators for the names in a quota.
//
//upstream:pkg/quota/v1/evaluator/core.NewEvaluators
func Evaluators(names []corev1.ResourceName, list List) []upstream.Evaluator {
	resources := map[schema.GroupResource]bool{
		corev1.Resource("pods"): true, corev1.Resource("services"): true, corev1.Resource("persistentvolumeclaims"): true,
	}
	for r, alias := range aliases {
		resources[r] = upstream.Contains(names, alias)
	}
	for _, name := range names {
		if r, ok := counted(name); ok {
			resources[r] = true
		}
		if deviceResources(name) {
			resources[resourcev1.Resource("resourceclaims")] = true
		}
	}
	var evaluators []upstream.Evaluator
	for r, needed := range resources {
		if needed {
			evaluators = append(evaluators, Evaluator(r, list))
		}
	}
	return evaluators
}

// evaluator measures the objects of one resource.
type evaluator struct {
	resource schema.GroupResource
	list     generic.ListFuncByNamespace
	scope    generic.MatchesScopeFunc
	usage    generic.UsageFunc
	names    func(corev1.ResourceName) bool
	updates  bool // updates can change the usage
}

var _ upstream.Evaluator = evaluator{}

func (e evaluator) Constraints([]corev1.ResourceName, runtime.Object) error { return nil }

func (e evaluator) GroupResource() schema.GroupResource { return e.resource }

func (e evaluator) Handles(a admission.Attributes) bool {
	return a.GetSubresource() == "" && (a.GetOperation() == admission.Create || e.updates && a.GetOperation() == admission.Update)
}

//upstream:k8s.io/apiserver/pkg/quota/v1/generic.Matches
func (e evaluator) Matches(q *corev1.ResourceQuota, obj runtime.Object) (bool, error) {
	return generic.Matches(q, obj, e.MatchingResources, e.scope)
}

func (e evaluator) MatchingResources(names []corev1.ResourceName) []corev1.ResourceName {
	var matching []corev1.ResourceName
	for _, name := range names {
		if e.names(name) {
			matching = append(matching, name)
		}
	}
	return matching
}

//upstream:k8s.io/apiserver/pkg/quota/v1/generic.getScopeSelectorsFromQuota
func (e evaluator) MatchingScopes(obj runtime.Object, scopes []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	var matching []corev1.ScopedResourceSelectorRequirement
	for _, s := range scopes {
		switch ok, err := e.scope(s, obj); {
		case err != nil:
			return nil, err
		case ok:
			matching = append(matching, s)
		}
	}
	return matching, nil
}

// UncoveredQuotaScopes returns nil. It serves the limits in an admission configuration, which is not supported.
func (e evaluator) UncoveredQuotaScopes(_, _ []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	return nil, nil
}

func (e evaluator) Usage(obj runtime.Object) (corev1.ResourceList, error) { return e.usage(obj) }

//upstream:k8s.io/apiserver/pkg/quota/v1/generic.CalculateUsageStats
func (e evaluator) UsageStats(o upstream.UsageStatsOptions) (upstream.UsageStats, error) {
	return generic.CalculateUsageStats(o, e.list, e.scope, e.usage)
}

// count returns a number as a quantity.
//
//upstream:k8s.io/apiserver/pkg/quota/v1/generic.objectCountEvaluator
func count(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }
