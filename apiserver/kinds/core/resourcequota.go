package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// ResourceQuotas describes the kind ResourceQuota.
//
//upstream:pkg/registry/core/resourcequota.resourcequotaStrategy
//upstream:pkg/registry/core/resourcequota.resourcequotaStatusStrategy
//upstream:pkg/registry/core/resourcequota/storage.REST.ShortNames
//upstream:pkg/apis/core/validation.ValidateResourceQuotaUpdate
//upstream:pkg/apis/core/validation.ValidateResourceQuotaStatusUpdate
//upstream:pkg/apis/core/v1.SetDefaults_ResourceList
//upstream:pkg/printers/internalversion.AddHandlers
func ResourceQuotas() kinds.Kind {
	return kinds.Of[*corev1.ResourceQuota]{
		Type: &corev1.ResourceQuota{}, List: &corev1.ResourceQuotaList{},
		Plural: "resourcequotas", ShortNames: []string{"quota"},
		ReturnsDeleted: true,
		Name:           fieldrules.NameIsSubdomain,
		Default: func(q *corev1.ResourceQuota) {
			podspec.RoundUp(q.Spec.Hard)
			podspec.RoundUp(q.Status.Hard)
			podspec.RoundUp(q.Status.Used)
		},
		Validate: validateQuota,
		Warnings: quotaWarnings,
		ValidateUpdate: func(q, old *corev1.ResourceQuota) (errs field.ErrorList) {
			if !slices.Equal(scopeSet(q.Spec.Scopes), scopeSet(old.Spec.Scopes)) {
				check.Object(&errs).Child("spec").Child("scopes").Invalid(q.Spec.Scopes, apivalidation.FieldImmutableErrorMsg)
			}
			return errs
		},
		Status: true,
		ValidateStatus: func(q, _ *corev1.ResourceQuota) (errs field.ErrorList) {
			status := check.Object(&errs).Child("status")
			quotaAmounts(status.Child("hard"), q.Status.Hard)
			quotaAmounts(status.Child("used"), q.Status.Used)
			return errs
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Request", "string", "The quotas of requests, each as used/hard."),
			columns.Column("Limit", "string", "The quotas of limits, each as used/hard."),
		},
		Row: quotaRow,
	}
}

// scopeSet returns scopes in order, each once.
func scopeSet(scopes []corev1.ResourceQuotaScope) []corev1.ResourceQuotaScope {
	return slices.Compact(slices.Sorted(slices.Values(scopes)))
}

// quotaWarnings returns the warnings for a new quota that allows fewer limits than requests.
//
//upstream:pkg/registry/core/resourcequota.resourcequotaStrategy.WarningsOnCreate
func quotaWarnings(q, old *corev1.ResourceQuota) []string {
	if old != nil {
		return nil
	}
	var warnings []string
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage,
		corev1.ResourceEphemeralStorage} {
		asked := "requests." + name
		request, requested := q.Spec.Hard[asked]
		if !requested && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			asked = name
			request, requested = q.Spec.Hard[asked]
		}
		limit, limited := q.Spec.Hard["limits."+name]
		if requested && limited && request.Cmp(limit) > 0 {
			warnings = append(warnings, fmt.Sprintf("ResourceQuota %s (%s) should be less than limits.%s (%s)",
				asked, request.String(), name, limit.String()))
		}
	}
	return warnings
}

// validateQuota checks the amounts and the scopes of a quota.
//
//upstream:pkg/apis/core/validation.ValidateResourceQuotaSpec
//upstream:pkg/apis/core/validation.validateScopeSelector
func validateQuota(q *corev1.ResourceQuota) (errs field.ErrorList) {
	spec := check.Object(&errs).Child("spec")
	quotaAmounts(spec.Child("hard"), q.Spec.Hard)
	quotaScopes(spec.Child("scopes"), q, q.Spec.Scopes, q.Spec.Scopes, func(corev1.ResourceQuotaScope) {
		spec.Child("scopes").Invalid(q.Spec.Scopes, unsupportedScope)
	})
	if q.Spec.ScopeSelector == nil {
		return errs
	}
	at := spec.Child("scopeSelector").Child("matchExpressions")
	var scopes []corev1.ResourceQuotaScope
	for _, r := range q.Spec.ScopeSelector.MatchExpressions {
		scopes = append(scopes, r.ScopeName)
		quotaScopeRequirement(at, &r)
	}
	quotaScopes(at, q, scopes, fieldrules.Internal(q.Spec.ScopeSelector), func(s corev1.ResourceQuotaScope) {
		at.Child("scopeName").Invalid(s, unsupportedScope)
	})
	return errs
}

const unsupportedScope = "unsupported scope"

// quotaScopes checks that each scope is known and applies to the resources of the quota, and that no
// scopes conflict. The argument value is the value of the field with the scopes, and unknown reports an unknown scope.
//
//upstream:pkg/apis/core/validation.validateResourceQuotaScopes
//upstream:pkg/apis/core/validation.validateScopedResourceSelectorRequirement
func quotaScopes(at check.Field, q *corev1.ResourceQuota, scopes []corev1.ResourceQuotaScope, value any,
	unknown func(corev1.ResourceQuotaScope)) {
	for _, s := range scopes {
		applies, known := quotaScopeResources[s]
		if !known {
			unknown(s)
			continue
		}
		for _, k := range fieldrules.SortedKeys(q.Spec.Hard) {
			if standardQuotaResource(k) && !slices.Contains(applies, k) {
				at.Invalid(value, "unsupported scope applied to resource")
			}
		}
	}
	for _, pair := range [...][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			at.Invalid(q.Spec.Scopes, "conflicting scopes")
		}
	}
}

