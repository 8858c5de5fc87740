// Package autoscaling describes the kinds of the autoscaling API group.
package autoscaling

import (
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/workload"
)

// HorizontalPodAutoscalers describes the kind HorizontalPodAutoscaler, which is stored as v2.
func HorizontalPodAutoscalers() kinds.Kind {
	return kinds.Of[*autoscalingv2.HorizontalPodAutoscaler]{
		Type: &autoscalingv2.HorizontalPodAutoscaler{}, List: &autoscalingv2.HorizontalPodAutoscalerList{},
		Plural: "horizontalpodautoscalers", ShortNames: []string{"hpa"}, Categories: []string{"all"},
		Name:     fieldrules.NameIsSubdomain,
		Default:  defaultAutoscaler,
		Validate: validateAutoscaler,
		Status:   true,
		ValidateStatus: func(a, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
			return workload.Counts(map[string]int32{"currentReplicas": a.Status.CurrentReplicas, "desiredReplicas": a.Status.DesiredReplicas})
		},
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

// defaultUtilization is the default target of the CPU utilization, in percent.
const defaultUtilization int32 = 80

func defaultAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
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

func scalingRules(r *autoscalingv2.HPAScalingRules, window *int32, policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
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

// validateAutoscaler checks the spec of an autoscaler.
func validateAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	s := &a.Spec
	var errs field.ErrorList
	if s.MinReplicas != nil && *s.MinReplicas < 1 {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("minReplicas"), *s.MinReplicas, "must be greater than or equal to 1"))
	}
	if s.MaxReplicas < 1 {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("maxReplicas"), s.MaxReplicas, "must be greater than 0"))
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("maxReplicas"), s.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	at := fieldrules.Spec.Child("scaleTargetRef")
	for _, part := range [...]struct{ name, value string }{{"kind", s.ScaleTargetRef.Kind}, {"name", s.ScaleTargetRef.Name}} {
		errs = append(errs, fieldrules.Required(part.value, &at, part.name)...)
		if part.value != "" {
			errs = append(errs, fieldrules.Invalid(fieldrules.NameIsPathSegment(part.value, false), part.value, &at, part.name)...)
		}
	}
	list := fieldrules.Spec.Child("metrics")
	for i := range s.Metrics {
		item := list.Index(i)
		errs = append(errs, metric(&s.Metrics[i], &item)...)
	}
	if b := s.Behavior; b != nil {
		at := fieldrules.Spec.Child("behavior")
		errs = append(errs, validateScaling(b.ScaleUp, &at, "scaleUp")...)
		errs = append(errs, validateScaling(b.ScaleDown, &at, "scaleDown")...)
	}
	return errs
}

// metric checks that a metric has the one source that its type names, with a target.
func metric(m *autoscalingv2.MetricSpec, w *fieldrules.Path) field.ErrorList {
	if m.Type == "" {
		return field.ErrorList{field.Required(w.ChildField("type"), "must specify a metric source type")}
	}
	var errs field.ErrorList
	known := false
	for _, s := range []struct {
		kind   autoscalingv2.MetricSourceType
		field  string
		set    bool
		target func() *autoscalingv2.MetricTarget
	}{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func() *autoscalingv2.MetricTarget { return &m.Object.Target }},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func() *autoscalingv2.MetricTarget { return &m.Pods.Target }},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func() *autoscalingv2.MetricTarget { return &m.Resource.Target }},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func() *autoscalingv2.MetricTarget { return &m.ContainerResource.Target }},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func() *autoscalingv2.MetricTarget { return &m.External.Target }},
	} {
		at := w.Child(s.field)
		switch mine := s.kind == m.Type; {
		case mine && !s.set:
			known = true
			errs = append(errs, field.Required(at.Field(), "must populate information for the given metric source"))
		case mine:
			known = true
			target := at.Child("target")
			errs = append(errs, metricTarget(s.target(), &target)...)
		case s.set:
			errs = append(errs, field.Forbidden(at.Field(), "must populate the given metric source only"))
		}
	}
	if !known {
		errs = append(errs, field.NotSupported(w.ChildField("type"), m.Type, []autoscalingv2.MetricSourceType{autoscalingv2.ContainerResourceMetricSourceType,
			autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType}))
	}
	return errs
}

