package podautoscaler

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/internal/quota"
)

// The defaults of kube-controller-manager.
//
//upstream:pkg/controller/podautoscaler/config/v1alpha1.RecommendedDefaultHPAControllerConfiguration
const (
	// cpuInitialization is the time after the start of a pod during which only CPU samples of its ready time count.
	cpuInitialization = 5 * time.Minute
	// initialReadinessDelay is the time after the start of a pod during which a change of readiness counts as the first.
	initialReadinessDelay = 30 * time.Second
	// defaultTolerance is the deviation of the usage from its target below which nothing is scaled.
	defaultTolerance = 0.1
)

// podMetric is a metric of a pod.
type podMetric struct {
	timestamp time.Time
	window    time.Duration
	value     int64 // in thousandths
}

// tolerances are the relative deviations below which nothing is scaled.
//
//upstream:pkg/controller/podautoscaler.Tolerances
type tolerances struct{ down, up float64 }

// within reports whether the ratio of the usage to its target needs no scaling.
func (t tolerances) within(ratio float64) bool { return 1-t.down <= ratio && ratio <= 1+t.up }

// calculator computes the replicas for one metric.
//
//upstream:pkg/controller/podautoscaler.ReplicaCalculator
type calculator struct {
	pods      []*corev1.Pod // of the target
	current   int32         // the replicas that the target should have
	tolerance tolerances
	now       time.Time
}

// errNoPods is the error for a target without pods.
var errNoPods = errors.New("no pods returned by selector while calculating replica count")

// utilization is the usage of a resource in relation to the requests.
type utilization struct {
	percent int32
	raw     int64 // the usage of a pod on average
}

// byUtilization returns the replicas for a target utilization in percent of the requests, of a container or, if its name is
// empty, of all containers.
//
//upstream:pkg/controller/podautoscaler.ReplicaCalculator.GetResourceReplicas
func (c *calculator) byUtilization(metrics map[string]podMetric, name corev1.ResourceName, container string,
	target int32) (replicas int32, u utilization, err error) {
	if len(c.pods) == 0 {
		return 0, u, errNoPods
	}
	g := c.group(metrics, name)
	if len(metrics) == 0 {
		return 0, u, errors.New("did not receive metrics for targeted pods (pods might be unready)")
	}
	requests, err := requestsOf(c.pods, container, name)
	if err != nil {
		return 0, u, err
	}
	ratio := func() (float64, utilization, error) { return utilizationRatio(metrics, requests, target) }
	usage, u, err := ratio()
	if err != nil {
		return 0, u, err
	}
	fill := func(pod string) int64 { return requests[pod] * int64(max(100, target)) / 100 }
	replicas, err = c.replicas(metrics, g, usage, fill, func() (float64, error) {
		usage, _, err := ratio()
		return usage, err
	})
	return replicas, u, err
}

// byAverage returns the replicas for a target value of a pod on average, and the average of the metrics. The name is empty
// for a metric that is not a resource.
//
//upstream:pkg/controller/podautoscaler.ReplicaCalculator.calcPlainMetricReplicas
func (c *calculator) byAverage(metrics map[string]podMetric, name corev1.ResourceName, target int64) (replicas int32, average int64, err error) {
	if len(c.pods) == 0 {
		return 0, 0, errNoPods
	}
	g := c.group(metrics, name)
	if len(metrics) == 0 {
		return 0, 0, errors.New("did not receive metrics for targeted pods (pods might be unready)")
	}
	usage, average := averageRatio(metrics, target)
	replicas, err = c.replicas(metrics, g, usage, func(string) int64 { return target }, func() (float64, error) {
		usage, _ := averageRatio(metrics, target)
		return usage, nil
	})
	return replicas, average, err
}

