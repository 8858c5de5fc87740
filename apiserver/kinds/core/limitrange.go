package core

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
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
func validateLimitRange(l *corev1.LimitRange) (errs field.ErrorList) {
	limits := check.Object(&errs).Child("spec").Child("limits")
	var seen fieldrules.Seen[corev1.LimitType]
	for i := range l.Spec.Limits {
		at, item := limits.Index(i), &l.Spec.Limits[i]
		limitType(at.Child("type"), item.Type)
		if !seen.Add(item.Type) {
			at.Child("type").Duplicate(item.Type)
		}
		limitItem(at, item)
	}
	return errs
}

//upstream:pkg/apis/core/validation.validateLimitRangeTypeName
func limitType(at check.Field, t corev1.LimitType) {
	check.QualifiedName(at, t)
	if !strings.Contains(string(t), "/") && !slices.Contains(limitTypes, t) && len(validation.IsQualifiedName(string(t))) == 0 {
		at.Invalid(t, "must be a standard limit type or fully qualified")
	}
}

// limitItem checks the limits of one type.
//
//upstream:pkg/apis/core/validation.ValidateLimitRange
func limitItem(at check.Field, item *corev1.LimitRangeItem) {
	defaults, requests := item.Default, item.DefaultRequest
	switch item.Type {
	case corev1.LimitTypePod:
		check.Forbid(at.Child("default"), len(defaults) > 0, "may not be specified when `type` is 'Pod'")
		check.Forbid(at.Child("defaultRequest"), len(requests) > 0, "may not be specified when `type` is 'Pod'")
		defaults, requests = nil, nil
	case corev1.LimitTypePersistentVolumeClaim:
		_, low := item.Min[corev1.ResourceStorage]
		_, high := item.Max[corev1.ResourceStorage]
		if !low && !high {
			at.Child("limits").Required("either minimum or maximum storage value is required, but neither was provided")
		}
	}
	bounds := []bound{{"min", "min", item.Min}, {"defaultRequest", "default request", requests},
		{"default", "default", defaults}, {"max", "max", item.Max}}
	keys := map[corev1.ResourceName]bool{}
	for _, b := range append(slices.Clip(bounds), bound{field: "maxLimitRequestRatio", amounts: item.MaxLimitRequestRatio}) {
		for _, k := range fieldrules.SortedKeys(b.amounts) {
			limitResource(at.Child(b.field).Key(string(k)), item.Type, k)
			keys[k] = true
		}
	}
	for _, k := range fieldrules.SortedKeys(keys) {
		limitOrder(at, k, bounds)
		limitRatio(at, k, item)
	}
}

// limitResource checks the name of a limited resource.
//
//upstream:pkg/apis/core/validation.validateLimitRangeResourceName
func limitResource(at check.Field, t corev1.LimitType, k corev1.ResourceName) {
	if t == corev1.LimitTypePod || t == corev1.LimitTypeContainer {
		check.ContainerResource(at, k)
	} else {
		check.ResourceName(at, k)
	}
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
func limitOrder(at check.Field, k corev1.ResourceName, bounds []bound) {
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
			at.Child(of).Key(string(k)).Invalidf(value.String(),
				"%s value %s is greater than %s value %s", low.name, a.String(), name, b.String())
		}
	}
	request, found := bounds[1].amounts[k]
	limit, both := bounds[2].amounts[k]
	if found && both && !check.Overcommits(k) && limit.Cmp(request) != 0 {
		at.Child("defaultRequest").Key(string(k)).Invalidf(request.String(),
			"default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), k)
	}
}

// limitRatio checks that the ratio of limit to request of one resource is at least 1, and not greater
// than max/min.
//
//upstream:pkg/apis/core/validation.ValidateLimitRange
func limitRatio(at check.Field, k corev1.ResourceName, item *corev1.LimitRangeItem) {
	ratio, ok := item.MaxLimitRequestRatio[k]
	if !ok {
		return
	}
	entry := at.Child("maxLimitRequestRatio").Key(string(k))
	if ratio.Cmp(resource.MustParse("1")) < 0 {
		entry.Invalidf(ratio.String(), "ratio %s is less than 1", ratio.String())
	}
	low, found := item.Min[k]
	high, both := item.Max[k]
	if !found || !both {
		return
	}
	value, most := float64(ratio.Value()), float64(high.Value())/float64(low.Value())
	if max(ratio.Value(), high.Value(), low.Value()) < resource.MaxMilliValue {
		value, most = float64(ratio.MilliValue())/1000, float64(high.MilliValue())/float64(low.MilliValue())
	}
	if value > most {
		entry.Invalidf(ratio.String(), "ratio %s is greater than max/min = %f", ratio.String(), most)
	}
}
