package podautoscaler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/pods/usage"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// deployment returns the Deployment "web", with requests of 100m.
func deployment(replicas int32, use string) *appsv1.Deployment {
	d := controllerstest.Deployment(replicas, "a")
	d.Spec.Template.Annotations = map[string]string{usage.Annotation: use}
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi")}
	return d
}

// autoscaler returns an autoscaler for the Deployment "web", with a target of 50 percent.
func autoscaler(least, most int32, change ...func(*autoscalingv2.HorizontalPodAutoscalerSpec)) *autoscalingv2.HorizontalPodAutoscaler {
	a := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		MinReplicas:    &least, MaxReplicas: most, Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](50)}}}}}}
	for _, c := range change {
		c(&a.Spec)
	}
	return a
}

func get(e controllerstest.Env) *autoscalingv2.HorizontalPodAutoscaler {
	e.Helper()
	a := &autoscalingv2.HorizontalPodAutoscaler{}
	e.Must(e.Get(e.Context(), controllerstest.Web, a))
	return a
}

// use sets the usage of the existing pods.
func use(e controllerstest.Env, text string) {
	e.Helper()
	list := &corev1.PodList{}
	e.Must(e.List(e.Context(), list, client.InNamespace("default")))
	for i := range list.Items {
		before := client.MergeFrom(list.Items[i].DeepCopy())
		list.Items[i].Annotations[usage.Annotation] = text
		e.Must(e.Patch(e.Context(), &list.Items[i], before))
	}
}

// conditions returns the reasons of the conditions.
func conditions(a *autoscalingv2.HorizontalPodAutoscaler) string {
	var list []string
	for _, c := range a.Status.Conditions {
		list = append(list, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// TestCPU scales by the CPU that pods use: up at once, and down after five minutes.
func TestCPU(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(deployment(1, "cpu=200m"), autoscaler(1, 6))
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		if d := e.Deployment(); *d.Spec.Replicas != 6 || d.Status.ReadyReplicas != 6 {
			t.Errorf("%d replicas, %d ready", *d.Spec.Replicas, d.Status.ReadyReplicas)
		}
		a := get(e)
		if c := a.Status.CurrentMetrics; len(c) != 1 || *c[0].Resource.Current.AverageUtilization != 200 || c[0].Resource.Current.AverageValue.String() != "200m" {
			t.Errorf("metrics %+v", c)
		}
		if got := conditions(a); got != "AbleToScale=True ReadyForNewScale, ScaledToZero=False NotScaledToZero, ScalingActive=True ValidMetricFound, ScalingLimited=True TooManyReplicas" {
			t.Errorf("conditions %s", got)
		}
		if *a.Status.ObservedGeneration != a.Generation || a.Status.DesiredReplicas != 6 || a.Status.CurrentReplicas != 6 {
			t.Errorf("status %+v", a.Status)
		}
		const up = "Normal SuccessfulRescale horizontal-pod-autoscaler: New size: 4; reason: cpu resource utilization (percentage of request) above target"
		if events := e.Events("HorizontalPodAutoscaler", "web"); !slices.Contains(events, up) {
			t.Errorf("events %q", events)
		}
		use(e, "cpu=15m")
		time.Sleep(4 * time.Minute) // virtual
		if d := e.Deployment(); *d.Spec.Replicas != 6 {
			t.Errorf("%d replicas within the window", *d.Spec.Replicas)
		}
		if got := conditions(get(e)); !strings.Contains(got, "AbleToScale=True ScaleDownStabilized") {
			t.Errorf("conditions %s", got)
		}
		time.Sleep(90 * time.Second) // virtual
		if d := e.Deployment(); *d.Spec.Replicas != 2 {
			t.Errorf("%d replicas after the window", *d.Spec.Replicas)
		}
		time.Sleep(time.Hour) // virtual
		if d := e.Deployment(); *d.Spec.Replicas != 1 {
			t.Errorf("%d replicas in the end", *d.Spec.Replicas)
		}
		if events := e.Events("HorizontalPodAutoscaler", "web"); !slices.Contains(events, "Normal SuccessfulRescale horizontal-pod-autoscaler: New size: 1; reason: All metrics below target") {
			t.Errorf("events %q", events)
		}
	})
}

// TestBehavior scales a script of usage at the rates of a behavior, by the memory of one container.
func TestBehavior(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		pods := func(n, period int32) *autoscalingv2.HPAScalingRules {
			return &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32),
				Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: n, PeriodSeconds: period}}}
		}
		d := deployment(1, "web/memory=1Gi|20m:1Mi")
		e.CreateAll(d, autoscaler(1, 10, func(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
			s.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: pods(2, 60), ScaleDown: pods(3, 60)}
			s.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
				Name: corev1.ResourceMemory, Container: "web", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
					AverageValue: ptr.To(resource.MustParse("64Mi"))}}}}
		}))
		var sizes []int32
		for range 8 {
			e.WaitIdle()
			sizes = append(sizes, *e.Deployment().Spec.Replicas)
			time.Sleep(50 * time.Second) // virtual
		}
		if want := []int32{1, 3, 5, 7, 9, 10, 10, 10}; !slices.Equal(sizes, want) {
			t.Errorf("sizes %v, want %v", sizes, want)
		}
		time.Sleep(40 * time.Minute) // virtual: all pods use 1Mi then
		if n := *e.Deployment().Spec.Replicas; n != 1 {
			t.Errorf("%d replicas in the end", n)
		}
	})
}

