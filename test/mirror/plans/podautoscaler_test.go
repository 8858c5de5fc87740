package plans

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	scaleclient "k8s.io/client-go/scale"
	upstream "k8s.io/kubernetes/pkg/controller/podautoscaler"
	upstreammetrics "k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	custom "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	customclient "k8s.io/metrics/pkg/client/custom_metrics"
	externalclient "k8s.io/metrics/pkg/client/external_metrics"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/podautoscaler"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestHorizontalPodAutoscalers compares to which size a HorizontalPodAutoscaler scales its target, and its status. Both
// controllers read the same metrics by requests to the metrics APIs.
func TestHorizontalPodAutoscalers(t *testing.T) {
	autoscalers(t, 1500, nil)
}

// TestHorizontalPodAutoscalersOverTime compares the same while the metrics, the pods and the specification change for some
// minutes.
func TestHorizontalPodAutoscalersOverTime(t *testing.T) {
	autoscalers(t, 150, changeAutoscaler)
}

func autoscalers(t *testing.T, worlds int, later func(s *random.Source, object client.Object) []change) {
	comparison{
		name:   "horizontalpodautoscaler",
		worlds: worlds,
		atLeast: map[string]int{"update scale of deployments.apps": 25,
			"update status of horizontalpodautoscalers.autoscaling": 80},
		kinds: []client.Object{&autoscalingv2.HorizontalPodAutoscaler{}, &corev1.Pod{}},
		add:   podautoscaler.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			mapper := testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme)
			resources, err := resourceclient.NewForConfig(metricsConfig)
			if err != nil {
				return nil, err
			}
			externals, err := externalclient.NewForConfig(metricsConfig)
			if err != nil {
				return nil, err
			}
			versions := customclient.NewAvailableAPIsGetter(discovery.NewDiscoveryClientForConfigOrDie(metricsConfig))
			metrics := upstreammetrics.NewRESTMetricsClient(resources, customclient.NewForConfig(metricsConfig, mapper, versions), externals)
			a := upstream.NewHorizontalController(ctx, c.CoreV1(), scales{world: func() *world { return f.(*theirs).world }}, c.AutoscalingV2(), mapper, metrics,
				f.Autoscaling().V2().HorizontalPodAutoscalers(), f.Core().V1().Pods(), 24*time.Hour, 5*time.Minute, 0.1, 5*time.Minute, 30*time.Second)
			return func(ctx context.Context) { a.Run(ctx, 1) }, nil
		},
		order:        orderAutoscaler,
		undetermined: aPod,
		generate:     generateAutoscaler,
		later:        later,
	}.compare(t)
}

// aPod matches the name of a pod in messages. Of several pods with a fault, Kubernetes names any.
var aPod = regexp.MustCompile(`Pod p\d+`)

// orderAutoscaler removes the names of pods from messages.
func orderAutoscaler(w *world) {
	for _, o := range w.list(autoscalingv2.Resource("horizontalpodautoscalers")) {
		conditions := o.(*autoscalingv2.HorizontalPodAutoscaler).Status.Conditions
		for i := range conditions {
			conditions[i].Message = aPod.ReplaceAllString(conditions[i].Message, "a pod")
		}
	}
	w.mergeEvents(func(text string) string { return aPod.ReplaceAllString(text, "a pod") })
}

// metricsOf has the answers of the metrics APIs, by the namespace and the first part of the API group.
var metricsOf = map[string]map[string]any{}

// metricsConfig is the configuration of clients of the metrics APIs.
var metricsConfig = &rest.Config{Host: "http://metrics", Transport: metricsTransport{}, QPS: -1}

// metricsTransport answers requests to the metrics APIs.
type metricsTransport struct{}

func (metricsTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(code int, body any) (*http.Response, error) {
		data, err := json.Marshal(body)
		return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data))}, err
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/api":
		return answer(http.StatusOK, metav1.APIVersions{})
	case r.URL.Path == "/apis":
		v := metav1.GroupVersionForDiscovery{GroupVersion: "custom.metrics.k8s.io/v1beta2", Version: "v1beta2"}
		return answer(http.StatusOK, metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "custom.metrics.k8s.io", Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}}})
	case len(parts) > 5 && parts[3] == "namespaces":
		kind, _, _ := strings.Cut(parts[1], ".")
		if kind == "custom" && parts[6] != "*" {
			kind = "object"
		}
		if found := metricsOf[parts[4]][kind]; found != nil {
			return answer(http.StatusOK, found)
		}
	}
	status := apierrors.NewNotFound(schema.GroupResource{Group: parts[1], Resource: "metrics"}, "none").ErrStatus
	return answer(http.StatusNotFound, status)
}

