package podautoscaler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var now = time.Unix(1_000_000, 0)

// pod returns a pod that has been ready for an hour and requests 100m of CPU in one container.
func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}}}}
	p.Status.Phase = corev1.PodRunning
	startedAgo(2*time.Hour, time.Hour, corev1.ConditionTrue)(p)
	for _, c := range change {
		c(p)
	}
	return p
}

func startedAgo(started, changed time.Duration, ready corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.StartTime = ptr.To(metav1.NewTime(now.Add(-started)))
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-changed))}}
	}
}

func pending(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }
func failed(p *corev1.Pod)  { p.Status.Phase = corev1.PodFailed }

// cpu returns the CPU metrics of the pods p0, p1 and so on. A negative one is missing.
func cpu(millis ...int64) map[string]podMetric {
	m := map[string]podMetric{}
	for i, n := range millis {
		if n >= 0 {
			m[fmt.Sprint("p", i)] = podMetric{now.Add(-5 * time.Second), 15 * time.Second, n}
		}
	}
	return m
}

// pods returns n pods that are ready, and others.
func pods(n int, more ...*corev1.Pod) []*corev1.Pod {
	var list []*corev1.Pod
	for i := range n {
		list = append(list, pod(fmt.Sprint("p", i)))
	}
	return append(list, more...)
}

func TestByUtilization(t *testing.T) {
	for _, tt := range []struct {
		name    string
		current int32
		pods    []*corev1.Pod
		metrics map[string]podMetric
		target  int32
		want    int32
		percent int32
		err     string
	}{
		{"twice the target", 2, pods(2), cpu(100, 100), 50, 4, 100, ""},
		{"half the target", 4, pods(4), cpu(25, 25, 25, 25), 50, 2, 25, ""},
		{"rounded up", 3, pods(3), cpu(60, 60, 60), 50, 4, 60, ""},
		{"within the tolerance above", 3, pods(3), cpu(55, 55, 55), 50, 3, 55, ""},
		{"within the tolerance below", 3, pods(3), cpu(45, 45, 45), 50, 3, 45, ""},
		{"a pod without a metric uses nothing if more are needed", 3, pods(3), cpu(100, 100, -1), 50, 4, 100, ""},
		{"a pod without a metric uses its request if fewer are needed", 3, pods(3), cpu(10, 10, -1), 50, 3, 10, ""},
		{"a missing metric does not reverse the direction", 3, pods(3), cpu(60, 60, -1), 50, 3, 60, ""},
		{"an unready pod uses nothing if more are needed", 2, pods(1, pod("p1", pending)), cpu(150, 0), 50, 3, 150, ""},
		{"an unready pod does not count if fewer are needed", 4, pods(2, pod("p2", pending), pod("p3", pending)), cpu(10, 10), 50, 1, 10, ""},
		{"a failed pod does not count", 3, pods(2, pod("p2", failed)), cpu(100, 100, 900), 50, 4, 100, ""},
		{"a pod that starts does not count", 2, pods(1, pod("p1", startedAgo(time.Minute, 8*time.Second, corev1.ConditionTrue))), cpu(40, 900), 50, 1, 40, ""},
		{"a pod that has started counts after a window", 2, pods(1, pod("p1", startedAgo(time.Minute, 30*time.Second, corev1.ConditionTrue))), cpu(100, 100), 50, 4, 100, ""},
		{"a pod that was never ready does not count", 2, pods(1, pod("p1", startedAgo(time.Hour, time.Hour-20*time.Second, corev1.ConditionFalse))), cpu(10, 900), 50, 1, 10, ""},
		{"a pod that is not ready any more counts", 2, pods(1, pod("p1", startedAgo(time.Hour, time.Minute, corev1.ConditionFalse))), cpu(100, 100), 50, 4, 100, ""},
		{"no pods", 2, nil, cpu(10), 50, 0, 0, "no pods returned by selector while calculating replica count"},
		{"only unready pods", 2, pods(0, pod("p0", pending)), cpu(10), 50, 0, 0, "did not receive metrics for targeted pods (pods might be unready)"},
		{"no request", 1, pods(0, pod("p0", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil })), cpu(10), 50, 0, 0,
			"missing request for cpu in container c of Pod p0"},
	} {
		c := &calculator{pods: tt.pods, current: tt.current, tolerance: tolerances{0.1, 0.1}, now: now}
		got, u, err := c.byUtilization(tt.metrics, corev1.ResourceCPU, "", tt.target)
		if err != nil || tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.err)
			}
			continue
		}
		if got != tt.want || u.percent != tt.percent {
			t.Errorf("%s: %d replicas at %d%%, want %d at %d%%", tt.name, got, u.percent, tt.want, tt.percent)
		}
	}
}