// TestWithoutMetrics: the condition and the event say that metrics are missing, without a write every 15 seconds.
func TestWithoutMetrics(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Without: []string{"metrics-server"}}, func(e controllerstest.Env) {
		e.CreateAll(deployment(2, "cpu=1"), autoscaler(1, 6, func(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
			s.Metrics = append(s.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: ptr.To(resource.MustParse("10"))}}},
				autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
					Metric: autoscalingv2.MetricIdentifier{Name: "requests"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("10"))}}})
		}))
		e.WaitIdle()
		a := get(e)
		time.Sleep(10 * time.Minute) // virtual
		e.WaitIdle()
		if again := get(e); again.ResourceVersion != a.ResourceVersion {
			t.Errorf("the status changes from %+v to %+v", a.Status, again.Status)
		}
		if got := conditions(a); got != "AbleToScale=True SucceededGetScale, ScalingActive=False FailedGetResourceMetric" {
			t.Errorf("conditions %s", got)
		}
		events := strings.Join(e.Events("HorizontalPodAutoscaler", "web"), "\n")
		for _, want := range []string{
			"FailedGetResourceMetric horizontal-pod-autoscaler: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)",
			"FailedGetExternalMetric horizontal-pod-autoscaler: unable to get external metric default/queue/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource (get queue.external.metrics.k8s.io)",
			"FailedGetPodsMetric horizontal-pod-autoscaler: unable to get metric requests: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
			"FailedComputeMetricsReplicas horizontal-pod-autoscaler: invalid metrics (3 invalid out of 3), first error is: failed to get cpu resource metric value:",
		} {
			if !strings.Contains(events, want) {
				t.Errorf("%s is missing in\n%s", want, events)
			}
		}
	})
}

