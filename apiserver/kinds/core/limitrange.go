package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// LimitRanges describes the kind LimitRange.
func LimitRanges() kinds.Kind {
	return kinds.Of[*corev1.LimitRange]{
		Type: &corev1.LimitRange{}, List: &corev1.LimitRangeList{},
		Plural: "limitranges", ShortNames: []string{"limits"}, CreateOnUpdate: true,
		Name:     fieldrules.NameIsSubdomain,
		Default:  defaultLimitRange,
		Validate: validateLimitRange,
		Columns:  columns.CreatedAt,
		Row:      func(l *corev1.LimitRange) []any { return columns.CreatedRow(l) },
		Bare:     true,
	}
}

// defaultLimitRange derives the default limits and requests of containers from their maximum and
// minimum.
func defaultLimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest,
			item.MaxLimitRequestRatio} {
			podspec.RoundUp(list)
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
		podspec.FillFrom(item.Default, item.Max)
		podspec.FillFrom(item.DefaultRequest, item.Default)
		podspec.FillFrom(item.DefaultRequest, item.Min)
	}
}

// validateLimitRange checks the limits of each type: their resources, and that they rise from minimum
// to maximum.
func validateLimitRange(l *corev1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Spec.Child("limits")
	for i := range l.Spec.Limits {
		item, at := &l.Spec.Limits[i], list.Index(i)
		errs = append(errs, fieldrules.QualifiedName(string(item.Type), &at, "type")...)
		if t := item.Type; t != "" && !strings.Contains(string(t), "/") &&
			t != corev1.LimitTypePod && t != corev1.LimitTypeContainer && t != corev1.LimitTypePersistentVolumeClaim {
			errs = append(errs, field.Invalid(at.ChildField("type"), string(t), "must be a standard limit type or fully qualified"))
		}
		if item.Type == corev1.LimitTypePersistentVolumeClaim {
			_, least := item.Min[corev1.ResourceStorage]
			if _, most := item.Max[corev1.ResourceStorage]; !least && !most {
				errs = append(errs, field.Required(at.ChildField("limits"),
					"either minimum or maximum storage value is required, but neither was provided"))
			}
		}
		if slices.ContainsFunc(l.Spec.Limits[:i], func(o corev1.LimitRangeItem) bool { return o.Type == item.Type }) {
			errs = append(errs, field.Duplicate(at.ChildField("type"), item.Type))
		}
		if item.Type == corev1.LimitTypePod {
			if len(item.Default) > 0 {
				errs = append(errs, field.Forbidden(at.ChildField("default"), "may not be specified when `type` is 'Pod'"))
			}
			if len(item.DefaultRequest) > 0 {
				errs = append(errs, field.Forbidden(at.ChildField("defaultRequest"), "may not be specified when `type` is 'Pod'"))
			}
		}
		errs = append(errs, limitOrder(item, &at)...)
	}
	return errs
}

// limitOrder checks for each resource that min <= defaultRequest <= default <= max.
func limitOrder(item *corev1.LimitRangeItem, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	rising := []struct {
		name string
		list corev1.ResourceList
		is   string
	}{{"min", item.Min, "min value"}, {"defaultRequest", item.DefaultRequest, "default request value"},
		{"default", item.Default, "default value"}, {"max", item.Max, "max value"}}
	for i, low := range rising {
		at := fldPath.Child(low.name)
		for _, k := range fieldrules.SortedKeys(low.list) {
			entry := at.Key(string(k))
			errs = append(errs, fieldrules.QualifiedName(string(k), &entry, "")...)
			for _, high := range rising[i+1:] {
				a := low.list[k]
				if b, ok := high.list[k]; ok && a.Cmp(b) > 0 {
					errs = append(errs, field.Invalid(entry.Field(), a.String(),
						fmt.Sprintf("%s %s is greater than %s %s", low.is, a.String(), high.is, b.String())))
				}
			}
		}
	}
	return errs
}
