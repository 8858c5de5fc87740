// Package metrics describes the kinds of the API group metrics.k8s.io. Their objects are computed from the pods and the
// nodes that are stored, as metrics-server computes them from kubelets.
package metrics

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/metrics/pkg/apis/metrics"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"flyball.dev/apiserver/kinds"
)

// window is the time that a metric covers, by default the time between two reads of metrics-server.
const window = 15 * time.Second

// Source is where the metrics come from. Its functions must be safe for concurrent use.
type Source struct {
	// Pods and Nodes return the storages of the pods and the nodes.
	Pods, Nodes func() rest.Storage
	// Usage returns the CPU and the memory that a container that runs uses at a time. It must not change the pod.
	Usage func(pod *corev1.Pod, container string, now time.Time) corev1.ResourceList
}

// PodMetrics describes the kind PodMetrics. A pod has metrics while a container runs.
//
//upstream:k8s.io/metrics/pkg/apis/metrics/v1beta1.PodMetrics
func (s *Source) PodMetrics() kinds.Kind {
	return kinds.Computed[*metricsv1beta1.PodMetrics]{
		Type: &metricsv1beta1.PodMetrics{}, List: &metricsv1beta1.PodMetricsList{},
		Plural: "pods", Namespaced: true, WithoutSingular: true,
		Objects: func(ctx context.Context, o *metainternalversion.ListOptions) (runtime.Object, error) {
			pods, err := s.pods(ctx, o)
			if err != nil {
				return nil, err
			}
			list, now := &metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{}}, time.Now()
			for i := range pods {
				if m, ok := s.ofPod(&pods[i], now); ok && selected(o, m.Namespace, m.Name) {
					list.Items = append(list.Items, *m)
				}
			}
			slices.SortFunc(list.Items, func(a, b metricsv1beta1.PodMetrics) int {
				return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
			})
			return list, nil
		},
		Find: func(ctx context.Context, name string) (*metricsv1beta1.PodMetrics, error) {
			pod, err := get(ctx, s.Pods(), "pods", name)
			if err != nil {
				return nil, err
			}
			if m, ok := s.ofPod(pod.(*corev1.Pod), time.Now()); ok {
				return m, nil
			}
			return nil, errors.NewNotFound(metrics.Resource("podmetrics"), request.NamespaceValue(ctx)+"/"+name)
		},
		Columns: metricColumns,
		Bare:    true,
		Row: func(m *metricsv1beta1.PodMetrics) []any {
			total := corev1.ResourceList{}
			for i := range m.Containers {
				add(total, m.Containers[i].Usage)
			}
			return row(m.Name, total, m.Window)
		},
	}
}

// NodeMetrics describes the kind NodeMetrics. A node uses what its pods use.
//
//upstream:k8s.io/metrics/pkg/apis/metrics/v1beta1.NodeMetrics
func (s *Source) NodeMetrics() kinds.Kind {
	return kinds.Computed[*metricsv1beta1.NodeMetrics]{
		Type: &metricsv1beta1.NodeMetrics{}, List: &metricsv1beta1.NodeMetricsList{},
		Plural: "nodes", WithoutSingular: true,
		Objects: func(ctx context.Context, o *metainternalversion.ListOptions) (runtime.Object, error) {
			found, err := s.Nodes().(rest.Lister).List(ctx, labelled(o))
			if err != nil {
				return nil, err
			}
			now := time.Now()
			usage, err := s.byNode(ctx, now)
			if err != nil {
				return nil, err
			}
			nodes, list := found.(*corev1.NodeList).Items, &metricsv1beta1.NodeMetricsList{Items: []metricsv1beta1.NodeMetrics{}}
			for i := range nodes {
				if selected(o, "", nodes[i].Name) {
					list.Items = append(list.Items, *ofNode(&nodes[i], usage[nodes[i].Name], now))
				}
			}
			slices.SortFunc(list.Items, func(a, b metricsv1beta1.NodeMetrics) int { return strings.Compare(a.Name, b.Name) })
			return list, nil
		},
		Find: func(ctx context.Context, name string) (*metricsv1beta1.NodeMetrics, error) {
			node, err := get(ctx, s.Nodes(), "nodes", name)
			if err != nil {
				return nil, err
			}
			now := time.Now()
			usage, err := s.byNode(ctx, now)
			if err != nil {
				return nil, err
			}
			return ofNode(node.(*corev1.Node), usage[name], now), nil
		},
		Columns: metricColumns,
		Bare:    true,
		Row:     func(m *metricsv1beta1.NodeMetrics) []any { return row(m.Name, m.Usage, m.Window) },
	}
}

