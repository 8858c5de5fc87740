package autoscaling

import (
	"encoding/json"
	"maps"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/apiserver/kinds"
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
	//upstream:pkg/apis/autoscaling.ToleranceScaleDownAnnotation
	toleranceDownAnnotation = "autoscaling.alpha.kubernetes.io/scale-down-tolerance"
	//upstream:pkg/apis/autoscaling.ToleranceScaleUpAnnotation
	toleranceUpAnnotation = "autoscaling.alpha.kubernetes.io/scale-up-tolerance"
)

// Convert registers the conversions between the autoscalers of both versions in the scheme.
func Convert(s *runtime.Scheme) error {
	return kinds.AddConversions(s, kinds.Infallible(toV2), toV1,
		func(l *autoscalingv1.HorizontalPodAutoscalerList) (*metav1.ListMeta, *[]autoscalingv1.HorizontalPodAutoscaler) {
			return &l.ListMeta, &l.Items
		},
		func(l *autoscalingv2.HorizontalPodAutoscalerList) (*metav1.ListMeta, *[]autoscalingv2.HorizontalPodAutoscaler) {
			return &l.ListMeta, &l.Items
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
	metrics, _ := decoded[[]autoscalingv1.MetricSpec](a.Annotations, metricsAnnotation)
	for i := range metrics {
		out.Spec.Metrics = append(out.Spec.Metrics, metricToV2(&metrics[i]))
	}
	if s.TargetCPUUtilizationPercentage != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuUtilization(s.TargetCPUUtilizationPercentage))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{cpuUtilization(new(defaultUtilization))}
	}
	if behavior, ok := decoded[encodedBehavior](a.Annotations, behaviorAnnotation); ok && behavior != (encodedBehavior{}) {
		out.Spec.Behavior = behavior.decoded()
	}
	if current, ok := decoded[[]autoscalingv1.MetricStatus](a.Annotations, currentMetricsAnnotation); ok {
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
	conditions, _ := decoded[[]autoscalingv1.HorizontalPodAutoscalerCondition](a.Annotations, conditionsAnnotation)
	for _, c := range conditions {
		out.Status.Conditions = append(out.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
			Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
		})
	}
	out.Annotations = withoutAnnotations(a.Annotations)
}

// withoutAnnotations removes the annotations of the conversion, and two that only older versions of Kubernetes write.
//
//upstream:pkg/apis/autoscaling.DropRoundTripHorizontalPodAutoscalerAnnotations
func withoutAnnotations(annotations map[string]string) map[string]string {
	isOurs := func(key string) bool {
		return slices.Contains([]string{metricsAnnotation, currentMetricsAnnotation, conditionsAnnotation, behaviorAnnotation,
			toleranceDownAnnotation, toleranceUpAnnotation}, key)
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

// decoded returns the value of an annotation, or false if the annotation does not exist or is no such value.
func decoded[T any](annotations map[string]string, key string) (T, bool) {
	var value, none T
	text, ok := annotations[key]
	if !ok || json.Unmarshal([]byte(text), &value) != nil {
		return none, false
	}
	return value, true
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