// scales reads and writes the scales of Deployments.
type scales struct {
	scaleclient.ScaleInterface
	world     func() *world
	namespace string
}

func (s scales) Scales(namespace string) scaleclient.ScaleInterface {
	s.namespace = namespace
	return s
}

func (s scales) Get(_ context.Context, r schema.GroupResource, name string, _ metav1.GetOptions) (*autoscalingv1.Scale, error) {
	found, err := s.world().get(key{r, types.NamespacedName{Namespace: s.namespace, Name: name}})
	if err != nil {
		return nil, err
	}
	return scaleOf(found), nil
}

func (s scales) Update(_ context.Context, r schema.GroupResource, scale *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	return scale, s.world().setScale(key{r, types.NamespacedName{Namespace: s.namespace, Name: scale.Name}}, scale.Spec.Replicas)
}

// scaleOf returns the scale of a workload.
func scaleOf(o client.Object) *autoscalingv1.Scale {
	v := reflect.ValueOf(o).Elem()
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}}
	scale.Spec.Replicas = *v.FieldByName("Spec").FieldByName("Replicas").Interface().(*int32)
	scale.Status.Replicas = v.FieldByName("Status").FieldByName("Replicas").Interface().(int32)
	if selector, ok := v.FieldByName("Spec").FieldByName("Selector").Interface().(*metav1.LabelSelector); ok && selector != nil {
		scale.Status.Selector = metav1.FormatLabelSelector(selector)
	}
	return scale
}

// setScale sets the replicas of a workload.
func (w *world) setScale(k key, replicas int32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.check("update scale of", k); err != nil {
		return err
	}
	if w.objects[k] == nil {
		return apierrors.NewNotFound(k.GroupResource, k.Name)
	}
	o := w.objects[k].DeepCopyObject().(client.Object)
	reflect.ValueOf(o).Elem().FieldByName("Spec").FieldByName("Replicas").Set(reflect.ValueOf(&replicas))
	w.put(k, o, "update scale of")
	return nil
}

func generateAutoscaler(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	ns := namespace()
	replicas := random.Pick[int32](s, 0, 1, 2, 3, 3, 4, 5, 8, 12)
	d := &appsv1.Deployment{ObjectMeta: object(s, ns, "d"), Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}}
	d.Status.Replicas = max(replicas, 1) // Kubernetes divides by it
	if s.Chance(2) {
		d.Spec.Selector = nil
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: object(s, ns, "x")}
	hpa.Spec = newAutoscalerSpec(s)
	if s.Chance(30) {
		hpa.Status = autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: int32(s.IntN(5)), DesiredReplicas: int32(s.IntN(5)), LastScaleTime: ptr.To(metav1.NewTime(ago(s)))}
	}
	for _, kind := range []autoscalingv2.HorizontalPodAutoscalerConditionType{autoscalingv2.AbleToScale, autoscalingv2.ScalingActive, autoscalingv2.ScalingLimited, autoscalingv2.ScaledToZero} {
		if s.Chance(25) {
			hpa.Status.Conditions = append(hpa.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind, Status: random.Pick(s, corev1.ConditionTrue, corev1.ConditionFalse),
				Reason: "Earlier", Message: "earlier", LastTransitionTime: metav1.NewTime(ago(s))})
		}
	}
	objects := []client.Object{hpa, d}
	if s.Chance(3) {
		objects = objects[:1]
	}
	for _, pod := range newAutoscaledPods(s, ns, int(replicas)) {
		objects = append(objects, pod)
	}
	metricsOf[ns] = newMetrics(s, ns, objects)
	forbidden := apierrors.NewForbidden(corev1.Resource("deployments"), "", errors.New("exceeded quota"))
	return objects, hpa, refusing(s, forbidden, "update scale of deployments")
}

