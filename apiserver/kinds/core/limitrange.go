package core

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// LimitRanges describes the kind LimitRange.
//
//upstream:pkg/registry/core/limitrange.limitrangeStrategy
//upstream:pkg/registry/core/limitrange/storage.REST.ShortNames
func LimitRanges() kinds.Kind {
	return kinds.Of[*corev1.LimitRange]{
		Type: &corev1.LimitRange{}, List: &corev1.LimitRangeList{},
		Plural: "limitranges", ShortNames: []string{"limits"}, CreateOnUpdate: true,
		Name:    fieldrules.NameIsSubdomain,
		Default: defaultLimitRange,
		Prepare: func(_ context.Context, l, _ *corev1.LimitRange) {
			if l.Name == "" {
				l.Name = string(uuid.NewUUID())
			}
		},
		Validate: validateLimitRange,
		Columns:  columns.CreatedAt,
		Row:      func(l *corev1.LimitRange) []any { return columns.CreatedRow(l) },
		Bare:     true,
	}
}

// defaultLimitRange derives the default limits of containers from the maximum, and the default requests
// from the default limits and the minimum.
//
//upstream:pkg/apis/core/v1.SetDefaults_LimitRangeItem
//upstream:pkg/apis/core/v1.SetDefaults_ResourceList
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

// limitTypes are the types of limits without a prefix.
//
//upstream:pkg/apis/core/helper.standardLimitRangeTypes
var limitTypes = []corev1.LimitType{corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim}

// validateLimitRange checks that each type of limits is valid and occurs once.
//
//upstream:pkg/apis/core/validation.ValidateLimitRange
//upstream:pkg/apis/core/validation.validateLimitRangeTypeName
func validateLimitRange(l *corev1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	var seen fieldrules.Seen[corev1.LimitType]
	list := fieldrules.Spec.Child("limits")
	for i := range l.Spec.Limits {
		item, at := &l.Spec.Limits[i], list.Index(i)
		named := fieldrules.QualifiedName(item.Type, &at, "type")
		if len(named) == 0 && !strings.Contains(string(item.Type), "/") && !slices.Contains(limitTypes, item.Type) {
			named = field.ErrorList{field.Invalid(at.ChildField("type"), item.Type, "must be a standard limit type or fully qualified")}
		}
		errs = append(errs, named...)
		if !seen.Add(item.Type) {
			errs = append(errs, field.Duplicate(at.ChildField("type"), item.Type))
		}
		errs = append(errs, limitItem(item, &at)...)
	}
	return errs
}