func metricTarget(t *autoscalingv2.MetricTarget, w *fieldrules.Path) field.ErrorList {
	errs := fieldrules.OneOf(t.Type, w, "type", autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType)
	if t.Value != nil && t.Value.Sign() <= 0 {
		errs = append(errs, field.Invalid(w.ChildField("value"), t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() <= 0 {
		errs = append(errs, field.Invalid(w.ChildField("averageValue"), t.AverageValue, "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(w.ChildField("averageUtilization"), *t.AverageUtilization, "must be greater than 0"))
	}
	return errs
}

// The longest windows of scaling policies.
const (
	maxStabilization = 3600
	maxPolicyPeriod  = 1800
)

// validateScaling checks the rules of scaling up or down.
func validateScaling(r *autoscalingv2.HPAScalingRules, w *fieldrules.Path, name string) field.ErrorList {
	if r == nil {
		return nil
	}
	at := w.Child(name)
	var errs field.ErrorList
	if n := r.StabilizationWindowSeconds; n != nil {
		errs = append(errs, fieldrules.NonNegative(*n, &at, "stabilizationWindowSeconds")...)
		if *n > maxStabilization {
			errs = append(errs, field.Invalid(at.ChildField("stabilizationWindowSeconds"), *n, fmt.Sprintf("must be less than or equal to %v", maxStabilization)))
		}
	}
	errs = append(errs, fieldrules.OptionalOneOf(r.SelectPolicy, &at, "selectPolicy", autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect)...)
	list := at.Child("policies")
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(list.Field(), "must specify at least one Policy"))
	}
	for i, p := range r.Policies {
		item := list.Index(i)
		errs = append(errs, fieldrules.OneOf(p.Type, &item, "type", autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)...)
		errs = append(errs, fieldrules.Positive(p.Value, &item, "value")...)
		errs = append(errs, fieldrules.Positive(p.PeriodSeconds, &item, "periodSeconds")...)
		if p.PeriodSeconds > maxPolicyPeriod {
			errs = append(errs, field.Invalid(item.ChildField("periodSeconds"), p.PeriodSeconds, fmt.Sprintf("must be less than or equal to %v", maxPolicyPeriod)))
		}
	}
	return errs
}

func autoscalerRow(a *autoscalingv2.HorizontalPodAutoscaler) []any {
	least := "<unset>"
	if a.Spec.MinReplicas != nil {
		least = fieldrules.Decimal(*a.Spec.MinReplicas)
	}
	var targets []string
	for i := range a.Spec.Metrics {
		targets = append(targets, metricCell(&a.Spec.Metrics[i], a.Status.CurrentMetrics))
	}
	ref := a.Spec.ScaleTargetRef
	return []any{ref.Kind + "/" + ref.Name, columns.OrNone(strings.Join(targets, ", ")), least, int64(a.Spec.MaxReplicas), int64(a.Status.CurrentReplicas)}
}

// metricCell returns the current value and the target of a metric.
func metricCell(m *autoscalingv2.MetricSpec, current []autoscalingv2.MetricStatus) string {
	if m.Type != autoscalingv2.ResourceMetricSourceType || m.Resource == nil {
		return "<unknown>"
	}
	is := "<unknown>"
	for _, c := range current {
		if c.Resource == nil || c.Resource.Name != m.Resource.Name {
			continue
		}
		if u := c.Resource.Current.AverageUtilization; u != nil {
			is = fmt.Sprintf("%d%%", *u)
		} else if v := c.Resource.Current.AverageValue; v != nil {
			is = v.String()
		}
	}
	should := "<auto>"
	if u := m.Resource.Target.AverageUtilization; u != nil {
		should = fmt.Sprintf("%d%%", *u)
	} else if v := m.Resource.Target.AverageValue; v != nil {
		should = v.String()
	}
	return fmt.Sprintf("%s: %s/%s", m.Resource.Name, is, should)
}