func TestRequestOf(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	request := func(name, n string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}}}
	}
	sidecar := request("sidecar", "20m")
	sidecar.RestartPolicy = &always
	spec := corev1.PodSpec{InitContainers: []corev1.Container{request("init", "9"), sidecar}, Containers: []corev1.Container{request("a", "100m"), request("b", "50m")}}
	whole := spec
	whole.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	whole.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
	for _, tt := range []struct {
		name, container string
		spec            corev1.PodSpec
		want            string
	}{
		{"all containers and sidecars", "", spec, "170"},
		{"one container", "b", spec, "50"},
		{"a sidecar", "sidecar", spec, "20"},
		{"an init container", "init", spec, "container init not found in Pod p"},
		{"the pod as a whole", "", whole, "1001"},
		{"one container of it", "b", whole, "50"},
	} {
		n, err := requestOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: tt.spec}, tt.container, corev1.ResourceCPU)
		got := fmt.Sprint(n)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// scalerOf returns a scaler with a range and a target utilization of 50 percent.
func scalerOf(least, most int32, change ...func(*autoscalingv2.HorizontalPodAutoscalerSpec)) *autoscalingv2.HorizontalPodAutoscaler {
	a := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		MinReplicas: &least, MaxReplicas: most, Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](50)}}}}}}
	for _, c := range change {
		c(&a.Spec)
	}
	return a
}

// rules returns scaling rules. The policies are such as "4 pods in 60" or "50% in 60".
func rules(window int32, selected autoscalingv2.ScalingPolicySelect, policies ...string) *autoscalingv2.HPAScalingRules {
	r := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window, SelectPolicy: &selected}
	for _, text := range policies {
		var p autoscalingv2.HPAScalingPolicy
		p.Type = autoscalingv2.PodsScalingPolicy
		format := "%d pods in %d"
		if strings.Contains(text, "%") {
			p.Type, format = autoscalingv2.PercentScalingPolicy, "%d%% in %d"
		}
		if _, err := fmt.Sscanf(text, format, &p.Value, &p.PeriodSeconds); err != nil {
			panic(err)
		}
		r.Policies = append(r.Policies, p)
	}
	return r
}

func behaves(up, down *autoscalingv2.HPAScalingRules) func(*autoscalingv2.HorizontalPodAutoscalerSpec) {
	return func(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
		s.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: up, ScaleDown: down}
	}
}

