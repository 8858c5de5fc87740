package podautoscaler

import (
	"errors"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// proposal is the number of replicas that a metric calls for.
type proposal struct {
	replicas int32
	metric   string // in messages
	status   autoscalingv2.MetricStatus
}

// failure is the reason why a metric calls for no number of replicas.
type failure struct {
	reason string // of the condition and the event
	cause  error  // their message
	err    error  // in the event about all metrics
}

// propose returns the replicas that a metric calls for. existing are the replicas that the target has.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.computeReplicasForMetric
func (c *calculator) propose(spec *autoscalingv2.MetricSpec, s sample, existing int32) (proposal, *failure) {
	switch spec.Type {
	case autoscalingv2.ResourceMetricSourceType:
		return c.proposeByResource(spec.Resource.Name, "", &spec.Resource.Target, s)
	case autoscalingv2.ContainerResourceMetricSourceType:
		return c.proposeByResource(spec.ContainerResource.Name, spec.ContainerResource.Container, &spec.ContainerResource.Target, s)
	case autoscalingv2.PodsMetricSourceType:
		return c.proposeByPods(spec.Pods, s)
	case autoscalingv2.ObjectMetricSourceType:
		return c.proposeByObject(spec.Object, s, existing)
	case autoscalingv2.ExternalMetricSourceType:
		return c.proposeByExternal(spec.External, s, existing)
	}
	err := fmt.Errorf("unknown metric source type %q", string(spec.Type))
	return proposal{}, &failure{"InvalidMetricSourceType", err, err}
}

// proposeByResource returns the replicas for the usage of a resource by pods or, if container is not empty, by one container
// of each.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.computeStatusForResourceMetricGeneric
//upstream:pkg/controller/podautoscaler.HorizontalController.computeStatusForResourceMetric
//upstream:pkg/controller/podautoscaler.HorizontalController.computeStatusForContainerResourceMetric
func (c *calculator) proposeByResource(name corev1.ResourceName, container string, target *autoscalingv2.MetricTarget, s sample) (proposal, *failure) {
	failed := func(err error) (proposal, *failure) {
		if container != "" {
			return proposal{}, &failure{"FailedGetContainerResourceMetric", err, fmt.Errorf("failed to get %s container metric value: %w", container, err)}
		}
		return proposal{}, &failure{"FailedGetResourceMetric", err, fmt.Errorf("failed to get %s resource metric value: %w", name, err)}
	}
	var p proposal
	var value autoscalingv2.MetricValueStatus
	err := s.err
	switch {
	case target.AverageValue != nil:
		var average int64
		if err == nil {
			p.replicas, average, err = c.byAverage(s.pods, name, target.AverageValue.MilliValue())
		}
		if err != nil {
			return failed(fmt.Errorf("failed to get %s usage: %w", name, err))
		}
		p.metric = fmt.Sprintf("%s resource", name)
		value.AverageValue = quantityOf(name, average)
	case target.AverageUtilization != nil:
		var u utilization
		if err == nil {
			p.replicas, u, err = c.byUtilization(s.pods, name, container, *target.AverageUtilization)
		}
		if err != nil {
			return failed(fmt.Errorf("failed to get %s utilization: %w", name, err))
		}
		p.metric = fmt.Sprintf("%s resource utilization (percentage of request)", name)
		if container != "" {
			p.metric = fmt.Sprintf("%s container resource utilization (percentage of request)", name)
		}
		value.AverageUtilization, value.AverageValue = &u.percent, quantityOf(name, u.raw)
	default:
		return failed(errors.New("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set"))
	}
	p.status = autoscalingv2.MetricStatus{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{Name: name, Current: value}}
	if container != "" {
		p.status = autoscalingv2.MetricStatus{Type: autoscalingv2.ContainerResourceMetricSourceType,
			ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{Name: name, Container: container, Current: value}}
	}
	return p, nil
}

// quantityOf returns an amount of a resource.
//
//upstream:pkg/controller/podautoscaler.buildQuantity
func quantityOf(name corev1.ResourceName, thousandths int64) *resource.Quantity {
	if name == corev1.ResourceMemory {
		return resource.NewMilliQuantity(thousandths, resource.BinarySI)
	}
	return milli(thousandths)
}

func milli(thousandths int64) *resource.Quantity {
	return resource.NewMilliQuantity(thousandths, resource.DecimalSI)
}

// proposeByPods returns the replicas for a custom metric of the pods.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.computeStatusForPodsMetric
func (c *calculator) proposeByPods(source *autoscalingv2.PodsMetricSource, s sample) (proposal, *failure) {
	var p proposal
	var average int64
	err := s.err
	if err == nil {
		p.replicas, average, err = c.byAverage(s.pods, "", source.Target.AverageValue.MilliValue())
	}
	if err != nil {
		return proposal{}, &failure{"FailedGetPodsMetric", err, fmt.Errorf("failed to get pods metric value: %w", err)}
	}
	p.metric = "pods metric " + source.Metric.Name
	p.status = autoscalingv2.MetricStatus{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricStatus{
		Metric: source.Metric, Current: autoscalingv2.MetricValueStatus{AverageValue: milli(average)}}}
	return p, nil
}

// proposeByObject returns the replicas for a custom metric of an object.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.computeStatusForObjectMetric
func (c *calculator) proposeByObject(source *autoscalingv2.ObjectMetricSource, s sample, existing int32) (proposal, *failure) {
	failed := func(cause, err error) (proposal, *failure) {
		return proposal{}, &failure{"FailedGetObjectMetric", cause, fmt.Errorf("failed to get object metric value: %w", err)}
	}
	var p proposal
	var value autoscalingv2.MetricValueStatus
	target, err := &source.Target, s.err
	switch {
	case target.Type == autoscalingv2.ValueMetricType && target.Value != nil:
		if err == nil {
			p.replicas, err = c.byRatio(float64(s.value) / float64(target.Value.MilliValue()))
		}
		if err != nil {
			return failed(err, err)
		}
		p.metric = fmt.Sprintf("%s metric %s", source.DescribedObject.Kind, source.Metric.Name)
		value.Value = milli(s.value)
	case target.Type == autoscalingv2.AverageValueMetricType && target.AverageValue != nil:
		if err != nil {
			return failed(err, fmt.Errorf("failed to get %s object metric: %w", source.Metric.Name, err))
		}
		var share int64
		p.replicas, share = c.byShare(s.value, target.AverageValue.MilliValue(), existing)
		p.metric = describe(&source.Metric)
		value.AverageValue = milli(share)
	default:
		err := errors.New("invalid object metric source: neither a value target nor an average value target was set")
		return failed(err, err)
	}
	p.status = autoscalingv2.MetricStatus{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricStatus{
		DescribedObject: source.DescribedObject, Metric: source.Metric, Current: value}}
	return p, nil
}

// describe returns a metric in Kubernetes' message, which calls metrics of objects external too.
func describe(m *autoscalingv2.MetricIdentifier) string {
	return fmt.Sprintf("external metric %s(%+v)", m.Name, m.Selector)
}

// proposeByExternal returns the replicas for an external metric.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.computeStatusForExternalMetric
func (c *calculator) proposeByExternal(source *autoscalingv2.ExternalMetricSource, s sample, existing int32) (proposal, *failure) {
	failed := func(cause, err error) (proposal, *failure) {
		return proposal{}, &failure{"FailedGetExternalMetric", cause, fmt.Errorf("failed to get %s external metric value: %w", source.Metric.Name, err)}
	}
	p := proposal{metric: describe(&source.Metric)}
	var value autoscalingv2.MetricValueStatus
	target, err := &source.Target, s.err
	switch {
	case target.AverageValue != nil:
		if err != nil {
			return failed(err, fmt.Errorf("failed to get %s external metric: %w", source.Metric.Name, err))
		}
		var share int64
		p.replicas, share = c.byShare(s.value, target.AverageValue.MilliValue(), existing)
		value.AverageValue = milli(share)
	case target.Value != nil:
		if err == nil {
			p.replicas, err = c.byRatio(float64(s.value) / float64(target.Value.MilliValue()))
		}
		if err != nil {
			return failed(err, fmt.Errorf("failed to get external metric %s: %w", source.Metric.Name, err))
		}
		value.Value = milli(s.value)
	default:
		err := errors.New("invalid external metric source: neither a value target nor an average value target was set")
		return failed(err, err)
	}
	p.status = autoscalingv2.MetricStatus{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricStatus{
		Metric: source.Metric, Current: value}}
	return p, nil
}
