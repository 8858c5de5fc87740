package etcd

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
)

func nodePortService(name string, nodePort int32) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: nodePort}}}}
}

// TestAllocations creates services on two servers at once. No address and no node port is allocated twice, and what one
// server has released, the other one can allocate at once.
func TestAllocations(t *testing.T) {
	c := startCluster(t, 1)
	ctx := t.Context()
	alone := func(o *controlplane.Options) { o.WithoutControllers = true }
	servers := []client.Client{
		clientFor(t, configOf(t, startPlane(t, c, "203.0.113.1", alone))),
		clientFor(t, configOf(t, startPlane(t, c, "203.0.113.2", alone))),
	}
	const services = 15
	var creating sync.WaitGroup
	won := make([]int, 5)
	var mu sync.Mutex
	for i, s := range servers {
		for j := range 3 {
			creating.Go(func() {
				for n := range services {
					// The free ports of services with equal hashes begin at the same place.
					if err := s.Create(ctx, nodePortService(fmt.Sprintf("free-%d-%d-%d", i, j, n), 0)); err != nil {
						t.Error(err)
					}
				}
				for n := range won {
					switch err := s.Create(ctx, nodePortService(fmt.Sprintf("fixed-%d-%d-%d", i, j, n), 31000+int32(n))); {
					case err == nil:
						mu.Lock()
						won[n]++
						mu.Unlock()
					case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "provided port is already allocated"):
						t.Error(err)
					}
				}
			})
		}
	}
	creating.Wait()
	for n, count := range won {
		if count != 1 {
			t.Errorf("%d services have the node port %d", count, 31000+n)
		}
	}
	list := &corev1.ServiceList{}
	if err := servers[0].List(ctx, list, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	ports, addresses := map[int32]string{}, map[string]string{}
	for _, s := range list.Items {
		if other, ok := addresses[s.Spec.ClusterIP]; ok {
			t.Errorf("%s and %s have the address %s", s.Name, other, s.Spec.ClusterIP)
		}
		addresses[s.Spec.ClusterIP] = s.Name
		for _, p := range s.Spec.Ports {
			if other, ok := ports[p.NodePort]; ok && p.NodePort != 0 {
				t.Errorf("%s and %s have the node port %d", s.Name, other, p.NodePort)
			}
			ports[p.NodePort] = s.Name
		}
	}
	if want := 2*3*services + len(won); len(ports) != want+1 {
		t.Errorf("%d services have node ports, want %d", len(ports)-1, want)
	}

	for n := range 6 {
		a, b := servers[n%2], servers[(n+1)%2]
		s := nodePortService("moving", 31500)
		s.Spec.ClusterIP = "10.96.3.7"
		if err := a.Create(ctx, s.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		if err := b.Create(ctx, nodePortService("other", 31500)); !apierrors.IsInvalid(err) {
			t.Errorf("a node port of the other server: %v", err)
		}
		if err := b.Delete(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
}
