// Package autoscaling describes the kinds of the autoscaling API group.
package autoscaling

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
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
		ValidateCreate: func(a *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList { return validateVersions(a, nil) },
		ValidateUpdate: validateVersions,
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
func validateAutoscalerStatus(a, _ *autoscalingv2.HorizontalPodAutoscaler) (errs field.ErrorList) {
	status := check.Object(&errs).Child("status")
	workload.Counts(status, map[string]int32{"currentReplicas": a.Status.CurrentReplicas, "desiredReplicas": a.Status.DesiredReplicas})
	conditions := status.Child("conditions")
	for i := range a.Status.Conditions {
		check.NonNegative(conditions.Index(i).Child("observedGeneration"), a.Status.Conditions[i].ObservedGeneration)
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

//upstream:pkg/apis/autoscaling/validation.validateHorizontalPodAutoscalerSpec
//upstream:pkg/apis/autoscaling/validation.validateMetrics
func validateAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &a.Spec
	most, metrics := spec.Child("maxReplicas"), spec.Child("metrics")
	check.NonNegative(spec.Child("minReplicas"), s.MinReplicas)
	switch {
	case s.MaxReplicas == 0:
		most.Required("")
	case s.MaxReplicas < 0:
		most.Invalid(s.MaxReplicas, "must be greater than or equal to 1")
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		most.Invalid(s.MaxReplicas, "must be greater than or equal to `minReplicas`")
	}
	objectReference(spec.Child("scaleTargetRef"), s.ScaleTargetRef)
	for i := range s.Metrics {
		metric(metrics.Index(i), &s.Metrics[i])
	}
	if s.MinReplicas != nil && *s.MinReplicas == 0 && !slices.ContainsFunc(s.Metrics, scalesFromZero) {
		metrics.Forbidden("must specify at least one Object or External metric to support scaling to zero replicas")
	}
	if b, behavior := s.Behavior, spec.Child("behavior"); b != nil {
		check.Optional(behavior.Child("scaleUp"), b.ScaleUp, scaling)
		check.Optional(behavior.Child("scaleDown"), b.ScaleDown, scaling)
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
func objectReference(at check.Field, r autoscalingv2.CrossVersionObjectReference) {
	pathSegment(at.Child("kind"), r.Kind, "")
	pathSegment(at.Child("name"), r.Name, "")
}

// validateVersions checks the API version of a new or changed target, and the versions of described objects unless one was
// invalid before. The old autoscaler is nil on create.
//
//upstream:pkg/registry/autoscaling/horizontalpodautoscaler.validationOptionsForHorizontalPodAutoscaler
func validateVersions(a, old *autoscalingv2.HorizontalPodAutoscaler) (errs field.ErrorList) {
	spec, target := check.Object(&errs).Child("spec"), a.Spec.ScaleTargetRef
	if old == nil || target.APIVersion != old.Spec.ScaleTargetRef.APIVersion || target.Kind != old.Spec.ScaleTargetRef.Kind {
		targetVersion(spec.Child("scaleTargetRef").Child("apiVersion"), target)
	}
	if old == nil || !check.Fails(func(metrics check.Field) { describedVersions(metrics, old.Spec.Metrics) }) {
		describedVersions(spec.Child("metrics"), a.Spec.Metrics)
	}
	return errs
}

// describedVersions checks the API versions of the objects that metrics describe.
//
//upstream:pkg/apis/autoscaling/validation.ValidateAPIVersion
func describedVersions(list check.Field, metrics []autoscalingv2.MetricSpec) {
	for i := range metrics {
		if o := metrics[i].Object; o != nil {
			version := o.DescribedObject.APIVersion
			if _, err := schema.ParseGroupVersion(version); err != nil {
				list.Index(i).Child("object").Child("describedObject").Child("apiVersion").Invalid(version, err.Error())
			}
		}
	}
}

// targetVersion checks that the API version of the target has a group, unless its kind is
// ReplicationController.
//
//upstream:pkg/apis/autoscaling/validation.ValidateAPIVersion
func targetVersion(at check.Field, r autoscalingv2.CrossVersionObjectReference) {
	switch gv, err := schema.ParseGroupVersion(r.APIVersion); {
	case err != nil:
		at.Invalid(r.APIVersion, err.Error())
	case gv.Group == "" && r.Kind != "ReplicationController":
		at.Invalid(r.APIVersion, "apiVersion must specify API group")
	}
}

// pathSegment checks a name that can be any segment of a URL's path. none is the message if it is
// empty.
func pathSegment(at check.Field, s, none string) {
	if s == "" {
		at.Required(none)
		return
	}
	check.Valid(at, s, content.IsPathSegmentName)
}

//upstream:pkg/apis/autoscaling/validation.validMetricSourceTypes
var metricSources = []autoscalingv2.MetricSourceType{autoscalingv2.ContainerResourceMetricSourceType,
	autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType,
	autoscalingv2.ResourceMetricSourceType}

// metric checks that a metric has exactly the source of its type. Only the first source is checked.
//
//upstream:pkg/apis/autoscaling/validation.validateMetricSpec
func metric(at check.Field, m *autoscalingv2.MetricSpec) {
	if m.Type == "" {
		at.Child("type").Required("must specify a metric source type")
	}
	check.Supported(at.Child("type"), m.Type, metricSources...)
	sources := [...]struct {
		kind autoscalingv2.MetricSourceType
		name string
		set  bool
	}{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil},
	}
	set := 0
	for _, s := range sources {
		switch source := at.Child(s.name); {
		case s.set:
			if set++; set == 1 {
				metricSource(source, m, s.kind)
			}
		case s.kind == m.Type:
			source.Required("must populate information for the given metric source")
		}
	}
	for _, s := range sources {
		check.Forbid(at.Child(s.name), set > 1 && s.set && s.kind != m.Type, "must populate the given metric source only")
	}
}

// metricSource checks the source of that kind, which is set.
func metricSource(at check.Field, m *autoscalingv2.MetricSpec, kind autoscalingv2.MetricSourceType) {
	switch kind {
	case autoscalingv2.ObjectMetricSourceType:
		objectSource(at, m.Object)
	case autoscalingv2.ExternalMetricSourceType:
		externalSource(at, m.External)
	case autoscalingv2.PodsMetricSourceType:
		podsSource(at, m.Pods)
	case autoscalingv2.ResourceMetricSourceType:
		resourceSource(at, m.Resource)
	case autoscalingv2.ContainerResourceMetricSourceType:
		containerSource(at, m.ContainerResource)
	}
}

//upstream:pkg/apis/autoscaling/validation.validateObjectSource
func objectSource(at check.Field, s *autoscalingv2.ObjectMetricSource) {
	target := at.Child("target")
	objectReference(at.Child("describedObject"), s.DescribedObject)
	metricName(at.Child("metric"), s.Metric)
	metricTarget(target, &s.Target)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		target.Child("averageValue").Required("must set either a target value or averageValue")
	}
}

//upstream:pkg/apis/autoscaling/validation.validatePodsSource
func podsSource(at check.Field, s *autoscalingv2.PodsMetricSource) {
	target := at.Child("target")
	metricName(at.Child("metric"), s.Metric)
	metricTarget(target, &s.Target)
	if s.Target.AverageValue == nil {
		target.Child("averageValue").Required("must specify a positive target averageValue")
	}
}

//upstream:pkg/apis/autoscaling/validation.validateExternalSource
func externalSource(at check.Field, s *autoscalingv2.ExternalMetricSource) {
	t, target := &s.Target, at.Child("target")
	metricName(at.Child("metric"), s.Metric)
	metricTarget(target, t)
	if t.Value == nil && t.AverageValue == nil {
		target.Child("averageValue").Required("must set either a target value for metric or a per-pod target")
	}
	check.Forbid(target.Child("value"), t.Value != nil && t.AverageValue != nil,
		"may not set both a target value for metric and a per-pod target")
}

//upstream:pkg/apis/autoscaling/validation.validateResourceSource
func resourceSource(at check.Field, s *autoscalingv2.ResourceMetricSource) {
	if s.Name == "" {
		at.Child("name").Required("must specify a resource name")
	}
	eitherTarget(at.Child("target"), &s.Target)
}

//upstream:pkg/apis/autoscaling/validation.validateContainerResourceSource
func containerSource(at check.Field, s *autoscalingv2.ContainerResourceMetricSource) {
	name, container := at.Child("name"), at.Child("container")
	if s.Name == "" {
		name.Required("must specify a resource name")
	} else {
		check.ContainerResource(name, s.Name)
	}
	if s.Container == "" {
		container.Required("must specify a container")
	} else {
		check.DNSLabel(container, s.Container)
	}
	eitherTarget(at.Child("target"), &s.Target)
}

// eitherTarget checks the target of a resource, which is either an average value or a utilization.
func eitherTarget(at check.Field, t *autoscalingv2.MetricTarget) {
	metricTarget(at, t)
	if t.AverageUtilization == nil && t.AverageValue == nil {
		at.Child("averageUtilization").Required("must set either a target raw value or a target utilization")
	}
	check.Forbid(at.Child("averageValue"), t.AverageUtilization != nil && t.AverageValue != nil,
		"may not set both a target raw value and a target utilization")
}

//upstream:pkg/apis/autoscaling/validation.validateMetricIdentifier
func metricName(at check.Field, id autoscalingv2.MetricIdentifier) {
	pathSegment(at.Child("name"), id.Name, "must specify a metric name")
}

//upstream:pkg/apis/autoscaling/validation.validateMetricTarget
func metricTarget(at check.Field, t *autoscalingv2.MetricTarget) {
	switch kind := at.Child("type"); t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	case "":
		kind.Required("must specify a metric target type")
		fallthrough
	default:
		kind.Invalid(t.Type, "must be either Utilization, Value, or AverageValue")
	}
	if t.Value != nil && t.Value.Sign() <= 0 {
		at.Child("value").Invalid(t.Value, "must be positive")
	}
	if t.AverageValue != nil && t.AverageValue.Sign() <= 0 {
		at.Child("averageValue").Invalid(t.AverageValue, "must be positive")
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		at.Child("averageUtilization").Invalid(*t.AverageUtilization, "must be greater than 0")
	}
}

// The longest windows of scaling policies.
const (
	maxStabilization = 3600
	maxPolicyPeriod  = 1800
)

// scaling checks the rules of scaling up or down.
//
//upstream:pkg/apis/autoscaling/validation.validateBehavior
//upstream:pkg/apis/autoscaling/validation.validateScalingRules
func scaling(at check.Field, r autoscalingv2.HPAScalingRules) {
	window, policies := at.Child("stabilizationWindowSeconds"), at.Child("policies")
	if n := r.StabilizationWindowSeconds; n != nil && *n < 0 {
		window.Invalid(*n, "must be greater than or equal to zero")
	}
	if n := r.StabilizationWindowSeconds; n != nil && *n > maxStabilization {
		window.Invalidf(*n, "must be less than or equal to %d", maxStabilization)
	}
	check.OptionalOneOf(at.Child("selectPolicy"), r.SelectPolicy,
		autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)
	check.Optional(at.Child("tolerance"), r.Tolerance, check.Quantity)
	if len(r.Policies) == 0 {
		policies.Required("must specify at least one Policy")
	}
	for i, p := range r.Policies {
		scalingPolicy(policies.Index(i), p)
	}
}

//upstream:pkg/apis/autoscaling/validation.validateScalingPolicy
func scalingPolicy(at check.Field, p autoscalingv2.HPAScalingPolicy) {
	check.Supported(at.Child("type"), p.Type, autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
	check.Positive(at.Child("value"), p.Value)
	check.Positive(at.Child("periodSeconds"), p.PeriodSeconds)
	if p.PeriodSeconds > maxPolicyPeriod {
		at.Child("periodSeconds").Invalidf(p.PeriodSeconds, "must be less than or equal to %d", maxPolicyPeriod)
	}
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
