package controllers_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/metrics"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// written is a storage that counts the writes of each key.
type written struct {
	*memory.Store
	mu  sync.Mutex
	key map[string]int
}

func (s *written) count(writes ...storage.Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range writes {
		s.key[w.Key]++
	}
}

// take returns the counts since the last call.
func (s *written) take() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.key
	s.key = map[string]int{}
	return last
}

func (s *written) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	s.count(w)
	return s.Store.Put(ctx, w)
}

func (s *written) Delete(ctx context.Context, key string, revision uint64) (*storage.Record, error) {
	s.count(storage.Write{Key: key})
	return s.Store.Delete(ctx, key, revision)
}

func (s *written) Commit(ctx context.Context, writes []storage.Write) ([]*storage.Record, error) {
	s.count(writes...)
	return s.Store.Commit(ctx, writes)
}

// TestRest: a cluster at rest writes the Lease of each node every 10 seconds and the status of each node every 5 minutes, and nothing
// else, whatever kinds of objects it has. No controller reconciles more than 12 times a minute, so none is busy.
func TestRest(t *testing.T) {
	const hours, limit = 2, 12 * 60
	synctest.Test(t, func(t *testing.T) {
		store := &written{Store: memory.New(memory.Options{}), key: map[string]int{}}
		controllerstest.WithPlane(t, controlplane.Options{Storage: store}, func(e controllerstest.Env) {
			e.CreateAll(restingObjects()...)
			time.Sleep(10 * time.Minute) // of virtual time
			store.take()
			before := reconciles(e)
			time.Sleep(hours * time.Hour)
			written := store.take()
			if len(written) == 0 {
				t.Error("the lease of the node was not renewed")
			}
			for key, n := range written {
				most := 0
				switch {
				case strings.HasPrefix(key, "/registry/leases/kube-node-lease/"):
					most = hours*360 + 1
				case strings.HasPrefix(key, "/registry/minions/"):
					most = hours*12 + 1
				}
				if n > most {
					t.Errorf("%s was written %d times in %d hours", key, n, hours)
				}
			}
			after := reconciles(e)
			for _, name := range slices.Sorted(maps.Keys(after)) {
				if n := after[name] - before[name]; n > hours*limit {
					t.Errorf("%s has reconciled %d times in %d hours, want at most %d", name, n, hours, hours*limit)
				}
			}
		})
	})
}

// restingObjects returns objects of the kinds that controllers act on.
func restingObjects() []client.Object {
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	agent, legacy := controllerstest.Template("a"), controllerstest.Template("a")
	agent.Labels, legacy.Labels = map[string]string{"app": "agent"}, map[string]string{"app": "legacy"}
	legacy.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")} // and the pod uses all of it
	balanced := func(name, address string) *corev1.Service {
		return &corev1.Service{ObjectMeta: in(name), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerIP: address,
			Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	return []client.Object{
		&corev1.ResourceQuota{ObjectMeta: in("quota"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("100")}}},
		controllerstest.Deployment(20, "a"),
		controllerstest.Service(),
		controllerstest.StatefulSet(2, "a"),
		controllerstest.Job(3, nil),
		controllerstest.CronJob("0 0 1 1 *", nil, func(s *batchv1.CronJobSpec) { s.Suspend = ptr.To(true) }),
		&policyv1.PodDisruptionBudget{ObjectMeta: in("budget"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: web}},
		&appsv1.DaemonSet{ObjectMeta: in("agent"), Spec: appsv1.DaemonSetSpec{Template: agent, Selector: &metav1.LabelSelector{MatchLabels: agent.Labels}}},
		&corev1.ReplicationController{ObjectMeta: in("legacy"), Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](2), Template: &legacy}},
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: in("legacy"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "ReplicationController", Name: "legacy"},
			MinReplicas:    ptr.To[int32](1), MaxReplicas: 4}},
		balanced("any", ""), balanced("asks", "192.0.2.7"), balanced("waits", "192.0.2.7"),
		&networkingv1.Ingress{ObjectMeta: in("in"), Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "any", Port: networkingv1.ServiceBackendPort{Number: 80}}}}},
	}
}

// reconciles returns the number of reconciles of each controller in this process.
func reconciles(e controllerstest.Env) map[string]int {
	e.Helper()
	families, err := metrics.Registry.Gather()
	e.Must(err)
	counts := map[string]int{}
	for _, f := range families {
		if f.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "controller" {
					counts[label.GetValue()] += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return counts
}