// replicas returns the replicas for the ratio of the usage to its target. If pods have no metrics, or are not ready while
// more are needed, they get the values that scale least, and the ratio is computed again; fill returns the value of a pod
// without metrics if fewer replicas are needed.
//
//upstream:pkg/controller/podautoscaler.ReplicaCalculator.GetResourceReplicas
//upstream:pkg/controller/podautoscaler.ReplicaCalculator.calcPlainMetricReplicas
func (c *calculator) replicas(metrics map[string]podMetric, g groups, usage float64, fill func(pod string) int64,
	again func() (float64, error)) (int32, error) {
	withUnready := len(g.unready) > 0 && usage > 1
	if !withUnready && len(g.missing) == 0 {
		if c.tolerance.within(usage) {
			return c.current, nil
		}
		return ceil(usage * float64(g.ready)), nil
	}
	for _, pod := range g.missing {
		switch {
		case usage < 1:
			metrics[pod] = podMetric{value: fill(pod)}
		case usage > 1:
			metrics[pod] = podMetric{}
		}
	}
	if withUnready {
		for _, pod := range g.unready {
			metrics[pod] = podMetric{}
		}
	}
	now, err := again()
	if err != nil {
		return 0, err
	}
	if c.tolerance.within(now) || usage < 1 && now > 1 || usage > 1 && now < 1 {
		return c.current, nil
	}
	replicas := ceil(now * float64(len(metrics)))
	if now < 1 && replicas > c.current || now > 1 && replicas < c.current {
		return c.current, nil
	}
	return replicas, nil
}

// byRatio returns the replicas for the ratio of a value of all pods together to its target.
//
//upstream:pkg/controller/podautoscaler.ReplicaCalculator.getUsageRatioReplicaCount
//upstream:pkg/controller/podautoscaler.ReplicaCalculator.getReadyPodsCount
func (c *calculator) byRatio(usage float64) (int32, error) {
	switch {
	case c.current == 0:
		return ceil(usage), nil
	case c.tolerance.within(usage):
		return c.current, nil
	case len(c.pods) == 0:
		return 0, fmt.Errorf("unable to calculate ready pods: %w", errNoPods)
	}
	ready := 0
	for _, pod := range c.pods {
		if pod.Status.Phase == corev1.PodRunning && podstate.Ready(pod) {
			ready++
		}
	}
	return ceil(usage * float64(ready)), nil
}

// byShare returns the replicas for a target share of each pod in a value, and the share that each of the existing replicas
// has.
//
//upstream:pkg/controller/podautoscaler.ReplicaCalculator.GetObjectPerPodMetricReplicas
//upstream:pkg/controller/podautoscaler.ReplicaCalculator.GetExternalPerPodMetricReplicas
func (c *calculator) byShare(value, target int64, existing int32) (replicas int32, share int64) {
	if existing == 0 {
		return ceil(float64(value) / float64(target)), value
	}
	replicas = existing
	if !c.tolerance.within(float64(value) / (float64(target) * float64(existing))) {
		replicas = ceil(float64(value) / float64(target))
	}
	if value == math.MaxInt64 {
		return replicas, value
	}
	return replicas, int64(math.Ceil(float64(value) / float64(existing)))
}

// groups are the pods of a target, by the state of their metrics.
type groups struct {
	ready            int
	unready, missing []string // the names of pods that are not ready, and of ready ones without metrics
}

// group groups the pods, and removes the metrics of pods that are not ready, have failed or are being deleted.
//
//upstream:pkg/controller/podautoscaler.groupPods
//upstream:pkg/controller/podautoscaler.removeMetricsForPods
func (c *calculator) group(metrics map[string]podMetric, name corev1.ResourceName) (g groups) {
	for _, pod := range c.pods {
		metric, found := metrics[pod.Name]
		switch {
		case pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed:
			delete(metrics, pod.Name)
		case pod.Status.Phase == corev1.PodPending:
			g.unready = append(g.unready, pod.Name)
		case !found:
			g.missing = append(g.missing, pod.Name)
		case name == corev1.ResourceCPU && c.starting(pod, metric):
			g.unready = append(g.unready, pod.Name)
		default:
			g.ready++
		}
	}
	for _, pod := range g.unready {
		delete(metrics, pod)
	}
	return g
}

// starting reports whether a CPU sample of a pod does not count, because the pod has not become ready yet or the sample
// includes time before that.
//
//upstream:pkg/controller/podautoscaler.groupPods
func (c *calculator) starting(pod *corev1.Pod, metric podMetric) bool {
	ready := podstate.Condition(pod, corev1.PodReady)
	if ready == nil || pod.Status.StartTime == nil {
		return true
	}
	since, start := ready.LastTransitionTime.Time, pod.Status.StartTime.Time
	if start.Add(cpuInitialization).After(c.now) {
		return ready.Status == corev1.ConditionFalse || metric.timestamp.Before(since.Add(metric.window))
	}
	return ready.Status == corev1.ConditionFalse && start.Add(initialReadinessDelay).After(since)
}

