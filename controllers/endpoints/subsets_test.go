//lint:file-ignore SA1019 The controller maintains the deprecated kind Endpoints.
package endpoints

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers/internal/endpoints/fixture"
)

func service(change func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", CreationTimestamp: metav1.NewTime(fixture.Created)},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.9", Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("web")}},
		},
	}
	if change != nil {
		change(svc)
	}
	return svc
}

// describe returns the subsets as "http:8080 10.1.0.1 !10.1.0.2"; "!" means not ready.
func describe(subsets []corev1.EndpointSubset) (described []string) {
	for _, s := range subsets {
		var words []string
		for _, p := range s.Ports {
			words = append(words, fmt.Sprintf("%s:%d", p.Name, p.Port))
		}
		for _, a := range s.Addresses {
			words = append(words, strings.TrimSpace(a.IP+" "+a.Hostname))
		}
		for _, a := range s.NotReadyAddresses {
			words = append(words, "!"+a.IP)
		}
		described = append(described, strings.Join(words, " "))
	}
	return described
}

func TestEndpointsOfAService(t *testing.T) {
	publish := func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }
	for _, tc := range []struct {
		name string
		svc  func(*corev1.Service)
		pods []*corev1.Pod
		want []string
	}{
		{"no pods", nil, nil, nil},
		{"readiness", nil, []*corev1.Pod{fixture.Pod(2, fixture.NotReady), fixture.Pod(3, fixture.Terminating), fixture.Pod(1, nil)}, []string{"http:8080 10.1.0.1 !10.1.0.2"}},
		{"published", publish, []*corev1.Pod{fixture.Pod(2, fixture.NotReady), fixture.Pod(3, fixture.Terminating)}, []string{"http:8080 10.1.0.2 10.1.0.3"}},
		{"terminated, or without an address", publish, []*corev1.Pod{
			fixture.Pod(1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
			fixture.Pod(2, func(p *corev1.Pod) { p.Status.PodIPs = nil }),
		}, nil},
		{"the same name is another port in another pod, or none", nil, []*corev1.Pod{
			fixture.Pod(1, nil), fixture.Pod(2, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 9090 }),
			fixture.Pod(3, func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }),
		}, []string{"http:8080 10.1.0.1", "http:9090 10.1.0.2"}},
		{"several ports, in the order of their hashes", func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "a", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(7)})
		}, []*corev1.Pod{fixture.Pod(1, nil)}, []string{"http:8080 a:7 10.1.0.1"}},
		{"ports with the same addresses", func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "a", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(7)})
		}, []*corev1.Pod{fixture.Pod(1, nil), fixture.Pod(2, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 9090 })},
			[]string{"http:8080 10.1.0.1", "a:7 10.1.0.1 10.1.0.2", "http:9090 10.1.0.2"}},
		{"neither headless nor with ports", func(s *corev1.Service) { s.Spec.Ports = nil }, []*corev1.Pod{fixture.Pod(1, nil)}, nil},
		{"the family of the address", func(s *corev1.Service) { s.Spec.ClusterIP = "fd00::9" }, []*corev1.Pod{fixture.Pod(1, nil)}, []string{"http:8080 fd00::1"}},
		{"headless, without ports", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.Ports = corev1.ClusterIPNone, nil },
			[]*corev1.Pod{fixture.Pod(1, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "h", "web" })}, []string{"10.1.0.1 h"}},
		{"the first address family", func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		}, []*corev1.Pod{fixture.Pod(1, nil)}, []string{"http:8080 fd00::1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			svc := service(tc.svc)
			got := endpointsOf(svc, tc.pods, &corev1.Endpoints{})
			if d := cmp.Diff(tc.want, describe(got.Subsets)); d != "" {
				t.Errorf("subsets (-want +got):\n%s", d)
			}
			got.UID = "created"
			if d := cmp.Diff(got, endpointsOf(svc, tc.pods, got)); d != "" {
				t.Errorf("again (-first +second):\n%s", d)
			}
		})
	}
}

func TestMetadataOfEndpoints(t *testing.T) {
	svc := service(func(s *corev1.Service) {
		s.Labels, s.Spec.ClusterIP = map[string]string{"team": "a"}, corev1.ClusterIPNone
	})
	e := endpointsOf(svc, []*corev1.Pod{fixture.Pod(1, nil)}, &corev1.Endpoints{})
	want := metav1.ObjectMeta{
		Namespace: "default", Name: "web",
		Labels:      map[string]string{"team": "a", "service.kubernetes.io/headless": "", "endpoints.kubernetes.io/managed-by": "endpoint-controller"},
		Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-01-02T03:04:05Z"},
	}
	if d := cmp.Diff(want, e.ObjectMeta); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
	e.UID = "created"
	later := endpointsOf(svc, []*corev1.Pod{fixture.Pod(1, nil), fixture.Pod(9, nil)}, e).Annotations[corev1.EndpointsLastChangeTriggerTime]
	if want := "2026-01-02T03:04:06Z"; later != want {
		t.Errorf("after two pods became ready the trigger time is %s, want %s", later, want)
	}
}

// TestEndpointsOverCapacity has more pods than fit: those that are ready come first.
func TestEndpointsOverCapacity(t *testing.T) {
	var pods []*corev1.Pod
	for n := range capacity + 1 {
		pods = append(pods, fixture.Pod(n, nil))
	}
	fixture.NotReady(pods[0])
	e := endpointsOf(service(nil), pods, &corev1.Endpoints{})
	if s := e.Subsets[0]; len(s.Addresses) != capacity || len(s.NotReadyAddresses) != 0 || e.Annotations[corev1.EndpointsOverCapacity] != truncated {
		t.Errorf("%d and %d addresses, annotations %v", len(s.Addresses), len(s.NotReadyAddresses), e.Annotations)
	}
	e.UID = "created"
	if e = endpointsOf(service(nil), pods[1:], e); e.Annotations[corev1.EndpointsOverCapacity] != "" {
		t.Errorf("annotations %v", e.Annotations)
	}
}
