// Package autoscaling describes the kinds of the autoscaling API group.
package autoscaling

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/workload"
)

// HorizontalPodAutoscalers describes the kind HorizontalPodAutoscaler, which is stored as v2.
//
//upstream:pkg/registry/autoscaling/horizontalpodautoscaler.autoscalerStrategy
//upstream:pkg/registry/autoscaling/horizontalpodautoscaler.autoscalerStatusStrategy
//upstream:pkg/apis/autoscaling/v1.SetDefaults_HorizontalPodAutoscaler
//upstream:pkg/printers/internalversion.printHorizontalPodAutoscaler
//upstream:pkg/registry/autoscaling/horizontalpodautoscaler/storage.REST.ShortNames
//upstream:pkg/registry/autoscaling/horizontalpodautoscaler/storage.REST.Categories
func HorizontalPodAutoscalers() kinds.Kind {
	return kinds.Of[*autoscalingv2.HorizontalPodAutoscaler]{
		Type: &autoscalingv2.HorizontalPodAutoscaler{}, List: &autoscalingv2.HorizontalPodAutoscalerList{},
		Plural: "horizontalpodautoscalers", ShortNames: []string{"hpa"}, Categories: []string{"all"},
		Name:           fieldrules.NameIsSubdomain,
		Default:        defaultAutoscaler,
		Validate:       validateAutoscaler,
		ValidateCreate: validateNewAutoscaler,
		ValidateUpdate: validateAutoscalerUpdate,
		Status:         true,
		Generation:     true,
		ValidateStatus: validateAutoscalerStatus,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Reference", "string", autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()["scaleTargetRef"]),
			columns.Column("Targets", "string", autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()["metrics"]),
			columns.Column("MinPods", "string", autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()["minReplicas"]),
			columns.Column("MaxPods", "string", autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()["maxReplicas"]),
			columns.Column("Replicas", "string", autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()["currentReplicas"]),
		},
		Row: autoscalerRow,
		AlsoServed: []kinds.Alias[*autoscalingv2.HorizontalPodAutoscaler]{{
			Type: &autoscalingv1.HorizontalPodAutoscaler{},
			Default: func(obj runtime.Object) {
				fieldrules.DefaultPointer(&obj.(*autoscalingv1.HorizontalPodAutoscaler).Spec.MinReplicas, 1)
			},
		}},
	}
}

// validateAutoscalerStatus checks that the numbers in a status are not negative.
//
//upstream:pkg/apis/autoscaling/validation.ValidateHorizontalPodAutoscalerStatusUpdate
func validateAutoscalerStatus(a, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	errs := workload.Counts(map[string]int32{"currentReplicas": a.Status.CurrentReplicas, "desiredReplicas": a.Status.DesiredReplicas})
	conditions := fieldrules.Status.Child("conditions")
	for i, c := range a.Status.Conditions {
		at := conditions.Index(i)
		errs = append(errs, fieldrules.OptionalNonNegative(c.ObservedGeneration, &at, "observedGeneration")...)
	}
	return errs
}

// defaultUtilization is the default target of the CPU utilization, in percent.
const defaultUtilization int32 = 80

// defaultAutoscaler sets the defaults, and drops the annotations that belong to autoscaling/v1.
//
//upstream:pkg/apis/autoscaling/v2.SetDefaults_HorizontalPodAutoscaler
//upstream:pkg/apis/autoscaling/v2.SetDefaults_HorizontalPodAutoscalerBehavior
//upstream:pkg/apis/autoscaling/v2.Convert_v2_HorizontalPodAutoscaler_To_autoscaling_HorizontalPodAutoscaler
func defaultAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
	a.Annotations = withoutAnnotations(a.Annotations)
	s := &a.Spec
	fieldrules.DefaultPointer(&s.MinReplicas, 1)
	if len(s.Metrics) == 0 {
		s.Metrics = []autoscalingv2.MetricSpec{cpuUtilization(new(defaultUtilization))}
	}
	if s.Behavior == nil {
		return
	}
	percent := func(n int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: n, PeriodSeconds: 15}
	}
	four := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}
	s.Behavior.ScaleUp = scalingRules(s.Behavior.ScaleUp, new(int32(0)), four, percent(100))
	s.Behavior.ScaleDown = scalingRules(s.Behavior.ScaleDown, nil, percent(100))
}