// limitItem checks the limits of one type.
//
//upstream:pkg/apis/core/validation.ValidateLimitRange
func limitItem(item *corev1.LimitRangeItem, at *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	defaults, requests := item.Default, item.DefaultRequest
	switch item.Type {
	case corev1.LimitTypePod:
		if len(defaults) > 0 {
			errs = append(errs, field.Forbidden(at.ChildField("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(requests) > 0 {
			errs = append(errs, field.Forbidden(at.ChildField("defaultRequest"), "may not be specified when `type` is 'Pod'"))
		}
		defaults, requests = nil, nil
	case corev1.LimitTypePersistentVolumeClaim:
		_, low := item.Min[corev1.ResourceStorage]
		_, high := item.Max[corev1.ResourceStorage]
		if !low && !high {
			errs = append(errs, field.Required(at.ChildField("limits"),
				"either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	bounds := []bound{{"min", "min", item.Min}, {"defaultRequest", "default request", requests},
		{"default", "default", defaults}, {"max", "max", item.Max}}
	keys := map[corev1.ResourceName]bool{}
	for _, b := range append(slices.Clip(bounds), bound{field: "maxLimitRequestRatio", amounts: item.MaxLimitRequestRatio}) {
		list := at.Child(b.field)
		for _, k := range fieldrules.SortedKeys(b.amounts) {
			entry := list.Key(string(k))
			errs = append(errs, limitResource(item.Type, k, &entry)...)
			keys[k] = true
		}
	}
	for _, k := range fieldrules.SortedKeys(keys) {
		errs = append(errs, limitOrder(k, bounds, at)...)
		errs = append(errs, limitRatio(k, item, at)...)
	}
	return errs
}

// limitResource checks the name of a limited resource.
//
//upstream:pkg/apis/core/validation.validateLimitRangeResourceName
func limitResource(t corev1.LimitType, k corev1.ResourceName, at *fieldrules.Path) field.ErrorList {
	if t == corev1.LimitTypePod || t == corev1.LimitTypeContainer {
		return fieldrules.ContainerResource(k, at)
	}
	return fieldrules.ResourceName(k, at)
}

// bound is one of the fields of a limit. The amounts may not decrease from one bound to the next.
type bound struct {
	field, name string
	amounts     corev1.ResourceList
}

// limitOrder checks for one resource that min <= defaultRequest <= default <= max, and that the two
// defaults are equal if the resource cannot be overcommitted. If one field of a pair is a default, the
// error names that field. An error for the field default has the lower amount.
//
//upstream:pkg/apis/core/validation.ValidateLimitRange
func limitOrder(k corev1.ResourceName, bounds []bound, at *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for i, low := range bounds {
		for _, high := range bounds[i+1:] {
			a, found := low.amounts[k]
			b, both := high.amounts[k]
			if !found || !both || a.Cmp(b) <= 0 {
				continue
			}
			of, value := low.field, a
			switch {
			case low.field == "min" && high.field == "defaultRequest":
				of, value = high.field, b
			case low.field == "min" && high.field == "default":
				of = high.field
			case low.field == "default":
				value = b
			}
			name := high.name
			if low.field == "defaultRequest" && high.field == "default" {
				name = "default limit"
			}
			list := at.Child(of)
			entry := list.Key(string(k))
			errs = append(errs, field.Invalid(entry.Field(), value.String(),
				fmt.Sprintf("%s value %s is greater than %s value %s", low.name, a.String(), name, b.String())))
		}
	}
	request, found := bounds[1].amounts[k]
	limit, both := bounds[2].amounts[k]
	if found && both && !overcommitted(k) && limit.Cmp(request) != 0 {
		list := at.Child("defaultRequest")
		entry := list.Key(string(k))
		errs = append(errs, field.Invalid(entry.Field(), request.String(),
			fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), k)))
	}
	return errs
}

// overcommitted reports whether the limit of a resource may be greater than the request. Native
// resources other than huge pages can be overcommitted.
//
//upstream:pkg/apis/core/helper.IsOvercommitAllowed
func overcommitted(k corev1.ResourceName) bool {
	native := !strings.Contains(string(k), "/") || strings.Contains(string(k), corev1.ResourceDefaultNamespacePrefix)
	return native && !strings.HasPrefix(string(k), corev1.ResourceHugePagesPrefix)
}

// limitRatio checks that the ratio of limit to request of one resource is at least 1, and not greater
// than max/min.
//
//upstream:pkg/apis/core/validation.ValidateLimitRange
func limitRatio(k corev1.ResourceName, item *corev1.LimitRangeItem, at *fieldrules.Path) field.ErrorList {
	ratio, ok := item.MaxLimitRequestRatio[k]
	if !ok {
		return nil
	}
	var errs field.ErrorList
	list := at.Child("maxLimitRequestRatio")
	entry := list.Key(string(k))
	if ratio.Cmp(resource.MustParse("1")) < 0 {
		errs = append(errs, field.Invalid(entry.Field(), ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String())))
	}
	low, found := item.Min[k]
	high, both := item.Max[k]
	if !found || !both {
		return errs
	}
	value, most := float64(ratio.Value()), float64(high.Value())/float64(low.Value())
	if max(ratio.Value(), high.Value(), low.Value()) < resource.MaxMilliValue {
		value, most = float64(ratio.MilliValue())/1000, float64(high.MilliValue())/float64(low.MilliValue())
	}
	if value > most {
		errs = append(errs, field.Invalid(entry.Field(), ratio.String(),
			fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), most)))
	}
	return errs
}
