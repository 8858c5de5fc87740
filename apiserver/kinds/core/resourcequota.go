package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// ResourceQuotas describes the kind ResourceQuota.
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
		ValidateUpdate: func(q, old *corev1.ResourceQuota) field.ErrorList {
			if slices.Equal(slices.Sorted(slices.Values(q.Spec.Scopes)), slices.Sorted(slices.Values(old.Spec.Scopes))) {
				return nil
			}
			return fieldrules.Immutable(q.Spec.Scopes, old.Spec.Scopes, &fieldrules.Spec, "scopes")
		},
		Status: true,
		ValidateStatus: func(q, _ *corev1.ResourceQuota) field.ErrorList {
			return append(quotaAmounts(q.Status.Hard, &fieldrules.Status, "hard"),
				quotaAmounts(q.Status.Used, &fieldrules.Status, "used")...)
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Request", "string", "The quotas of requests, each as used/hard."),
			columns.Column("Limit", "string", "The quotas of limits, each as used/hard."),
		},
		Row: quotaRow,
	}
}

func validateQuota(q *corev1.ResourceQuota) field.ErrorList {
	errs := quotaAmounts(q.Spec.Hard, &fieldrules.Spec, "hard")
	known := []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating,
		corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass,
		corev1.ResourceQuotaScopeCrossNamespacePodAffinity}
	for _, s := range q.Spec.Scopes {
		if !slices.Contains(known, s) {
			errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("scopes"), q.Spec.Scopes, "unsupported scope"))
		}
	}
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(q.Spec.Scopes, pair[0]) && slices.Contains(q.Spec.Scopes, pair[1]) {
			errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("scopes"), q.Spec.Scopes, "conflicting scopes"))
		}
	}
	return errs
}

func quotaAmounts(list corev1.ResourceList, fldPath *fieldrules.Path, name string) field.ErrorList {
	var errs field.ErrorList
	at := fldPath.Child(name)
	for _, k := range fieldrules.SortedKeys(list) {
		item := at.Key(string(k))
		errs = append(errs, fieldrules.QualifiedName(string(k), &item, "")...)
		errs = append(errs, fieldrules.ResourceQuantity(k, list[k], &item)...)
	}
	return errs
}

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