//upstream:pkg/apis/autoscaling/v2.GenerateHPAScaleUpRules
//upstream:pkg/apis/autoscaling/v2.GenerateHPAScaleDownRules
func scalingRules(r *autoscalingv2.HPAScalingRules, window *int32,
	policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
	if r == nil {
		r = &autoscalingv2.HPAScalingRules{}
	}
	if r.StabilizationWindowSeconds == nil {
		r.StabilizationWindowSeconds = window
	}
	fieldrules.DefaultPointer(&r.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if r.Policies == nil {
		r.Policies = policies
	}
	return r
}

//
//upstream:pkg/apis/autoscaling/validation.validateHorizontalPodAutoscalerSpec
//upstream:pkg/apis/autoscaling/validation.validateMetrics
func validateAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	s := &a.Spec
	var errs field.ErrorList
	if s.MinReplicas != nil && *s.MinReplicas < 0 {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("minReplicas"), *s.MinReplicas,
			"must be greater than or equal to 0"))
	}
	switch max := fieldrules.Spec.ChildField("maxReplicas"); {
	case s.MaxReplicas == 0:
		errs = append(errs, field.Required(max, ""))
	case s.MaxReplicas < 0:
		errs = append(errs, field.Invalid(max, s.MaxReplicas, "must be greater than or equal to 1"))
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("maxReplicas"), s.MaxReplicas,
			"must be greater than or equal to `minReplicas`"))
	}
	at := fieldrules.Spec.Child("scaleTargetRef")
	errs = append(errs, objectReference(s.ScaleTargetRef, &at)...)
	list := fieldrules.Spec.Child("metrics")
	for i := range s.Metrics {
		item := list.Index(i)
		errs = append(errs, metric(&s.Metrics[i], &item)...)
	}
	if s.MinReplicas != nil && *s.MinReplicas == 0 && !slices.ContainsFunc(s.Metrics, scalesFromZero) {
		errs = append(errs, field.Forbidden(list.Field(),
			"must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	if b := s.Behavior; b != nil {
		at := fieldrules.Spec.Child("behavior")
		errs = append(errs, validateScaling(b.ScaleUp, &at, "scaleUp")...)
		errs = append(errs, validateScaling(b.ScaleDown, &at, "scaleDown")...)
	}
	return errs
}

// scalesFromZero reports whether a metric has a value without any pods.
func scalesFromZero(m autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
}

// objectReference checks the kind and the name in a reference to an object.
//
//upstream:pkg/apis/autoscaling/validation.ValidateCrossVersionObjectReference
func objectReference(r autoscalingv2.CrossVersionObjectReference, at *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for _, part := range [...]struct{ name, value string }{{"kind", r.Kind}, {"name", r.Name}} {
		errs = append(errs, pathSegment(part.value, at, part.name, "")...)
	}
	return errs
}

//upstream:pkg/registry/autoscaling/horizontalpodautoscaler.validationOptionsForHorizontalPodAutoscaler
func validateNewAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	return append(targetVersion(a), describedVersions(a)...)
}

// validateAutoscalerUpdate checks the API version of a new or changed target, and the versions of described objects unless one
// was invalid before.
//
//upstream:pkg/registry/autoscaling/horizontalpodautoscaler.validationOptionsForHorizontalPodAutoscaler
func validateAutoscalerUpdate(a, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var errs field.ErrorList
	if now, was := a.Spec.ScaleTargetRef, old.Spec.ScaleTargetRef; now.APIVersion != was.APIVersion || now.Kind != was.Kind {
		errs = targetVersion(a)
	}
	if len(describedVersions(old)) > 0 {
		return errs
	}
	return append(errs, describedVersions(a)...)
}

// describedVersions checks the API versions of the objects that metrics describe.
//
//upstream:pkg/apis/autoscaling/validation.ValidateAPIVersion
func describedVersions(a *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var errs field.ErrorList
	metrics := fieldrules.Spec.Child("metrics")
	for i, m := range a.Spec.Metrics {
		if m.Object == nil {
			continue
		}
		at := metrics.Index(i)
		version := m.Object.DescribedObject.APIVersion
		if _, err := schema.ParseGroupVersion(version); err != nil {
			errs = append(errs, field.Invalid(at.ChildField("object").Child("describedObject", "apiVersion"), version, err.Error()))
		}
	}
	return errs
}

