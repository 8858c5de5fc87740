package podautoscaler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	custom "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	customclient "k8s.io/metrics/pkg/client/custom_metrics"
	externalclient "k8s.io/metrics/pkg/client/external_metrics"
)

// customWindow is the time that a custom metric without a window covers.
//
//upstream:pkg/controller/podautoscaler/metrics.metricServerDefaultMetricWindow
const customWindow = time.Minute

// metrics reads the metrics APIs. An API that is not served is an error.
//
//upstream:pkg/controller/podautoscaler/metrics.restMetricsClient
type metrics struct {
	resource func() (resourceclient.MetricsV1beta1Interface, error)
	custom   func() (customclient.CustomMetricsClient, error)
	external func() (externalclient.ExternalMetricsClient, error)
}

// newMetrics returns clients of the metrics APIs, which are made when they are needed.
//
//upstream:cmd/kube-controller-manager/app.newHorizontalPodAutoscalerController
func newMetrics(cfg *rest.Config, mapper meta.RESTMapper) *metrics {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return &metrics{
		resource: sync.OnceValues(func() (resourceclient.MetricsV1beta1Interface, error) { return resourceclient.NewForConfig(cfg) }),
		external: sync.OnceValues(func() (externalclient.ExternalMetricsClient, error) { return externalclient.NewForConfig(cfg) }),
		custom: func() (customclient.CustomMetricsClient, error) { // anew, since it remembers the version of the API
			versions, err := discovery.NewDiscoveryClientForConfig(cfg)
			if err != nil {
				return nil, err
			}
			return customclient.NewForConfig(cfg, mapper, customclient.NewAvailableAPIsGetter(versions)), nil
		},
	}
}

// sample is the answer of a metrics API for one metric of a scaler.
type sample struct {
	pods  map[string]podMetric // of a resource or pods metric, by the name of the pod
	value int64                // of an object metric, or the sum of an external metric, in thousandths
	err   error
}

// sample reads a metric of the pods that a selector selects.
func (m *metrics) sample(ctx context.Context, spec *autoscalingv2.MetricSpec, namespace string, selector labels.Selector) (s sample) {
	switch spec.Type {
	case autoscalingv2.ResourceMetricSourceType:
		s.pods, s.err = m.ofResource(ctx, spec.Resource.Name, namespace, selector, "")
	case autoscalingv2.ContainerResourceMetricSourceType:
		s.pods, s.err = m.ofResource(ctx, spec.ContainerResource.Name, namespace, selector, spec.ContainerResource.Container)
	case autoscalingv2.PodsMetricSourceType:
		s.pods, s.err = m.ofPods(&spec.Pods.Metric, namespace, selector)
	case autoscalingv2.ObjectMetricSourceType:
		s.value, s.err = m.ofObject(&spec.Object.Metric, namespace, &spec.Object.DescribedObject)
	case autoscalingv2.ExternalMetricSourceType:
		s.value, s.err = m.ofExternal(&spec.External.Metric, namespace)
	}
	return s
}

// ofResource reads the usage of a resource by pods or, if container is not empty, by one container of each.
//
//upstream:pkg/controller/podautoscaler/metrics.resourceMetricsClient.GetResourceMetric
func (m *metrics) ofResource(ctx context.Context, name corev1.ResourceName, namespace string, selector labels.Selector,
	container string) (map[string]podMetric, error) {
	failed := func(err error) (map[string]podMetric, error) {
		return nil, fmt.Errorf("unable to get metrics for resource %s: %w", name, err)
	}
	c, err := m.resource()
	if err != nil {
		return failed(err)
	}
	list, err := c.PodMetricses(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	switch {
	case err != nil:
		return failed(fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err))
	case len(list.Items) == 0:
		return failed(errors.New("no metrics returned from resource metrics API"))
	}
	pods := map[string]podMetric{}
	for i := range list.Items {
		pod := &list.Items[i]
		if value, ok := usageOf(pod, name, container); ok {
			pods[pod.Name] = podMetric{pod.Timestamp.Time, pod.Window.Duration, value}
		}
	}
	return pods, nil
}