// quotaScopeRequirement checks the operator and the values of a requirement of a scope selector.
//
//upstream:pkg/apis/core/validation.validateScopedResourceSelectorRequirement
func quotaScopeRequirement(at check.Field, r *corev1.ScopedResourceSelectorRequirement) {
	switch r.ScopeName {
	case corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeVolumeAttributesClass:
	default:
		if _, known := quotaScopeResources[r.ScopeName]; known && r.Operator != corev1.ScopeSelectorOpExists {
			at.Child("operator").Invalid(r.Operator, "must be 'Exists' when scope is any of "+
				"ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "+
				"ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity")
		}
	}
	switch r.Operator {
	case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
		if len(r.Values) == 0 {
			at.Child("values").Required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
		}
	case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
		if len(r.Values) != 0 {
			at.Child("values").Invalid(r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
		}
	default:
		at.Child("operator").Invalid(r.Operator, "not a valid selector operator")
	}
}

var (
	// podQuotaResources are the standard resources of pods.
	//
	//upstream:pkg/apis/core/helper.podObjectCountQuotaResources
	//upstream:pkg/apis/core/helper.podComputeQuotaResources
	podQuotaResources = []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory}

	// quotaScopeResources are the scopes, each with the standard resources to which it applies.
	//
	//upstream:pkg/apis/core/helper.IsStandardResourceQuotaScope
	//upstream:pkg/apis/core/helper.IsResourceQuotaScopeValidForResource
	quotaScopeResources = map[corev1.ResourceQuotaScope][]corev1.ResourceName{
		corev1.ResourceQuotaScopeTerminating:               podQuotaResources,
		corev1.ResourceQuotaScopeNotTerminating:            podQuotaResources,
		corev1.ResourceQuotaScopeNotBestEffort:             podQuotaResources,
		corev1.ResourceQuotaScopePriorityClass:             podQuotaResources,
		corev1.ResourceQuotaScopeCrossNamespacePodAffinity: podQuotaResources,
		corev1.ResourceQuotaScopeBestEffort:                {corev1.ResourcePods},
		corev1.ResourceQuotaScopeVolumeAttributesClass: {corev1.ResourcePersistentVolumeClaims,
			corev1.ResourceRequestsStorage},
	}

	// otherQuotaResources are the standard resources of quotas that podQuotaResources does not have.
	//
	//upstream:pkg/apis/core/helper.standardQuotaResources
	otherQuotaResources = []corev1.ResourceName{corev1.ResourceEphemeralStorage, corev1.ResourceRequestsStorage,
		corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage, corev1.ResourceQuotas,
		corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourcePersistentVolumeClaims, corev1.ResourceConfigMaps, corev1.ResourceServicesNodePorts,
		corev1.ResourceServicesLoadBalancers}
)

// standardQuotaResource reports whether a quota can limit a resource by an unqualified name.
//
//upstream:pkg/apis/core/helper.IsStandardQuotaResourceName
//upstream:pkg/apis/core/helper.IsQuotaHugePageResourceName
func standardQuotaResource(k corev1.ResourceName) bool {
	return slices.Contains(podQuotaResources, k) || slices.Contains(otherQuotaResources, k) ||
		strings.HasPrefix(string(k), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(k), corev1.ResourceRequestsHugePagesPrefix)
}

// quotaAmounts checks the names and the amounts of the resources in a quota.
//
//upstream:pkg/apis/core/validation.ValidateResourceQuotaResourceName
//upstream:pkg/apis/core/validation.ValidateResourceQuotaStatus
//upstream:pkg/apis/core/validation.ValidateResourceQuantityValue
func quotaAmounts(at check.Field, list corev1.ResourceList) {
	for _, k := range fieldrules.SortedKeys(list) {
		item := at.Key(string(k))
		check.ResourceName(item, k)
		if !strings.Contains(string(k), "/") && !standardQuotaResource(k) {
			item.Invalid(k, "must be a standard resource for quota")
		}
		check.ResourceQuantity(item, k, list[k])
	}
}

// quotaRow returns the cells of a quota in a table.
//
//upstream:pkg/printers/internalversion.printResourceQuota
func quotaRow(q *corev1.ResourceQuota) []any {
	var requests, limits []string
	for _, k := range fieldrules.SortedKeys(q.Status.Hard) {
		used, hard := q.Status.Used[k], q.Status.Hard[k]
		cell := fmt.Sprintf("%s: %s/%s", k, used.String(), hard.String())
		if strings.HasPrefix(string(k), "limits") {
			limits = append(limits, cell)
		} else {
			requests = append(requests, cell)
		}
	}
	return []any{strings.Join(requests, ", "), strings.Join(limits, ", ")}
}