// targetVersion checks that the API version of the target has a group, unless its kind is
// ReplicationController.
//
//upstream:pkg/apis/autoscaling/validation.ValidateAPIVersion
func targetVersion(a *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	at, r := fieldrules.Spec.Child("scaleTargetRef"), a.Spec.ScaleTargetRef
	switch gv, err := schema.ParseGroupVersion(r.APIVersion); {
	case err != nil:
		return field.ErrorList{field.Invalid(at.ChildField("apiVersion"), r.APIVersion, err.Error())}
	case gv.Group == "" && r.Kind != "ReplicationController":
		return field.ErrorList{field.Invalid(at.ChildField("apiVersion"), r.APIVersion, "apiVersion must specify API group")}
	}
	return nil
}

// pathSegment checks a name that can be any segment of a URL's path. none is the message if it is
// empty.
func pathSegment(s string, at *fieldrules.Path, name, none string) field.ErrorList {
	if s == "" {
		return field.ErrorList{field.Required(at.ChildField(name), none)}
	}
	return fieldrules.Invalid(fieldrules.NameIsPathSegment(s, false), s, at, name)
}

//upstream:pkg/apis/autoscaling/validation.validMetricSourceTypes
var metricSources = []autoscalingv2.MetricSourceType{autoscalingv2.ContainerResourceMetricSourceType,
	autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType,
	autoscalingv2.ResourceMetricSourceType}

// metric checks that a metric has exactly the source of its type. Only the first source is checked.
//
//upstream:pkg/apis/autoscaling/validation.validateMetricSpec
func metric(m *autoscalingv2.MetricSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	unknown := field.NotSupported(fldPath.ChildField("type"), m.Type, metricSources)
	if m.Type == "" {
		errs = append(errs, field.Required(fldPath.ChildField("type"), "must specify a metric source type"))
	}
	if !slices.Contains(metricSources, m.Type) {
		errs = append(errs, unknown)
	}
	sources := [...]struct {
		kind  autoscalingv2.MetricSourceType
		field string
		set   bool
	}{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil},
	}
	set := 0
	for _, s := range sources {
		at := fldPath.Child(s.field)
		if s.set {
			if set++; set == 1 {
				errs = append(errs, metricSource(m, s.kind, &at)...)
			}
		} else if s.kind == m.Type {
			errs = append(errs, field.Required(at.Field(), "must populate information for the given metric source"))
		}
	}
	for _, s := range sources {
		if set > 1 && s.set && s.kind != m.Type {
			errs = append(errs, field.Forbidden(fldPath.ChildField(s.field), "must populate the given metric source only"))
		}
	}
	return errs
}

// metricSource checks the name of the metric or the resource, the target, and its required values.
//
//upstream:pkg/apis/autoscaling/validation.validateObjectSource
//upstream:pkg/apis/autoscaling/validation.validatePodsSource
//upstream:pkg/apis/autoscaling/validation.validateResourceSource
//upstream:pkg/apis/autoscaling/validation.validateContainerResourceSource
//upstream:pkg/apis/autoscaling/validation.validateExternalSource
func metricSource(m *autoscalingv2.MetricSpec, kind autoscalingv2.MetricSourceType, at *fieldrules.Path) field.ErrorList {
	target := at.Child("target")
	switch kind {
	case autoscalingv2.ObjectMetricSourceType:
		described := at.Child("describedObject")
		errs := append(objectReference(m.Object.DescribedObject, &described), metricName(m.Object.Metric, at)...)
		errs = append(errs, metricTarget(&m.Object.Target, &target)...)
		if t := m.Object.Target; t.Value == nil && t.AverageValue == nil {
			errs = append(errs, field.Required(target.ChildField("averageValue"), "must set either a target value or averageValue"))
		}
		return errs
	case autoscalingv2.PodsMetricSourceType:
		errs := append(metricName(m.Pods.Metric, at), metricTarget(&m.Pods.Target, &target)...)
		if m.Pods.Target.AverageValue == nil {
			errs = append(errs, field.Required(target.ChildField("averageValue"), "must specify a positive target averageValue"))
		}
		return errs
	case autoscalingv2.ExternalMetricSourceType:
		t := &m.External.Target
		errs := append(metricName(m.External.Metric, at), metricTarget(t, &target)...)
		switch {
		case t.Value == nil && t.AverageValue == nil:
			errs = append(errs, field.Required(target.ChildField("averageValue"),
				"must set either a target value for metric or a per-pod target"))
		case t.Value != nil && t.AverageValue != nil:
			errs = append(errs, field.Forbidden(target.ChildField("value"),
				"may not set both a target value for metric and a per-pod target"))
		}
		return errs
	case autoscalingv2.ResourceMetricSourceType:
		var errs field.ErrorList
		if m.Resource.Name == "" {
			errs = append(errs, field.Required(at.ChildField("name"), "must specify a resource name"))
		}
		errs = append(errs, metricTarget(&m.Resource.Target, &target)...)
		return append(errs, exclusiveTarget(&m.Resource.Target, &target)...)
	}
	c := m.ContainerResource
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(at.ChildField("name"), "must specify a resource name"))
	} else {
		check.ContainerResource(check.Field{Path: at.Child("name")}.Into(&errs), c.Name)
	}
	if c.Container == "" {
		errs = append(errs, field.Required(at.ChildField("container"), "must specify a container"))
	} else {
		errs = append(errs, fieldrules.DNSLabel(c.Container, at, "container")...)
	}
	errs = append(errs, metricTarget(&c.Target, &target)...)
	return append(errs, exclusiveTarget(&c.Target, &target)...)
}