// usageOf returns the usage of a resource by a container or, if its name is empty, by all containers. ok is false if one has no
// metric.
//
//upstream:pkg/controller/podautoscaler/metrics.getContainerMetrics
//upstream:pkg/controller/podautoscaler/metrics.getPodMetrics
func usageOf(pod *metricsv1beta1.PodMetrics, name corev1.ResourceName, container string) (total int64, ok bool) {
	for _, c := range pod.Containers {
		q, found := c.Usage[name]
		switch {
		case container == "" && !found:
			return 0, false
		case container == "" || found && c.Name == container:
			total, ok = total+q.MilliValue(), true
		}
	}
	return total, ok
}

// ofPods reads a custom metric of pods.
//
//upstream:pkg/controller/podautoscaler/metrics.customMetricsClient.GetRawMetric
func (m *metrics) ofPods(metric *autoscalingv2.MetricIdentifier, namespace string, selector labels.Selector) (map[string]podMetric, error) {
	failed := func(err error) (map[string]podMetric, error) {
		return nil, fmt.Errorf("unable to get metric %s: %w", metric.Name, err)
	}
	of, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return nil, err
	}
	c, err := m.custom()
	if err != nil {
		return failed(err)
	}
	list, err := c.NamespacedMetrics(namespace).GetForObjects(schema.GroupKind{Kind: "Pod"}, selector, metric.Name, of)
	switch {
	case err != nil:
		return failed(fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err))
	case len(list.Items) == 0:
		return failed(errors.New("no metrics returned from custom metrics API"))
	}
	pods := map[string]podMetric{}
	for i := range list.Items {
		v := &list.Items[i]
		window := customWindow
		if v.WindowSeconds != nil {
			window = time.Duration(*v.WindowSeconds) * time.Second
		}
		pods[v.DescribedObject.Name] = podMetric{v.Timestamp.Time, window, v.Value.MilliValue()}
	}
	return pods, nil
}

// ofObject reads a custom metric of an object in the namespace, or of the namespace itself.
//
//upstream:pkg/controller/podautoscaler/metrics.customMetricsClient.GetObjectMetric
func (m *metrics) ofObject(metric *autoscalingv2.MetricIdentifier, namespace string,
	of *autoscalingv2.CrossVersionObjectReference) (int64, error) {
	selector, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return 0, err
	}
	c, err := m.custom()
	if err == nil {
		kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind()
		var value *custom.MetricValue
		if kind == (schema.GroupKind{Kind: "Namespace"}) {
			value, err = c.RootScopedMetrics().GetForObject(kind, namespace, metric.Name, selector)
		} else {
			value, err = c.NamespacedMetrics(namespace).GetForObject(kind, of.Name, metric.Name, selector)
		}
		if err == nil {
			return value.Value.MilliValue(), nil
		}
		err = fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	return 0, fmt.Errorf("unable to get metric %s on %s %s/%s: %w", metric.Name, of.Kind, namespace, of.Name, err)
}

// ofExternal reads the sum of an external metric.
//
//upstream:pkg/controller/podautoscaler/metrics.externalMetricsClient.GetExternalMetric
//upstream:pkg/controller/podautoscaler.ReplicaCalculator.GetExternalMetricReplicas
func (m *metrics) ofExternal(metric *autoscalingv2.MetricIdentifier, namespace string) (int64, error) {
	selector, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return 0, err
	}
	failed := func(err error) (int64, error) {
		return 0, fmt.Errorf("unable to get external metric %s/%s/%+v: %w", namespace, metric.Name, metric.Selector, err)
	}
	c, err := m.external()
	if err != nil {
		return failed(err)
	}
	list, err := c.NamespacedMetrics(namespace).List(metric.Name, selector)
	switch {
	case err != nil:
		return failed(fmt.Errorf("unable to fetch metrics from external metrics API: %w", err))
	case len(list.Items) == 0:
		return failed(errors.New("no metrics returned from external metrics API"))
	}
	sum := int64(0)
	for i := range list.Items {
		value := list.Items[i].Value.MilliValue()
		if value > 0 && sum > math.MaxInt64-value {
			return math.MaxInt64, nil
		}
		sum += value
	}
	return sum, nil
}