// TestTargets scales other kinds, refuses ones without a scale, and detects two autoscalers of the same pods.
func TestTargets(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		template := controllerstest.Template("a")
		template.Labels = map[string]string{"app": "rc"}
		rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rc"}, Spec: corev1.ReplicationControllerSpec{Template: &template}}
		of := func(version, kind, name string) *autoscalingv2.HorizontalPodAutoscaler {
			a := autoscaler(2, 4)
			a.Name, a.Spec.ScaleTargetRef = name, autoscalingv2.CrossVersionObjectReference{APIVersion: version, Kind: kind, Name: name}
			return a
		}
		e.CreateAll(rc, of("v1", "ReplicationController", "rc"), of("apps/v9", "Deployment", "missing"), of("batch/v1", "Job", "job"), of("example.com/v1", "Widget", "w"))
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(rc), rc))
		if *rc.Spec.Replicas != 2 {
			t.Errorf("%d replicas", *rc.Spec.Replicas)
		}
		for name, want := range map[string]string{
			"missing": `deployments.apps "missing" not found`,
			"job":     scaleError(e, schema.GroupResource{Group: "batch", Resource: "jobs"}, "job"),
			"w":       `no matches for kind "Widget" in group "example.com"`,
		} {
			a := &autoscalingv2.HorizontalPodAutoscaler{}
			e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: name}, a))
			if c := a.Status.Conditions; len(c) != 1 || c[0].Type != autoscalingv2.AbleToScale || c[0].Status != corev1.ConditionFalse || c[0].Reason != "FailedGetScale" ||
				c[0].Message != "the HPA controller was unable to get the target's current scale: "+want {
				t.Errorf("%s: conditions %+v, want %s", name, c, want)
			}
			e.WantEvents("HorizontalPodAutoscaler", name, "Warning FailedGetScale horizontal-pod-autoscaler: "+want)
		}
		e.CreateAll(deployment(3, "cpu=1"), autoscaler(1, 9), func() client.Object { a := autoscaler(1, 9); a.Name = "other"; return a }())
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		if got := conditions(get(e)); !strings.Contains(got, "ScalingActive=False AmbiguousSelector") {
			t.Errorf("conditions %s", got)
		}
		e.Must(e.Delete(e.Context(), &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}}))
		e.Must(e.Delete(e.Context(), rc))
		time.Sleep(time.Minute) // virtual
		if n := *e.Deployment().Spec.Replicas; n != 9 {
			t.Errorf("%d replicas", n)
		}
	})
}

// scaleError returns the error of Kubernetes' client, if it reads the scale of an object.
func scaleError(e controllerstest.Env, resource schema.GroupResource, name string) string {
	e.Helper()
	kinds := discovery.NewDiscoveryClientForConfigOrDie(e.Plane.Config())
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	scales, err := scale.NewForConfig(e.Plane.Config(), mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(kinds))
	e.Must(err)
	if _, err = scales.Scales("default").Get(e.Context(), resource, name, metav1.GetOptions{}); err == nil {
		e.Fatalf("%s %s has a scale", resource, name)
	}
	return err.Error()
}

// TestWithoutRequests: a target of utilization needs the requests of the containers.
func TestWithoutRequests(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		d := deployment(1, "cpu=1")
		d.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		e.CreateAll(d, autoscaler(1, 6))
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		const why = "failed to get cpu utilization: missing request for cpu in container web of Pod "
		pod := e.PodNames("default")[0]
		wantInactive(e, "web", "FailedGetResourceMetric", "the HPA was unable to compute the replica count: "+why+pod)
		events := e.Events("HorizontalPodAutoscaler", "web")
		for _, want := range []string{"Warning FailedGetResourceMetric horizontal-pod-autoscaler: " + why + pod,
			"Warning FailedComputeMetricsReplicas horizontal-pod-autoscaler: invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: " + why + pod} {
			if !slices.Contains(events, want) {
				t.Errorf("%s is not in %q", want, events)
			}
		}
	})
}

// wantInactive checks the condition ScalingActive of an autoscaler.
func wantInactive(e controllerstest.Env, name, reason, message string) {
	e.Helper()
	a := &autoscalingv2.HorizontalPodAutoscaler{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: name}, a))
	for _, c := range a.Status.Conditions {
		if c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse && c.Reason == reason && c.Message == message {
			return
		}
	}
	e.Errorf("%s: the conditions are %+v, want %s %s", name, a.Status.Conditions, reason, message)
}