// TestPlan scales by a utilization that all pods have.
func TestPlan(t *testing.T) {
	const most, least = autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect
	slow := behaves(rules(0, most, "2 pods in 60"), rules(0, most, "1 pods in 60"))
	for _, tt := range []struct {
		name    string
		scaler  *autoscalingv2.HorizontalPodAutoscaler
		history history
		current int32
		percent int64
		want    int32
		reason  string
		able    string // the reasons of the conditions
		limited string
	}{
		{"up", scalerOf(1, 10), history{}, 2, 100, 4, "cpu resource utilization (percentage of request) above target", "ReadyForNewScale", "False DesiredWithinRange"},
		{"not more than twice", scalerOf(1, 100), history{}, 10, 200, 20, "cpu resource utilization (percentage of request) above target", "ReadyForNewScale", "True ScaleUpLimit"},
		{"not more than the maximum", scalerOf(1, 5), history{}, 4, 100, 5, "cpu resource utilization (percentage of request) above target", "ReadyForNewScale", "True TooManyReplicas"},
		{"down, but not from the first replicas", scalerOf(1, 10), history{}, 4, 25, 4, "All metrics below target", "ScaleDownStabilized", "False DesiredWithinRange"},
		{"down after the window", scalerOf(1, 10), history{recommendations: []entry{{replicas: 4, at: now.Add(-6 * time.Minute)}}}, 4, 25, 2, "All metrics below target",
			"ReadyForNewScale", "False DesiredWithinRange"},
		{"not below the minimum", scalerOf(3, 10), history{recommendations: []entry{{replicas: 3, at: now}}}, 4, 10, 3, "All metrics below target", "ScaleDownStabilized",
			"False DesiredWithinRange"},
		{"to the minimum", scalerOf(3, 10), history{recommendations: []entry{{replicas: 3, at: now.Add(-time.Hour)}}}, 4, 10, 3, "All metrics below target", "ReadyForNewScale",
			"True TooFewReplicas"},
		{"enough", scalerOf(1, 10), history{}, 3, 50, 3, "", "ReadyForNewScale", "False DesiredWithinRange"},
		{"above the maximum", scalerOf(1, 3), history{}, 4, 50, 3, "Current number of replicas above Spec.MaxReplicas", "SucceededGetScale", ""},
		{"below the minimum", scalerOf(5, 9), history{}, 4, 50, 5, "Current number of replicas below Spec.MinReplicas", "SucceededGetScale", ""},
		{"disabled", scalerOf(1, 9), history{}, 0, 0, 0, "", "SucceededGetScale", ""},

		{"at a rate, up", scalerOf(1, 100, slow), history{recommendations: []entry{}}, 10, 200, 12, "cpu resource utilization (percentage of request) above target",
			"ReadyForNewScale", "True ScaleUpLimit"},
		{"at a rate, up, after a change", scalerOf(1, 100, slow), history{recommendations: []entry{}, ups: []entry{{replicas: 1, at: now.Add(-30 * time.Second)}}}, 10, 200, 11,
			"cpu resource utilization (percentage of request) above target", "ReadyForNewScale", "True ScaleUpLimit"},
		{"at a rate, up, after an old change", scalerOf(1, 100, slow), history{recommendations: []entry{}, ups: []entry{{replicas: 1, at: now.Add(-90 * time.Second)}}}, 10, 200, 12,
			"cpu resource utilization (percentage of request) above target", "ReadyForNewScale", "True ScaleUpLimit"},
		{"at a rate, down", scalerOf(1, 100, slow), history{recommendations: []entry{}}, 10, 10, 9, "All metrics below target", "ReadyForNewScale", "True ScaleDownLimit"},
		{"the largest of the policies", scalerOf(1, 100, behaves(rules(0, most, "2 pods in 60", "50% in 60"), rules(0, most, "1 pods in 60"))),
			history{recommendations: []entry{}}, 10, 200, 15, "cpu resource utilization (percentage of request) above target", "ReadyForNewScale", "True ScaleUpLimit"},
		{"the smallest of the policies", scalerOf(1, 100, behaves(rules(0, least, "2 pods in 60", "50% in 60"), rules(0, most, "1 pods in 60"))),
			history{recommendations: []entry{}}, 10, 200, 12, "cpu resource utilization (percentage of request) above target", "ReadyForNewScale", "True ScaleUpLimit"},
		{"the smallest of the policies, down", scalerOf(1, 100, behaves(nil, rules(0, least, "2 pods in 60", "50% in 60"))),
			history{recommendations: []entry{}}, 10, 5, 8, "All metrics below target", "ReadyForNewScale", "True ScaleDownLimit"},
		{"never down", scalerOf(1, 100, behaves(nil, rules(0, autoscalingv2.DisabledPolicySelect))), history{recommendations: []entry{}}, 10, 5, 10,
			"All metrics below target", "ReadyForNewScale", "True ScaleDownLimit"},
		{"a window for scaling up", scalerOf(1, 100, behaves(rules(60, most, "100 pods in 60"), rules(0, most, "9 pods in 60"))),
			history{recommendations: []entry{{replicas: 12, at: now.Add(-30 * time.Second)}, {replicas: 30, at: now.Add(-10 * time.Second)}}}, 10, 100, 12,
			"cpu resource utilization (percentage of request) above target", "ScaleUpStabilized", "False DesiredWithinRange"},
		{"a tolerance", scalerOf(1, 100, behaves(&autoscalingv2.HPAScalingRules{Tolerance: ptr.To(resource.MustParse("0.5"))}, rules(0, most, "9 pods in 60"))),
			history{recommendations: []entry{}}, 10, 70, 10, "", "ReadyForNewScale", "False DesiredWithinRange"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: tt.current}, Status: autoscalingv1.ScaleStatus{Replicas: tt.current}}
			h := tt.history
			p := newPlan(tt.scaler, scale, &h, now)
			if p.needsMetrics() {
				var usage []int64
				for range tt.current {
					usage = append(usage, tt.percent)
				}
				if err := p.compute(pods(int(tt.current)), []sample{{pods: cpu(usage...)}}); err != nil {
					t.Fatal(err)
				}
			}
			if p.desired != tt.want || p.reason != tt.reason || p.rescales() != (tt.want != tt.current) {
				t.Errorf("%d replicas, %q; want %d, %q", p.desired, p.reason, tt.want, tt.reason)
			}
			able, limited := "", ""
			for _, c := range p.status().Conditions {
				switch c.Type {
				case autoscalingv2.AbleToScale:
					able = c.Reason
				case autoscalingv2.ScalingLimited:
					limited = string(c.Status) + " " + c.Reason
				}
			}
			if able != tt.able || limited != tt.limited {
				t.Errorf("AbleToScale %q, ScalingLimited %q; want %q, %q", able, limited, tt.able, tt.limited)
			}
		})
	}
}

