package autoscaling

import (
	"encoding/json"
	"maps"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// The annotations for values without a field in autoscaling/v1.
const (
	//upstream:pkg/apis/autoscaling.MetricSpecsAnnotation
	metricsAnnotation = "autoscaling.alpha.kubernetes.io/metrics"
	//upstream:pkg/apis/autoscaling.MetricStatusesAnnotation
	currentMetricsAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics"
	//upstream:pkg/apis/autoscaling.HorizontalPodAutoscalerConditionsAnnotation
	conditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"
	//upstream:pkg/apis/autoscaling.BehaviorSpecsAnnotation
	behaviorAnnotation = "autoscaling.alpha.kubernetes.io/behavior"
)

// Convert registers the conversions between the autoscalers of both versions in the scheme.
func Convert(s *runtime.Scheme) error {
	if err := s.AddConversionFunc((*autoscalingv1.HorizontalPodAutoscaler)(nil), (*autoscalingv2.HorizontalPodAutoscaler)(nil), func(in, out any, _ conversion.Scope) error {
		toV2(in.(*autoscalingv1.HorizontalPodAutoscaler), out.(*autoscalingv2.HorizontalPodAutoscaler))
		return nil
	}); err != nil {
		return err
	}
	if err := s.AddConversionFunc((*autoscalingv2.HorizontalPodAutoscaler)(nil), (*autoscalingv1.HorizontalPodAutoscaler)(nil), func(in, out any, _ conversion.Scope) error {
		return toV1(in.(*autoscalingv2.HorizontalPodAutoscaler), out.(*autoscalingv1.HorizontalPodAutoscaler))
	}); err != nil {
		return err
	}
	if err := s.AddConversionFunc((*autoscalingv1.HorizontalPodAutoscalerList)(nil), (*autoscalingv2.HorizontalPodAutoscalerList)(nil), func(in, out any, _ conversion.Scope) error {
		from, to := in.(*autoscalingv1.HorizontalPodAutoscalerList), out.(*autoscalingv2.HorizontalPodAutoscalerList)
		to.ListMeta, to.Items = from.ListMeta, make([]autoscalingv2.HorizontalPodAutoscaler, len(from.Items))
		for i := range from.Items {
			toV2(&from.Items[i], &to.Items[i])
		}
		return nil
	}); err != nil {
		return err
	}
	return s.AddConversionFunc((*autoscalingv2.HorizontalPodAutoscalerList)(nil), (*autoscalingv1.HorizontalPodAutoscalerList)(nil), func(in, out any, _ conversion.Scope) error {
		from, to := in.(*autoscalingv2.HorizontalPodAutoscalerList), out.(*autoscalingv1.HorizontalPodAutoscalerList)
		to.ListMeta, to.Items = from.ListMeta, make([]autoscalingv1.HorizontalPodAutoscaler, len(from.Items))
		for i := range from.Items {
			if err := toV1(&from.Items[i], &to.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// toV1 converts an autoscaler. The result shares memory with it. The CPU utilization becomes a field; the other metrics, the
// behavior and the status of metrics become annotations.
//
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_HorizontalPodAutoscaler_To_v1_HorizontalPodAutoscaler
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_HorizontalPodAutoscalerSpec_To_v1_HorizontalPodAutoscalerSpec
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_HorizontalPodAutoscalerStatus_To_v1_HorizontalPodAutoscalerStatus
func toV1(a *autoscalingv2.HorizontalPodAutoscaler, out *autoscalingv1.HorizontalPodAutoscaler) error {
	s := &a.Spec
	*out = autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: a.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(s.ScaleTargetRef), MinReplicas: s.MinReplicas, MaxReplicas: s.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: a.Status.ObservedGeneration, LastScaleTime: a.Status.LastScaleTime,
			CurrentReplicas: a.Status.CurrentReplicas, DesiredReplicas: a.Status.DesiredReplicas,
		},
	}
	var metrics []autoscalingv1.MetricSpec
	for i := range s.Metrics {
		m := &s.Metrics[i]
		switch {
		case !isUtilization(m):
			metrics = append(metrics, metricToV1(m))
		case out.Spec.TargetCPUUtilizationPercentage == nil:
			out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
		}
	}
	var current []autoscalingv1.MetricStatus
	for i := range a.Status.CurrentMetrics {
		m := &a.Status.CurrentMetrics[i]
		current = append(current, metricStatusToV1(m))
		if r := m.Resource; m.Type == autoscalingv2.ResourceMetricSourceType && r != nil && r.Name == corev1.ResourceCPU && r.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = r.Current.AverageUtilization
		}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	for _, c := range a.Status.Conditions {
		conditions = append(conditions, autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
		})
	}
	var err error
	out.Annotations, err = encodedAnnotations(a, metrics, current, conditions)
	return err
}

// encodedAnnotations returns the annotations of an autoscaler and of the conversion.
func encodedAnnotations(a *autoscalingv2.HorizontalPodAutoscaler, metrics []autoscalingv1.MetricSpec,
	current []autoscalingv1.MetricStatus, conditions []autoscalingv1.HorizontalPodAutoscalerCondition) (map[string]string, error) {
	annotations := withoutAnnotations(a.Annotations)
	for _, part := range [...]struct {
		key     string
		present bool
		value   any
	}{
		{metricsAnnotation, len(metrics) > 0, metrics},
		{currentMetricsAnnotation, len(current) > 0, current},
		{conditionsAnnotation, len(conditions) > 0, conditions},
		{behaviorAnnotation, a.Spec.Behavior != nil, encodedBehaviorOf(a.Spec.Behavior)},
	} {
		if !part.present {
			continue
		}
		text, err := json.Marshal(part.value)
		if err != nil {
			return nil, err
		}
		if annotations = maps.Clone(annotations); annotations == nil {
			annotations = map[string]string{}
		}
		annotations[part.key] = string(text)
	}
	return annotations, nil
}

// toV2 converts an autoscaler. The result shares memory with it. An annotation that cannot be decoded is dropped.
//
//upstream:pkg/apis/autoscaling/v1.Convert_v1_HorizontalPodAutoscaler_To_autoscaling_HorizontalPodAutoscaler
//upstream:pkg/apis/autoscaling/v1.Convert_v1_HorizontalPodAutoscalerSpec_To_autoscaling_HorizontalPodAutoscalerSpec
//upstream:pkg/apis/autoscaling/v1.Convert_v1_HorizontalPodAutoscalerStatus_To_autoscaling_HorizontalPodAutoscalerStatus
func toV2(a *autoscalingv1.HorizontalPodAutoscaler, out *autoscalingv2.HorizontalPodAutoscaler) {
	s := &a.Spec
	*out = autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: a.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(s.ScaleTargetRef), MinReplicas: s.MinReplicas, MaxReplicas: s.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: a.Status.ObservedGeneration, LastScaleTime: a.Status.LastScaleTime,
			CurrentReplicas: a.Status.CurrentReplicas, DesiredReplicas: a.Status.DesiredReplicas,
		},
	}
	var metrics []autoscalingv1.MetricSpec
	decode(a.Annotations, metricsAnnotation, &metrics)
	for i := range metrics {
		out.Spec.Metrics = append(out.Spec.Metrics, metricToV2(&metrics[i]))
	}
	if s.TargetCPUUtilizationPercentage != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuUtilization(s.TargetCPUUtilizationPercentage))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{cpuUtilization(new(defaultUtilization))}
	}
	var behavior encodedBehavior
	if decode(a.Annotations, behaviorAnnotation, &behavior) && behavior != (encodedBehavior{}) {
		out.Spec.Behavior = behavior.decoded()
	}
	var current []autoscalingv1.MetricStatus
	if decode(a.Annotations, currentMetricsAnnotation, &current) {
		for i := range current {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, metricStatusToV2(&current[i]))
		}
	} else if u := a.Status.CurrentCPUUtilizationPercentage; u != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: u},
			},
		}}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	decode(a.Annotations, conditionsAnnotation, &conditions)
	for _, c := range conditions {
		out.Status.Conditions = append(out.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
			Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
		})
	}
	out.Annotations = withoutAnnotations(a.Annotations)
}