// TestSelectors: pods must have one autoscaler, and the scale of a target a selector that is valid.
func TestSelectors(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		crd := controllerstest.WidgetDefinition()
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		versions[0].(map[string]any)["subresources"] = map[string]any{"scale": map[string]any{
			"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}}
		e.Must(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
		e.CreateAll(crd, deployment(1, "cpu=10m"), autoscaler(1, 6))
		for name, selector := range map[string]string{"overlapping": "app in (web)", "invalid": "cheddar cheese", "missing": ""} {
			w := controllerstest.Widget(name)
			w.Object["spec"], w.Object["status"] = map[string]any{"replicas": int64(1)}, map[string]any{"replicas": int64(1), "selector": selector}
			a := autoscaler(1, 6)
			a.Name, a.Spec.ScaleTargetRef = name, autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1", Kind: "Widget", Name: name}
			e.CreateAll(w, a)
		}
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		const both = " are controlled by more than one HPA (e.g. [default/overlapping default/web])"
		const invalid = "couldn't convert selector into a corresponding internal selector object: " +
			"unable to parse requirement: found 'cheese', expected: in, notin, =, ==, !=, gt, lt"
		for _, want := range []struct{ name, reason, message, event string }{
			{"web", "AmbiguousSelector", "pods by selector app=web" + both, "AmbiguousSelector"},
			{"overlapping", "AmbiguousSelector", "pods by selector app in (web)" + both, "AmbiguousSelector"},
			{"invalid", "InvalidSelector", invalid, "InvalidSelector"},
			{"missing", "InvalidSelector", "the HPA target's scale is missing a selector", "SelectorRequired"},
		} {
			wantInactive(e, want.name, want.reason, want.message)
			message := want.message
			if want.event == "SelectorRequired" {
				message = "selector is required"
			}
			events := e.Events("HorizontalPodAutoscaler", want.name)
			for _, event := range []string{want.event, "FailedComputeMetricsReplicas"} {
				if text := "Warning " + event + " horizontal-pod-autoscaler: " + message; !slices.Contains(events, text) {
					t.Errorf("%s is not in %q", text, events)
				}
			}
		}
	})
}

// TestFaults scales while writes of the controller fail and it restarts.
func TestFaults(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
		e.CreateAll(deployment(1, "cpu=50m"), autoscaler(3, 9))
		step := 0
		e.RunWithFaults("horizontal-pod-autoscaler-controller", 3, func() {
			if step++; step%40 == 0 {
				a := get(e)
				before := client.MergeFrom(a.DeepCopy())
				a.Spec.MinReplicas = ptr.To(int32(min(2+step/40, 7)))
				e.Must(e.Patch(e.Context(), a, before))
			}
		}, func() bool { return step > 200 && *e.Deployment().Spec.Replicas == 7 })
		// Without metrics, the desired replicas in the status stay if the status was not written after a rescaling.
		if a := get(e); *e.Deployment().Spec.Replicas != 7 || a.Status.ObservedGeneration == nil || *a.Status.ObservedGeneration != a.Generation {
			t.Errorf("%d replicas, status %+v", *e.Deployment().Spec.Replicas, a.Status)
		}
	})
}

// TestScriptedUsage scales by the usage in the scripts of pods.
func TestScriptedUsage(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		d := deployment(1, "cpu=1m")
		d.Spec.Template.Annotations[pods.ScriptAnnotation] = "containers: [{runs: [{steps: [{usage: {cpu: 100m}}, {after: 5m, usage: {cpu: 10m}}]}]}]"
		e.CreateAll(d, autoscaler(1, 4))
		for _, want := range []struct {
			after    time.Duration
			replicas int32
		}{{4 * time.Minute, 4}, {20 * time.Minute, 1}} {
			time.Sleep(want.after) // virtual
			if a := get(e); a.Status.DesiredReplicas != want.replicas {
				t.Errorf("%v later there are %d replicas, want %d: %v", want.after, a.Status.DesiredReplicas, want.replicas, conditions(a))
			}
		}
	})
}