// TestScaleToZero scales to zero by a queue, and up again, but not if somebody else has scaled to zero.
func TestScaleToZero(t *testing.T) {
	queue := func(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
		s.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
				AverageValue: ptr.To(resource.MustParse("10"))}}}}
	}
	step := func(a *autoscalingv2.HorizontalPodAutoscaler, current int32, length int64) int32 {
		h := history{recommendations: []entry{}}
		p := newPlan(a, &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: current}, Status: autoscalingv1.ScaleStatus{Replicas: current}}, &h, now)
		if p.needsMetrics() {
			if err := p.compute(pods(int(current)), []sample{{value: 1000 * length}}); err != nil {
				t.Fatal(err)
			}
		}
		if p.rescales() {
			p.rescaled()
		}
		a.Status = p.status()
		return p.desired
	}
	a := scalerOf(0, 10, queue)
	if n := step(a, 2, 0); n != 0 {
		t.Errorf("%d replicas for an empty queue", n)
	}
	if n := step(a, 0, 25); n != 3 {
		t.Errorf("%d replicas for a queue of 25", n)
	}
	if n := step(a, 0, 25); n != 0 { // it has scaled to 3, and a user to 0
		t.Errorf("%d replicas after a user has scaled to zero", n)
	}
}

// TestFailures: a metric that fails prevents scaling down, and the first failure is the condition.
func TestFailures(t *testing.T) {
	two := func(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
		s.Metrics = append(s.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "requests"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
				AverageValue: ptr.To(resource.MustParse("10"))}}})
	}
	lost := sample{err: errors.New("lost")}
	for _, tt := range []struct {
		name      string
		samples   []sample
		want      int32
		condition string
		err       string
	}{
		{"up", []sample{{pods: cpu(100, 100)}, lost}, 4, "True ValidMetricFound", "invalid metrics (1 invalid out of 2), first error is: failed to get pods metric value: lost"},
		{"down", []sample{{pods: cpu(10, 10)}, lost}, 2, "False FailedGetPodsMetric", "invalid metrics (1 invalid out of 2), first error is: failed to get pods metric value: lost"},
		{"both", []sample{lost, lost}, 2, "False FailedGetResourceMetric",
			"invalid metrics (2 invalid out of 2), first error is: failed to get cpu resource metric value: failed to get cpu utilization: lost"},
	} {
		h := history{recommendations: []entry{}}
		a := scalerOf(1, 10, two)
		a.Status.DesiredReplicas = 7
		p := newPlan(a, &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}, Status: autoscalingv1.ScaleStatus{Replicas: 2}}, &h, now)
		err := p.compute(pods(2), tt.samples)
		if err == nil || err.Error() != tt.err {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.err)
		}
		status, condition := p.status(), ""
		for _, c := range status.Conditions {
			if c.Type == autoscalingv2.ScalingActive {
				condition = string(c.Status) + " " + c.Reason
			}
		}
		if p.desired != tt.want || condition != tt.condition || p.failed != (status.DesiredReplicas == 7) || len(status.CurrentMetrics) != 2 {
			t.Errorf("%s: %d replicas, %s, status %+v; want %d, %s", tt.name, p.desired, condition, status, tt.want, tt.condition)
		}
	}
}

// TestHistory: entries outside of all windows are replaced.
func TestHistory(t *testing.T) {
	h := history{}
	behavior := &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0, autoscalingv2.MaxChangePolicySelect, "1 pods in 1800"),
		ScaleDown: rules(0, autoscalingv2.MaxChangePolicySelect, "1 pods in 600", "1 pods in 60")}
	for i := range 1000 {
		at := now.Add(time.Duration(i) * time.Minute)
		h.begin(1, at)
		h.stabilize(1, at)
		h.scaled(behavior, 1, 2, at)
		h.scaled(behavior, 2, 1, at)
		h.scaled(nil, 1, 2, at)
	}
	if len(h.recommendations) != 7 || len(h.ups) != 31 || len(h.downs) != 11 {
		t.Errorf("%d recommendations, %d and %d changes", len(h.recommendations), len(h.ups), len(h.downs))
	}
}

func TestOverlapping(t *testing.T) {
	parse := func(text string) labels.Selector {
		s, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	key := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	scalers := map[types.NamespacedName]*scaler{key("x", "a"): {selector: parse("app=a")}, key("x", "b"): {selector: parse("app in (a,b)")},
		key("x", "new"): {}, key("y", "a"): {selector: parse("app=a")}}
	for app, want := range map[string]string{"a": "[x/a x/b]", "b": "[x/b]", "c": "[]"} {
		of := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}}
		if got := fmt.Sprint(overlapping(scalers, "x", []*corev1.Pod{of, of})); got != want {
			t.Errorf("%s: %s, want %s", app, got, want)
		}
	}
}