// metricColumns are the columns of metrics-server's tables.
var metricColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"},
	{Name: "cpu", Type: "string", Format: "quantity"},
	{Name: "memory", Type: "string", Format: "quantity"},
	{Name: "Window", Type: "string", Format: "duration"},
}

func row(name string, usage corev1.ResourceList, w metav1.Duration) []any {
	return []any{name, usage.Cpu().String(), usage.Memory().String(), w.Duration.String()}
}

// get returns an object. Its error is of the core group, although the request is not.
func get(ctx context.Context, storage rest.Storage, resource, name string) (runtime.Object, error) {
	obj, err := storage.(rest.Getter).Get(ctx, name, &metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return nil, errors.NewNotFound(corev1.Resource(resource), name)
	}
	return obj, err
}

// labelled returns the label selector of a list alone. The storage does not know the fields of metrics, and has no pages of
// them.
func labelled(o *metainternalversion.ListOptions) *metainternalversion.ListOptions {
	if o == nil {
		return &metainternalversion.ListOptions{}
	}
	return &metainternalversion.ListOptions{LabelSelector: o.LabelSelector}
}

// selected reports whether the field selector of a list selects an object.
func selected(o *metainternalversion.ListOptions, namespace, name string) bool {
	return o == nil || o.FieldSelector == nil || o.FieldSelector.Matches(fields.Set{"metadata.namespace": namespace, "metadata.name": name})
}

// pods returns the pods in the namespace of a request.
func (s *Source) pods(ctx context.Context, o *metainternalversion.ListOptions) ([]corev1.Pod, error) {
	list, err := s.Pods().(rest.Lister).List(ctx, labelled(o))
	if err != nil {
		return nil, err
	}
	return list.(*corev1.PodList).Items, nil
}

// ofPod returns the metrics of a pod, or false if none of its containers runs.
func (s *Source) ofPod(pod *corev1.Pod, now time.Time) (*metricsv1beta1.PodMetrics, bool) {
	m := &metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels, CreationTimestamp: metav1.NewTime(now)},
		Timestamp:  metav1.NewTime(now),
		Window:     metav1.Duration{Duration: window},
	}
	for _, container := range running(pod) {
		m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: container, Usage: s.Usage(pod, container, now)})
	}
	return m, len(m.Containers) > 0
}

// running returns the names of the containers of a pod that run. If the status of a pod that runs does not have containers, all
// of them do.
func running(pod *corev1.Pod) (names []string) {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].State.Running != nil {
				names = append(names, list[i].Name)
			}
		}
	}
	if len(pod.Status.ContainerStatuses) == 0 && pod.Status.Phase == corev1.PodRunning {
		for i := range pod.Spec.Containers {
			names = append(names, pod.Spec.Containers[i].Name)
		}
	}
	return names
}

// byNode returns what the pods of all namespaces use, by their nodes.
func (s *Source) byNode(ctx context.Context, now time.Time) (map[string]corev1.ResourceList, error) {
	pods, err := s.pods(request.WithNamespace(ctx, metav1.NamespaceAll), nil)
	if err != nil {
		return nil, err
	}
	usage := map[string]corev1.ResourceList{}
	for i := range pods {
		node := pods[i].Spec.NodeName
		if node == "" {
			continue
		}
		if usage[node] == nil {
			usage[node] = corev1.ResourceList{}
		}
		for _, container := range running(&pods[i]) {
			add(usage[node], s.Usage(&pods[i], container, now))
		}
	}
	return usage, nil
}

// ofNode returns the metrics of a node.
func ofNode(node *corev1.Node, usage corev1.ResourceList, now time.Time) *metricsv1beta1.NodeMetrics {
	total := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(0, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(0, resource.BinarySI)}
	add(total, usage)
	return &metricsv1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, CreationTimestamp: metav1.NewTime(now)},
		Timestamp:  metav1.NewTime(now),
		Window:     metav1.Duration{Duration: window},
		Usage:      total,
	}
}

// add adds quantities to others.
func add(to, more corev1.ResourceList) {
	for name, q := range more {
		sum := to[name].DeepCopy()
		sum.Add(q)
		to[name] = sum
	}
}