// withoutAnnotations removes the annotations of the conversion.
//
//upstream:pkg/apis/autoscaling.DropRoundTripHorizontalPodAutoscalerAnnotations
func withoutAnnotations(annotations map[string]string) map[string]string {
	isOurs := func(key string) bool {
		return slices.Contains([]string{metricsAnnotation, currentMetricsAnnotation, conditionsAnnotation, behaviorAnnotation}, key)
	}
	for key := range annotations {
		if isOurs(key) {
			rest := maps.Clone(annotations)
			maps.DeleteFunc(rest, func(key, _ string) bool { return isOurs(key) })
			return rest
		}
	}
	return annotations
}

// decode decodes an annotation, and reports whether the annotation exists and is valid.
func decode(annotations map[string]string, key string, into any) bool {
	text, ok := annotations[key]
	return ok && json.Unmarshal([]byte(text), into) == nil
}

// isUtilization reports whether a metric is the CPU utilization, the only metric with a field in autoscaling/v1.
func isUtilization(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU &&
		m.Resource.Target.AverageUtilization != nil
}

func cpuUtilization(percent *int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: percent},
		},
	}
}

// encodedBehavior is a behavior as JSON in the annotation. kube-apiserver encodes its internal type, so the keys are Go field names.
//
//upstream:pkg/apis/autoscaling.HorizontalPodAutoscalerBehavior
type encodedBehavior struct{ ScaleUp, ScaleDown *encodedRules }

// encodedRules are the scaling rules of one direction.
//
//upstream:pkg/apis/autoscaling.HPAScalingRules
type encodedRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []encodedPolicy
	Tolerance                  *resource.Quantity
}

//upstream:pkg/apis/autoscaling.HPAScalingPolicy
type encodedPolicy struct {
	Type                 autoscalingv2.HPAScalingPolicyType
	Value, PeriodSeconds int32
}

func encodedBehaviorOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior) *encodedBehavior {
	if b == nil {
		return nil
	}
	encode := func(r *autoscalingv2.HPAScalingRules) *encodedRules {
		if r == nil {
			return nil
		}
		e := &encodedRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
		for _, p := range r.Policies {
			e.Policies = append(e.Policies, encodedPolicy{p.Type, p.Value, p.PeriodSeconds})
		}
		return e
	}
	return &encodedBehavior{encode(b.ScaleUp), encode(b.ScaleDown)}
}

func (b *encodedBehavior) decoded() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	decode := func(e *encodedRules) *autoscalingv2.HPAScalingRules {
		if e == nil {
			return nil
		}
		r := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: e.StabilizationWindowSeconds, SelectPolicy: e.SelectPolicy, Tolerance: e.Tolerance}
		for _, p := range e.Policies {
			r.Policies = append(r.Policies, autoscalingv2.HPAScalingPolicy{Type: p.Type, Value: p.Value, PeriodSeconds: p.PeriodSeconds})
		}
		return r
	}
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: decode(b.ScaleUp), ScaleDown: decode(b.ScaleDown)}
}