// exclusiveTarget checks that the target of a resource is either an average value or a utilization.
func exclusiveTarget(t *autoscalingv2.MetricTarget, at *fieldrules.Path) field.ErrorList {
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		return field.ErrorList{field.Required(at.ChildField("averageUtilization"),
			"must set either a target raw value or a target utilization")}
	case t.AverageUtilization != nil && t.AverageValue != nil:
		return field.ErrorList{field.Forbidden(at.ChildField("averageValue"),
			"may not set both a target raw value and a target utilization")}
	}
	return nil
}

//upstream:pkg/apis/autoscaling/validation.validateMetricIdentifier
func metricName(id autoscalingv2.MetricIdentifier, at *fieldrules.Path) field.ErrorList {
	metric := at.Child("metric")
	return pathSegment(id.Name, &metric, "name", "must specify a metric name")
}

//upstream:pkg/apis/autoscaling/validation.validateMetricTarget
func metricTarget(t *autoscalingv2.MetricTarget, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	case "":
		errs = append(errs, field.Required(fldPath.ChildField("type"), "must specify a metric target type"))
		fallthrough
	default:
		errs = append(errs, field.Invalid(fldPath.ChildField("type"), t.Type,
			"must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() <= 0 {
		errs = append(errs, field.Invalid(fldPath.ChildField("value"), t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() <= 0 {
		errs = append(errs, field.Invalid(fldPath.ChildField("averageValue"), t.AverageValue, "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(fldPath.ChildField("averageUtilization"), *t.AverageUtilization,
			"must be greater than 0"))
	}
	return errs
}

// The longest windows of scaling policies.
const (
	maxStabilization = 3600
	maxPolicyPeriod  = 1800
)

// validateScaling checks the rules of scaling up or down.
//
//upstream:pkg/apis/autoscaling/validation.validateBehavior
//upstream:pkg/apis/autoscaling/validation.validateScalingRules
//upstream:pkg/apis/autoscaling/validation.validateScalingPolicy
func validateScaling(r *autoscalingv2.HPAScalingRules, fldPath *fieldrules.Path, name string) field.ErrorList {
	if r == nil {
		return nil
	}
	at := fldPath.Child(name)
	var errs field.ErrorList
	if n := r.StabilizationWindowSeconds; n != nil {
		if *n < 0 {
			errs = append(errs, field.Invalid(at.ChildField("stabilizationWindowSeconds"), *n,
				"must be greater than or equal to zero"))
		}
		if *n > maxStabilization {
			errs = append(errs, field.Invalid(at.ChildField("stabilizationWindowSeconds"), *n,
				fmt.Sprintf("must be less than or equal to %v", maxStabilization)))
		}
	}
	errs = append(errs, fieldrules.OptionalOneOf(r.SelectPolicy, &at, "selectPolicy",
		autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect)...)
	if t := r.Tolerance; t != nil {
		check.Quantity(check.Field{Path: at.Child("tolerance")}.Into(&errs), *t)
	}
	list := at.Child("policies")
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(list.Field(), "must specify at least one Policy"))
	}
	for i, p := range r.Policies {
		item := list.Index(i)
		errs = append(errs, fieldrules.Supported(p.Type, &item, "type", autoscalingv2.PercentScalingPolicy,
			autoscalingv2.PodsScalingPolicy)...)
		errs = append(errs, fieldrules.Positive(p.Value, &item, "value")...)
		errs = append(errs, fieldrules.Positive(p.PeriodSeconds, &item, "periodSeconds")...)
		if p.PeriodSeconds > maxPolicyPeriod {
			errs = append(errs, field.Invalid(item.ChildField("periodSeconds"), p.PeriodSeconds,
				fmt.Sprintf("must be less than or equal to %v", maxPolicyPeriod)))
		}
	}
	return errs
}

//upstream:pkg/printers/internalversion.printHorizontalPodAutoscaler
func autoscalerRow(a *autoscalingv2.HorizontalPodAutoscaler) []any {
	least := "<unset>"
	if a.Spec.MinReplicas != nil {
		least = fieldrules.Decimal(*a.Spec.MinReplicas)
	}
	ref := a.Spec.ScaleTargetRef
	return []any{ref.Kind + "/" + ref.Name, targetsCell(a.Spec.Metrics, a.Status.CurrentMetrics), least,
		int64(a.Spec.MaxReplicas), int64(a.Status.CurrentReplicas)}
}

// shownMetrics is how many metrics a table shows of an autoscaler.
const shownMetrics = 2

// targetsCell returns the current values and the targets of metrics.
//
//upstream:pkg/printers/internalversion.formatHPAMetrics
func targetsCell(specs []autoscalingv2.MetricSpec, statuses []autoscalingv2.MetricStatus) string {
	var cells []string
	for i := range specs {
		var status autoscalingv2.MetricStatus
		if i < len(statuses) {
			status = statuses[i]
		}
		cells = append(cells, metricCell(&specs[i], &status))
	}
	if more := len(cells) - shownMetrics; more > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(cells[:shownMetrics], ", "), more)
	}
	return columns.OrNone(strings.Join(cells, ", "))
}