// utilizationRatio returns the ratio of the utilization to its target, and the utilization.
//
//upstream:pkg/controller/podautoscaler/metrics.GetResourceUtilizationRatio
func utilizationRatio(metrics map[string]podMetric, requests map[string]int64, target int32) (float64, utilization, error) {
	var usage, requested, n int64
	for pod, metric := range metrics {
		if request, ok := requests[pod]; ok {
			usage, requested, n = usage+metric.value, requested+request, n+1
		}
	}
	if requested == 0 {
		return 0, utilization{}, errors.New("no metrics returned matched known pods")
	}
	u := utilization{int32(usage * 100 / requested), usage / n}
	return float64(u.percent) / float64(target), u, nil
}

// averageRatio returns the ratio of the average of the metrics to its target, and the average.
//
//upstream:pkg/controller/podautoscaler/metrics.GetMetricUsageRatio
func averageRatio(metrics map[string]podMetric, target int64) (float64, int64) {
	total := int64(0)
	for _, metric := range metrics {
		total += metric.value
	}
	average := total / int64(len(metrics))
	return float64(average) / float64(target), average
}

// requestsOf returns the requests of pods by their names. It fails if a pod has none.
//
//upstream:pkg/controller/podautoscaler.calculateRequests
func requestsOf(pods []*corev1.Pod, container string, name corev1.ResourceName) (map[string]int64, error) {
	requests := map[string]int64{}
	for _, pod := range pods {
		n, err := requestOf(pod, container, name)
		if err != nil {
			return nil, err
		}
		requests[pod.Name] = n
	}
	return requests, nil
}

// requestOf returns the request of a pod or of one of its containers.
//
//upstream:pkg/controller/podautoscaler.calculatePodRequestsFromContainers
//upstream:pkg/controller/podautoscaler.calculatePodLevelRequests
func requestOf(pod *corev1.Pod, container string, name corev1.ResourceName) (int64, error) {
	if container == "" && hasPodRequests(pod) {
		requests, _ := quota.Requirements(pod)
		q, ok := requests[name]
		if overhead, more := pod.Spec.Overhead[name]; more {
			q.Add(overhead)
			ok = true
		}
		if !ok {
			return 0, fmt.Errorf("missing pod-level request for %s in Pod %s", name, pod.Name)
		}
		return q.MilliValue(), nil
	}
	total := int64(0)
	for _, c := range containersOf(pod) {
		if container != "" && container != c.Name {
			continue
		}
		q, ok := c.Resources.Requests[name]
		if !ok {
			return 0, fmt.Errorf("missing request for %s in container %s of Pod %s", name, c.Name, pod.Name)
		}
		if total += q.MilliValue(); container == c.Name {
			return total, nil
		}
	}
	if container != "" {
		return 0, fmt.Errorf("container %s not found in Pod %s", container, pod.Name)
	}
	return total, nil
}

// hasPodRequests reports whether the pod as a whole has requests.
//
//upstream:k8s.io/component-helpers/resource.IsPodLevelRequestsSet
func hasPodRequests(pod *corev1.Pod) bool {
	if pod.Spec.Resources == nil {
		return false
	}
	for name := range pod.Spec.Resources.Requests {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			return true
		}
	}
	return false
}

// containersOf returns the containers and the sidecars of a pod.
func containersOf(pod *corev1.Pod) []*corev1.Container {
	var list []*corev1.Container
	for i := range pod.Spec.Containers {
		list = append(list, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if podstate.IsSidecar(&pod.Spec.InitContainers[i]) {
			list = append(list, &pod.Spec.InitContainers[i])
		}
	}
	return list
}

// ceil rounds a number of replicas up.
func ceil(replicas float64) int32 {
	if replicas >= math.MaxInt32 {
		return math.MaxInt32
	}
	return int32(math.Ceil(replicas))
}
