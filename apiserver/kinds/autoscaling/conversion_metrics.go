package autoscaling

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// metricToV1 converts a metric for the annotation of autoscaling/v1.
//
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_ObjectMetricSource_To_v1_ObjectMetricSource
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_PodsMetricSource_To_v1_PodsMetricSource
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_ResourceMetricSource_To_v1_ResourceMetricSource
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_ContainerResourceMetricSource_To_v1_ContainerResourceMetricSource
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_ExternalMetricSource_To_v1_ExternalMetricSource
func metricToV1(m *autoscalingv2.MetricSpec) autoscalingv1.MetricSpec {
	out := autoscalingv1.MetricSpec{Type: autoscalingv1.MetricSourceType(m.Type)}
	if s := m.Object; s != nil {
		out.Object = &autoscalingv1.ObjectMetricSource{
			Target: autoscalingv1.CrossVersionObjectReference(s.DescribedObject), MetricName: s.Metric.Name, Selector: s.Metric.Selector,
			TargetValue: valueOf(s.Target.Value), AverageValue: s.Target.AverageValue,
		}
	}
	if s := m.Pods; s != nil {
		out.Pods = &autoscalingv1.PodsMetricSource{
			MetricName: s.Metric.Name, Selector: s.Metric.Selector, TargetAverageValue: valueOf(s.Target.AverageValue),
		}
	}
	if s := m.Resource; s != nil {
		out.Resource = &autoscalingv1.ResourceMetricSource{
			Name: s.Name, TargetAverageUtilization: s.Target.AverageUtilization, TargetAverageValue: s.Target.AverageValue,
		}
	}
	if s := m.ContainerResource; s != nil {
		out.ContainerResource = &autoscalingv1.ContainerResourceMetricSource{
			Name: s.Name, Container: s.Container,
			TargetAverageUtilization: s.Target.AverageUtilization, TargetAverageValue: s.Target.AverageValue,
		}
	}
	if s := m.External; s != nil {
		out.External = &autoscalingv1.ExternalMetricSource{
			MetricName: s.Metric.Name, MetricSelector: s.Metric.Selector,
			TargetValue: s.Target.Value, TargetAverageValue: s.Target.AverageValue,
		}
	}
	return out
}

// metricToV2 converts a metric of the annotation of autoscaling/v1. The values that are set decide the type of the target.
//
//upstream:pkg/apis/autoscaling/v1.Convert_v1_ObjectMetricSource_To_autoscaling_ObjectMetricSource
//upstream:pkg/apis/autoscaling/v1.Convert_v1_PodsMetricSource_To_autoscaling_PodsMetricSource
//upstream:pkg/apis/autoscaling/v1.Convert_v1_ResourceMetricSource_To_autoscaling_ResourceMetricSource
//upstream:pkg/apis/autoscaling/v1.Convert_v1_ContainerResourceMetricSource_To_autoscaling_ContainerResourceMetricSource
//upstream:pkg/apis/autoscaling/v1.Convert_v1_ExternalMetricSource_To_autoscaling_ExternalMetricSource
func metricToV2(m *autoscalingv1.MetricSpec) autoscalingv2.MetricSpec {
	out := autoscalingv2.MetricSpec{Type: autoscalingv2.MetricSourceType(m.Type)}
	if s := m.Object; s != nil {
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: s.AverageValue}
		if s.AverageValue == nil {
			target.Type = autoscalingv2.ValueMetricType
		}
		if s.AverageValue == nil || !s.TargetValue.IsZero() {
			target.Value = &s.TargetValue
		}
		out.Object = &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(s.Target), Target: target,
			Metric: autoscalingv2.MetricIdentifier{Name: s.MetricName, Selector: s.Selector},
		}
	}
	if s := m.Pods; s != nil {
		out.Pods = &autoscalingv2.PodsMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: s.MetricName, Selector: s.Selector},
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &s.TargetAverageValue},
		}
	}
	if s := m.Resource; s != nil {
		out.Resource = &autoscalingv2.ResourceMetricSource{
			Name: s.Name, Target: resourceTarget(s.TargetAverageUtilization, s.TargetAverageValue),
		}
	}
	if s := m.ContainerResource; s != nil {
		out.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{
			Name: s.Name, Container: s.Container, Target: resourceTarget(s.TargetAverageUtilization, s.TargetAverageValue),
		}
	}
	if s := m.External; s != nil {
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: s.TargetValue, AverageValue: s.TargetAverageValue}
		if s.TargetValue == nil {
			target.Type = autoscalingv2.AverageValueMetricType
		}
		out.External = &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: s.MetricName, Selector: s.MetricSelector}, Target: target,
		}
	}
	return out
}

func resourceTarget(utilization *int32, value *resource.Quantity) autoscalingv2.MetricTarget {
	target := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: utilization, AverageValue: value}
	if utilization == nil {
		target.Type = autoscalingv2.AverageValueMetricType
	}
	return target
}