const unknownMetric = "<unknown>"

// metricCell returns the current value and the target of one metric.
func metricCell(m *autoscalingv2.MetricSpec, is *autoscalingv2.MetricStatus) string {
	var current *autoscalingv2.MetricValueStatus
	switch m.Type {
	case autoscalingv2.ExternalMetricSourceType:
		if is.External != nil {
			current = &is.External.Current
		}
		return valueCell(m.External.Target, current)
	case autoscalingv2.ObjectMetricSourceType:
		if is.Object != nil {
			current = &is.Object.Current
		}
		return valueCell(m.Object.Target, current)
	case autoscalingv2.PodsMetricSourceType:
		if is.Pods != nil {
			current = &is.Pods.Current
		}
		return averageCell(m.Pods.Target, current)
	case autoscalingv2.ResourceMetricSourceType:
		if is.Resource != nil {
			current = &is.Resource.Current
		}
		return string(m.Resource.Name) + ": " + utilizationCell(m.Resource.Target, current)
	case autoscalingv2.ContainerResourceMetricSourceType:
		if is.ContainerResource != nil {
			current = &is.ContainerResource.Current
		}
		return string(m.ContainerResource.Name) + ": " + utilizationCell(m.ContainerResource.Target, current)
	}
	return "<unknown type>"
}

// valueCell returns the value of a metric of one object, or its average over the pods.
func valueCell(target autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		if current != nil && current.AverageValue == nil {
			current = nil
		}
		return averageCell(target, current) + " (avg)"
	}
	is := unknownMetric
	if current != nil {
		is = current.Value.String()
	}
	return is + "/" + target.Value.String()
}

// averageCell returns the average of a metric over the pods.
func averageCell(target autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	is := unknownMetric
	if current != nil {
		is = current.AverageValue.String()
	}
	return is + "/" + target.AverageValue.String()
}

// utilizationCell returns the utilization of a resource, or its average over the pods.
func utilizationCell(target autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		return averageCell(target, current)
	}
	is, should := unknownMetric, "<auto>"
	if current != nil && current.AverageUtilization != nil {
		is = fmt.Sprintf("%d%%", *current.AverageUtilization)
	}
	if target.AverageUtilization != nil {
		should = fmt.Sprintf("%d%%", *target.AverageUtilization)
	}
	return is + "/" + should
}
