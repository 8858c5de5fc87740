package kinds

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func resourceQuotas() Kind {
	return Of[*corev1.ResourceQuota]{
		Type: &corev1.ResourceQuota{}, List: &corev1.ResourceQuotaList{},
		Plural: "resourcequotas", ShortNames: []string{"quota"},
		Unenforced: "nothing is counted or refused",
		Name:       subdomain,
		Default: func(q *corev1.ResourceQuota) {
			roundUp(q.Spec.Hard)
			roundUp(q.Status.Hard)
			roundUp(q.Status.Used)
		},
		Validate: validateQuota,
		ValidateUpdate: func(q, old *corev1.ResourceQuota) field.ErrorList {
			if slices.Equal(slices.Sorted(slices.Values(q.Spec.Scopes)), slices.Sorted(slices.Values(old.Spec.Scopes))) {
				return nil
			}
			return unchanged(q.Spec.Scopes, old.Spec.Scopes, &specAt, "scopes")
		},
		Status: true,
		ValidateStatus: func(q, _ *corev1.ResourceQuota) field.ErrorList {
			return append(quotaAmounts(q.Status.Hard, &statusAt, "hard"), quotaAmounts(q.Status.Used, &statusAt, "used")...)
		},
		Columns: []metav1.TableColumnDefinition{
			column("Request", "string", "What may be asked for, and how much of it is."),
			column("Limit", "string", "What may be used at most, and how much of it is allowed already."),
		},
		Row: quotaRow,
	}
}

func validateQuota(q *corev1.ResourceQuota) field.ErrorList {
	errs := quotaAmounts(q.Spec.Hard, &specAt, "hard")
	known := []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity}
	for _, s := range q.Spec.Scopes {
		if !slices.Contains(known, s) {
			errs = append(errs, field.Invalid(specAt.of("scopes"), q.Spec.Scopes, "unsupported scope"))
		}
	}
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(q.Spec.Scopes, pair[0]) && slices.Contains(q.Spec.Scopes, pair[1]) {
			errs = append(errs, field.Invalid(specAt.of("scopes"), q.Spec.Scopes, "conflicting scopes"))
		}
	}
	return errs
}

func quotaAmounts(list corev1.ResourceList, w *where, name string) field.ErrorList {
	var errs field.ErrorList
	at := w.at(name)
	for _, k := range sorted(list) {
		item := at.entry(string(k))
		errs = append(errs, qualified(string(k), &item, "")...)
		errs = append(errs, amount(k, list[k], &item)...)
	}
	return errs
}

func quotaRow(q *corev1.ResourceQuota) []any {
	var requests, limits []string
	for _, k := range sorted(q.Status.Hard) {
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

func limitRanges() Kind {
	return Of[*corev1.LimitRange]{
		Type: &corev1.LimitRange{}, List: &corev1.LimitRangeList{},
		Plural: "limitranges", ShortNames: []string{"limits"}, CreateOnUpdate: true,
		Unenforced: "nothing is defaulted or refused",
		Name:       subdomain,
		Default:    defaultLimitRange,
		Validate:   validateLimitRange,
		Columns:    createdAt,
		Row:        func(l *corev1.LimitRange) []any { return createdRow(l) },
		Bare:       true,
	}
}

// defaultLimitRange lets a container have at most, and ask for, what the range allows or demands.
func defaultLimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
			roundUp(list)
		}
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		if item.Default == nil {
			item.Default = corev1.ResourceList{}
		}
		if item.DefaultRequest == nil {
			item.DefaultRequest = corev1.ResourceList{}
		}
		fillFrom(item.Default, item.Max)
		fillFrom(item.DefaultRequest, item.Default)
		fillFrom(item.DefaultRequest, item.Min)
	}
}

func fillFrom(to, from corev1.ResourceList) {
	for k, q := range from {
		if _, ok := to[k]; !ok {
			to[k] = q.DeepCopy()
		}
	}
}

func validateLimitRange(l *corev1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	list := specAt.at("limits")
	for i := range l.Spec.Limits {
		item, at := &l.Spec.Limits[i], list.item(i)
		errs = append(errs, qualified(string(item.Type), &at, "type")...)
		if slices.ContainsFunc(l.Spec.Limits[:i], func(o corev1.LimitRangeItem) bool { return o.Type == item.Type }) {
			errs = append(errs, field.Duplicate(at.of("type"), item.Type))
		}
		if item.Type == corev1.LimitTypePod {
			if len(item.Default) > 0 {
				errs = append(errs, field.Forbidden(at.of("default"), "may not be specified when `type` is 'Pod'"))
			}
			if len(item.DefaultRequest) > 0 {
				errs = append(errs, field.Forbidden(at.of("defaultRequest"), "may not be specified when `type` is 'Pod'"))
			}
		}
		errs = append(errs, limitOrder(item, &at)...)
	}
	return errs
}

// limitOrder checks that of each resource the least is no more than what is asked for by default, and
// so on up to the most.
func limitOrder(item *corev1.LimitRangeItem, w *where) field.ErrorList {
	var errs field.ErrorList
	rising := []struct {
		name string
		list corev1.ResourceList
		is   string
	}{{"min", item.Min, "min value"}, {"defaultRequest", item.DefaultRequest, "default request value"}, {"default", item.Default, "default value"}, {"max", item.Max, "max value"}}
	for i, low := range rising {
		at := w.at(low.name)
		for _, k := range sorted(low.list) {
			entry := at.entry(string(k))
			errs = append(errs, qualified(string(k), &entry, "")...)
			for _, high := range rising[i+1:] {
				a := low.list[k]
				if b, ok := high.list[k]; ok && a.Cmp(b) > 0 {
					errs = append(errs, field.Invalid(entry.path(), a.String(), fmt.Sprintf("%s %s is greater than %s %s", low.is, a.String(), high.is, b.String())))
				}
			}
		}
	}
	return errs
}