func newAutoscalerSpec(s *random.Source) autoscalingv2.HorizontalPodAutoscalerSpec {
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: ptr.To(int32(1 + s.IntN(4))),
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: random.Pick(s, "apps/v1", "apps/v1", "apps/v1", "apps/v1beta1"), Kind: "Deployment", Name: "d"}}
	if s.Chance(3) {
		spec.ScaleTargetRef.Kind = "Widget"
	}
	for range 1 + s.IntN(3) {
		spec.Metrics = append(spec.Metrics, newMetricSpec(s))
	}
	if s.Chance(20) && spec.Metrics[0].Type == autoscalingv2.ExternalMetricSourceType {
		spec.MinReplicas = ptr.To[int32](0)
	}
	spec.MaxReplicas = *spec.MinReplicas + int32(1+s.IntN(20))
	if s.Chance(40) {
		spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: newScalingRules(s, ptr.To[int32](0)), ScaleDown: newScalingRules(s, nil)}
	}
	return spec
}

func newScalingRules(s *random.Source, window *int32) *autoscalingv2.HPAScalingRules {
	r := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: window, SelectPolicy: ptr.To(random.Pick(s, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MaxChangePolicySelect,
		autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect))}
	if s.Chance(50) {
		r.StabilizationWindowSeconds = ptr.To(random.Pick[int32](s, 0, 15, 60, 300))
	}
	if s.Chance(30) {
		r.Tolerance = ptr.To(resource.MustParse(random.Pick(s, "0", "0.05", "0.5")))
	}
	for range 1 + s.IntN(2) {
		r.Policies = append(r.Policies, autoscalingv2.HPAScalingPolicy{Type: random.Pick(s, autoscalingv2.PodsScalingPolicy, autoscalingv2.PercentScalingPolicy),
			Value: random.Pick[int32](s, 1, 2, 4, 10, 50, 100), PeriodSeconds: random.Pick[int32](s, 15, 30, 60, 600)})
	}
	return r
}

func newMetricSpec(s *random.Source) autoscalingv2.MetricSpec {
	value := func() autoscalingv2.MetricTarget {
		return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: ptr.To(resource.MustParse(random.Pick(s, "10", "100m", "55")))}
	}
	average := func() autoscalingv2.MetricTarget {
		return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse(random.Pick(s, "10", "100m", "55")))}
	}
	usage := func(of corev1.ResourceName) autoscalingv2.MetricTarget {
		if s.Chance(25) {
			t := average()
			if of == corev1.ResourceMemory { // Kubernetes computes wrong numbers of replicas above 2³¹
				t.AverageValue = ptr.To(resource.MustParse(random.Pick(s, "64Mi", "100Mi")))
			}
			return t
		}
		return autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To(random.Pick[int32](s, 50, 80, 100, 20))}
	}
	id := autoscalingv2.MetricIdentifier{Name: "m"}
	if s.Chance(30) {
		id.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "x"}}
	}
	switch s.IntN(7) {
	case 0:
		of := random.Pick(s, corev1.ResourceCPU, corev1.ResourceMemory)
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: of, Container: random.Pick(s, "c", "c", "s", "none"), Target: usage(of)}}
	case 1:
		return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: id, Target: average()}}
	case 2:
		target := random.Pick(s, value(), average())
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{Metric: id, Target: target,
			DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "s"}}}
	case 3:
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: id, Target: random.Pick(s, value(), average())}}
	}
	of := random.Pick(s, corev1.ResourceCPU, corev1.ResourceCPU, corev1.ResourceMemory)
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: of, Target: usage(of)}}
}

// newAutoscaledPods returns about as many pods as there are replicas.
func newAutoscaledPods(s *random.Source, ns string, replicas int) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range max(0, replicas+s.IntN(3)-1) {
		meta := object(s, ns, fmt.Sprint("p", i))
		meta.Labels = labelled(s)
		pod := newPod(s, meta)
		if s.Chance(75) {
			pod.Status.Phase, pod.DeletionTimestamp = corev1.PodRunning, nil
		}
		pod.Status.StartTime = ptr.To(metav1.NewTime(ago(s)))
		if s.Chance(70) {
			pod.Status.StartTime = ptr.To(metav1.NewTime(ago(s).Add(-time.Hour)))
		}
		for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for j := range list {
				list[j].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(random.Pick(s, "100m", "100m", "250m")), corev1.ResourceMemory: resource.MustParse("64Mi")}
				if s.Chance(1) {
					delete(list[j].Resources.Requests, corev1.ResourceCPU)
				}
			}
		}
		if s.Chance(5) {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
			pod.Spec.Overhead = random.Pick(s, nil, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")})
		}
		pods = append(pods, pod)
	}
	return pods
}

