package kinds

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