// metricStatusToV1 converts the status of a metric for the annotation of autoscaling/v1.
//
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_ObjectMetricStatus_To_v1_ObjectMetricStatus
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_PodsMetricStatus_To_v1_PodsMetricStatus
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_ResourceMetricStatus_To_v1_ResourceMetricStatus
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_ContainerResourceMetricStatus_To_v1_ContainerResourceMetricStatus
//upstream:pkg/apis/autoscaling/v1.Convert_autoscaling_ExternalMetricStatus_To_v1_ExternalMetricStatus
func metricStatusToV1(m *autoscalingv2.MetricStatus) autoscalingv1.MetricStatus {
	out := autoscalingv1.MetricStatus{Type: autoscalingv1.MetricSourceType(m.Type)}
	if s := m.Object; s != nil {
		out.Object = &autoscalingv1.ObjectMetricStatus{
			Target: autoscalingv1.CrossVersionObjectReference(s.DescribedObject), MetricName: s.Metric.Name, Selector: s.Metric.Selector,
			CurrentValue: valueOf(s.Current.Value), AverageValue: s.Current.AverageValue,
		}
	}
	if s := m.Pods; s != nil {
		out.Pods = &autoscalingv1.PodsMetricStatus{
			MetricName: s.Metric.Name, Selector: s.Metric.Selector, CurrentAverageValue: valueOf(s.Current.AverageValue),
		}
	}
	if s := m.Resource; s != nil {
		out.Resource = &autoscalingv1.ResourceMetricStatus{
			Name: s.Name, CurrentAverageUtilization: s.Current.AverageUtilization, CurrentAverageValue: valueOf(s.Current.AverageValue),
		}
	}
	if s := m.ContainerResource; s != nil {
		out.ContainerResource = &autoscalingv1.ContainerResourceMetricStatus{
			Name: s.Name, Container: s.Container,
			CurrentAverageUtilization: s.Current.AverageUtilization, CurrentAverageValue: valueOf(s.Current.AverageValue),
		}
	}
	if s := m.External; s != nil {
		out.External = &autoscalingv1.ExternalMetricStatus{
			MetricName: s.Metric.Name, MetricSelector: s.Metric.Selector,
			CurrentValue: valueOf(s.Current.Value), CurrentAverageValue: s.Current.AverageValue,
		}
	}
	return out
}

// metricStatusToV2 converts the status of a metric of the annotation of autoscaling/v1.
//
//upstream:pkg/apis/autoscaling/v1.Convert_v1_ObjectMetricStatus_To_autoscaling_ObjectMetricStatus
//upstream:pkg/apis/autoscaling/v1.Convert_v1_PodsMetricStatus_To_autoscaling_PodsMetricStatus
//upstream:pkg/apis/autoscaling/v1.Convert_v1_ResourceMetricStatus_To_autoscaling_ResourceMetricStatus
//upstream:pkg/apis/autoscaling/v1.Convert_v1_ContainerResourceMetricStatus_To_autoscaling_ContainerResourceMetricStatus
//upstream:pkg/apis/autoscaling/v1.Convert_v1_ExternalMetricStatus_To_autoscaling_ExternalMetricStatus
func metricStatusToV2(m *autoscalingv1.MetricStatus) autoscalingv2.MetricStatus {
	out := autoscalingv2.MetricStatus{Type: autoscalingv2.MetricSourceType(m.Type)}
	if s := m.Object; s != nil {
		out.Object = &autoscalingv2.ObjectMetricStatus{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(s.Target),
			Metric:          autoscalingv2.MetricIdentifier{Name: s.MetricName, Selector: s.Selector},
			Current:         autoscalingv2.MetricValueStatus{Value: &s.CurrentValue, AverageValue: s.AverageValue},
		}
	}
	if s := m.Pods; s != nil {
		out.Pods = &autoscalingv2.PodsMetricStatus{
			Metric:  autoscalingv2.MetricIdentifier{Name: s.MetricName, Selector: s.Selector},
			Current: autoscalingv2.MetricValueStatus{AverageValue: &s.CurrentAverageValue},
		}
	}
	if s := m.Resource; s != nil {
		out.Resource = &autoscalingv2.ResourceMetricStatus{
			Name:    s.Name,
			Current: autoscalingv2.MetricValueStatus{AverageUtilization: s.CurrentAverageUtilization, AverageValue: &s.CurrentAverageValue},
		}
	}
	if s := m.ContainerResource; s != nil {
		out.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{
			Name: s.Name, Container: s.Container,
			Current: autoscalingv2.MetricValueStatus{AverageUtilization: s.CurrentAverageUtilization, AverageValue: &s.CurrentAverageValue},
		}
	}
	if s := m.External; s != nil {
		out.External = &autoscalingv2.ExternalMetricStatus{
			Metric:  autoscalingv2.MetricIdentifier{Name: s.MetricName, Selector: s.MetricSelector},
			Current: autoscalingv2.MetricValueStatus{Value: &s.CurrentValue, AverageValue: s.CurrentAverageValue},
		}
	}
	return out
}

func valueOf(q *resource.Quantity) resource.Quantity {
	if q == nil {
		return resource.Quantity{}
	}
	return *q
}