// newMetrics returns the answers of the metrics APIs for the pods among objects.
func newMetrics(s *random.Source, ns string, objects []client.Object) map[string]any {
	load := random.Pick[int64](s, 5, 20, 50, 80, 120, 300)
	about := func() *resource.Quantity {
		return resource.NewMilliQuantity(load+int64(s.IntN(40)), resource.DecimalSI)
	}
	stamp := func() metav1.Time {
		return metav1.NewTime(s.Now.Truncate(time.Second).Add(-time.Duration(s.IntN(60)) * time.Second))
	}
	usage := &metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{}}
	values := &custom.MetricValueList{Items: []custom.MetricValue{}}
	for _, o := range objects {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			continue
		}
		if s.Chance(90) {
			m := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pod.Name}, Timestamp: stamp(), Window: metav1.Duration{Duration: 15 * time.Second}}
			for _, c := range append(pod.Spec.Containers, pod.Spec.InitContainers...) {
				use := corev1.ResourceList{corev1.ResourceCPU: *about(), corev1.ResourceMemory: *resource.NewQuantity((load+int64(s.IntN(20)))<<20, resource.BinarySI)}
				if s.Chance(3) {
					delete(use, corev1.ResourceCPU)
				}
				m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: use})
			}
			usage.Items = append(usage.Items, m)
		}
		if s.Chance(90) {
			values.Items = append(values.Items, custom.MetricValue{DescribedObject: corev1.ObjectReference{Name: pod.Name}, Timestamp: stamp(),
				WindowSeconds: random.Pick(s, nil, ptr.To[int64](30)), Value: *about()})
		}
	}
	one := &custom.MetricValueList{Items: []custom.MetricValue{{Timestamp: stamp(), Value: *resource.NewMilliQuantity(1000*int64(s.IntN(200)), resource.DecimalSI)}}}
	sum := &external.ExternalMetricValueList{Items: []external.ExternalMetricValue{}}
	for range s.IntN(3) {
		sum.Items = append(sum.Items, external.ExternalMetricValue{MetricName: "m", Timestamp: stamp(), Value: *resource.NewMilliQuantity(1000*int64(s.IntN(200)), resource.DecimalSI)})
	}
	all := map[string]any{}
	for _, list := range []struct {
		kind, version, api string
		object             any
	}{{"metrics", "metrics.k8s.io/v1beta1", "PodMetricsList", usage}, {"custom", "custom.metrics.k8s.io/v1beta2", "MetricValueList", values},
		{"object", "custom.metrics.k8s.io/v1beta2", "MetricValueList", one}, {"external", "external.metrics.k8s.io/v1beta1", "ExternalMetricValueList", sum}} {
		reflect.ValueOf(list.object).Elem().FieldByName("TypeMeta").Set(reflect.ValueOf(metav1.TypeMeta{APIVersion: list.version, Kind: list.api}))
		if s.Chance(96) {
			all[list.kind] = list.object
		}
	}
	return all
}

// changeAutoscaler returns changes of the metrics, and sometimes of the pods and of the specification.
func changeAutoscaler(s *random.Source, object client.Object) (changes []change) {
	ns := object.GetNamespace()
	for range 12 {
		c := change{after: time.Duration(random.Pick(s, 15, 15, 15, 30, 60, 120)) * time.Second}
		pods := newAutoscaledPods(s, ns, 1+s.IntN(10))
		var objects []client.Object
		for _, pod := range pods {
			pod.Status.Phase = corev1.PodRunning
			objects = append(objects, pod)
		}
		metrics := newMetrics(s, ns, objects)
		var spec *autoscalingv2.HorizontalPodAutoscalerSpec
		if s.Chance(10) {
			spec = ptr.To(newAutoscalerSpec(s))
		}
		c.make = func(w *world) {
			metricsOf[ns] = metrics
			for k := range w.objects {
				if k.Resource == "pods" {
					delete(w.objects, k)
				}
			}
			for _, o := range objects {
				w.objects[keyOf(o)] = o.DeepCopyObject().(client.Object)
			}
			if spec != nil {
				hpa := w.objects[keyOf(object)].DeepCopyObject().(*autoscalingv2.HorizontalPodAutoscaler)
				hpa.Spec = *spec.DeepCopy()
				hpa.Generation++
				w.objects[keyOf(object)] = hpa
			}
		}
		changes = append(changes, c)
	}
	return changes
}
